// The recipes that come with the program, in the language of users' rules: `recipes show` prints
// what stands here.
#include "base/error.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {
namespace {

struct Row {
  std::string_view name, summary, architecture, needs;
  std::vector<std::string_view> rules;  // one after the other
};

constexpr std::string_view kBf16 = "bf16";
constexpr std::string_view kDirectAlias = "direct";
constexpr std::string_view kDense = "Qwen3_5ForCausalLM";

constexpr std::string_view kKeep = R"(
["*"]
format = "keep"
)";

constexpr std::string_view kQ8 = R"(
["*"]
kind = "projection"
format = "q8"
["text/{token_embedding,output_head}"]
format = "q8"
)";

constexpr std::string_view kQ6 = R"(
["*"]
kind = "projection"
format = "q6"
["text/{token_embedding,output_head}"]
format = "q6"
)";

constexpr std::string_view kQ5 = R"(
["*"]
kind = "projection"
format = "q5"
["text/{token_embedding,output_head}"]
format = "q6"
)";

constexpr std::string_view kQ4 = R"(
["*"]
kind = "projection"
format = "q4"
["text/{token_embedding,output_head}"]
format = "q6"
)";

constexpr std::string_view kGgufQ4K = R"(
["*"]
kind = "projection"
format = "gguf_q4_k"
otherwise = "q8"
["text/{token_embedding,output_head}"]
format = "gguf_q6_k"
otherwise = "q8"
)";

constexpr std::string_view kFp8 = R"(
["*"]
kind = "projection"
format = "fp8"
["text/{token_embedding,output_head}"]
format = "fp8"
)";

// The layout wants 128 rows and 64 columns; what has others stays near.
constexpr std::string_view kNvfp4 = R"(
["*"]
kind = "projection"
format = "nvfp4"
otherwise = "q8"
["text/{token_embedding,output_head}"]
format = "q8"
)";

// Four bits where errors average out over many inputs; six where they go into the residual stream
// unmixed (values, the way out of the feed-forward) or are kept for the whole sequence (the values
// of Gated DeltaNet), and for the vocabulary.
constexpr std::string_view kDefault = R"(
["*"]
kind = "projection"
format = "q4"
["*/{attention/value,mlp/down,gdn/value,gdn/output}"]
kind = "projection"
format = "q6"
["text/{token_embedding,output_head}"]
format = "q6"
["{mtp,dflash,dflash2,vision}/*"]
kind = "projection"
format = "q8"
)";

// What every recipe of the Qwen3.5 family says about the components beside text.
constexpr std::string_view kFamily = R"(
["vision/patch_embedding"]
format = "q6"
policy = "A16Only"
["vision/merger/{fc1,fc2}"]
format = "q8"
policy = "A16Only"
["vision/layers/*/{attention/query,attention/key,attention/value,mlp/fc1}"]
format = "q4"
policy = "A16Only"
["vision/layers/*/{attention/output,mlp/fc2}"]
format = "q5"
policy = "A16Only"
["{mtp,dflash,dflash2}/*"]
kind = "projection"
format = "q8"
policy = "A16Only"
["{dflash,dflash2}/layers/*/attention/context_key"]
share = "key"
["{dflash,dflash2}/layers/*/attention/context_value"]
share = "value"
)";

constexpr std::string_view kSeparateAb = R"(
["text/layers/*/gdn/{a_projection,b_projection}"]
separate = true
)";

constexpr std::string_view kDense27b = R"(
["text/layers/*"]
kind = "projection"
format = "q5"
policy = "A16Only"
["text/layers/*/{attention/query,attention/key,gdn/query,gdn/key,mlp/gate,mlp/up}"]
format = "q4"
policy = "A16Only"
)";

constexpr std::string_view kVocabularyQ6 = R"(
["text/{token_embedding,output_head}"]
format = "q6"
policy = "A16Only"
)";

constexpr std::string_view kVocabularyQ8 = R"(
["text/{token_embedding,output_head}"]
format = "q8"
policy = "A16Only"
)";

constexpr std::string_view kGateUpQ6 = R"(
["text/layers/*/mlp/{gate,up}"]
format = "q6"
policy = "A16Only"
)";

constexpr std::string_view kMixture = R"(
["text/layers/*"]
kind = "projection"
format = "q8"
policy = "A16Only"
["text/layers/*/moe/experts/*/{gate,up}"]
format = "q4"
policy = "A16Only"
["text/layers/*/moe/experts/*/down"]
format = "q5"
policy = "A16Only"
["text/layers/{34,38,39}/moe/experts/*/down"]
format = "q6"
policy = "A16Only"
["text/token_embedding"]
format = "q8"
["text/output_head"]
format = "q6"
policy = "A16Only"
)";

constexpr std::string_view kMixtureNvfp4 = R"(
["text/layers/*/moe/{experts/*/gate,experts/*/up,experts/*/down,shared/gate,shared/up,shared/down}"]
format = "nvfp4"
encoder = "import_encoded"
policy = "AllowA4"
)";

constexpr std::string_view kDense27bNvfp4 = R"(
["text/layers/*"]
kind = "projection"
format = "nvfp4"
encoder = "import_encoded"
policy = "AllowA4"
["text/layers/{0-23}/attention/{query,key,gate,value}"]
format = "direct"
["text/layers/{3,7}/attention/output"]
format = "direct"
["text/layers/4/gdn/output"]
format = "direct"
)";

constexpr std::string_view kFp8Imported = R"(
["text/token_embedding"]
format = "fp8"
encoder = "fp8_row_maxabs"
["text/output_head"]
format = "fp8"
encoder = "import_encoded"
["text/layers/*"]
kind = "projection"
format = "fp8"
encoder = "import_encoded"
)";

constexpr std::string_view kMlpNvfp4 = R"(
["text/layers/{0-55}/mlp/{gate,up,down}"]
format = "nvfp4"
encoder = "import_encoded"
policy = "AllowA4"
)";

constexpr std::string_view kAllMlpNvfp4 = R"(
["text/layers/*/mlp/{gate,up,down}"]
format = "nvfp4"
encoder = "import_encoded"
policy = "AllowA4"
)";

constexpr std::string_view kHeadFp8Encoded = R"(
["text/{token_embedding,output_head}"]
format = "fp8"
encoder = "fp8_row_maxabs"
)";

constexpr std::string_view kTernary = R"(
["text/*"]
kind = "projection"
format = "t2"
encoder = "import_encoded"
["text/{token_embedding,output_head}"]
format = "t2"
encoder = "import_encoded"
["text/layers/*/attention/{query,key}"]
group = ["query", "key"]
["text/layers/*/attention/{gate,value}"]
group = ["gate", "value"]
["text/layers/*/gdn/{query,key}"]
group = ["query", "key"]
["text/layers/*/gdn/{value,z}"]
group = ["value", "z"]
["dflash2/*"]
kind = "projection"
format = "q4"
["dflash2/layers/*/attention/{query,key,value,context_key,context_value}"]
format = "q8"
)";

constexpr std::string_view kGguf = R"(
["text/*"]
kind = "projection"
format = "keep"
policy = "AllowA8"
["text/layers/*/gdn/{a_projection,b_projection}"]
format = "keep"
separate = true
["text/{token_embedding,output_head}"]
format = "keep"
policy = "AllowA8"
)";

constexpr std::string_view kNeedsDraft = "the import of components dflash and dflash2";
constexpr std::string_view kNeedsMixture = "a graph for mixtures of experts, to run what it makes";
constexpr std::string_view kNeedsNvfp4 =
    "checkpoints with NVFP4 weights and the divisors of their activations";

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {kBf16, "every parameter in its direct format; also called direct", "", "", {}},
      {"keep", "every tensor in its stored type", "", "", {kKeep}},
      {"q8", "projections, embedding and head q8_g32", "", "", {kQ8}},
      {"q6", "projections, embedding and head q6_g64", "", "", {kQ6}},
      {"q5", "projections q5_g64, embedding and head q6_g64", "", "", {kQ5}},
      {"q4", "projections q4_g64, embedding and head q6_g64", "", "", {kQ4}},
      {"gguf_q4_k",
       "projections gguf_q4_k, embedding and head gguf_q6_k; q8_g32 where rows are no whole blocks",
       "",
       "",
       {kGgufQ4K}},
      {"fp8", "projections, embedding and head fp8_e4m3fn_row_bf16", "", "", {kFp8}},
      {"nvfp4",
       "projections nvfp4 where shapes allow, else q8_g32; embedding and head q8_g32",
       "",
       "",
       {kNvfp4}},
      {"default",
       "projections q4_g64; values, the way out of the feed-forward and of Gated "
       "DeltaNet, embedding and head q6_g64; drafts and vision q8_g32",
       "",
       "",
       {kDefault}},
      {"qwen3_6_27b",
       "q5_g64 with query, key, gate and up q4_g64; embedding and head q6_g64",
       kDense,
       kNeedsDraft,
       {kFamily, kSeparateAb, kDense27b, kVocabularyQ6}},
      {"qwen3_8_27b",
       "qwen3_6_27b with embedding and head q8_g32",
       kDense,
       kNeedsDraft,
       {kFamily, kSeparateAb, kDense27b, kVocabularyQ8}},
      {"qwen3_8_27b_q6",
       "qwen3_8_27b with gate and up q6_g64",
       kDense,
       kNeedsDraft,
       {kFamily, kSeparateAb, kDense27b, kVocabularyQ8, kGateUpQ6}},
      {"qwen3_6_35b_a3b",
       "experts q4_g64 and q5_g64, other projections q8_g32, head q6_g64",
       "Qwen3_5MoeForCausalLM",
       kNeedsMixture,
       {kFamily, kMixture}},
      {"qwen3_6_35b_a3b_nvfp4",
       "qwen3_6_35b_a3b with imported nvfp4 experts",
       "Qwen3_5MoeForCausalLM",
       kNeedsMixture,
       {kFamily, kMixture, kMixtureNvfp4}},
      {"qwen3_6_27b_nvfp4",
       "imported nvfp4, some layers bf16; embedding and head q8_g32",
       kDense,
       kNeedsNvfp4,
       {kFamily, kSeparateAb, kDense27bNvfp4, kVocabularyQ8}},
      {"qwen3_8_27b_nvfp4",
       "imported FP8, feed-forward of layers 0 to 55 imported nvfp4",
       kDense,
       kNeedsNvfp4,
       {kFamily, kFp8Imported, kMlpNvfp4}},
      {"qwen3_8_27b_nvfp4_allmlp",
       "imported FP8, every feed-forward imported nvfp4",
       kDense,
       kNeedsNvfp4,
       {kFamily, kFp8Imported, kAllMlpNvfp4, kHeadFp8Encoded}},
      {"qwen3_8_27b_nvfp4_vocab",
       "qwen3_8_27b_nvfp4 with embedding and head encoded",
       kDense,
       kNeedsNvfp4,
       {kFamily, kFp8Imported, kMlpNvfp4, kHeadFp8Encoded}},
      {"bonsai2_27b_ternary",
       "imported ternary words throughout",
       kDense,
       "GGUF files with rotated ternary blocks",
       {kTernary}},
      {"qwen3_8_27b_gguf",
       "each tensor of a GGUF file in its own blocks",
       kDense,
       "",
       {kFamily, kGguf}},
      {"qwen3_8_flash_next_gguf",
       "each tensor of a GGUF file in its own blocks, else direct",
       "Qwen4ExpForCausalLM",
       "the Flash-Next text component",
       {kGguf}},
  };
  return kRows;
}

std::vector<Recipe> make_recipes() {
  std::vector<Recipe> out;
  for (const Row& row : rows()) {
    Recipe& recipe = out.emplace_back();
    recipe.name = row.name;
    recipe.summary = row.summary;
    recipe.architecture = row.architecture;
    recipe.needs = row.needs;
    for (std::string_view text : row.rules)
      for (Rule& rule : parse_rules(text, "recipe " + recipe.name)) {
        rule.where.clear();  // places are for files
        recipe.rules.push_back(std::move(rule));
      }
  }
  return out;
}

}  // namespace

const std::vector<Recipe>& all_recipes() {
  static const std::vector<Recipe> kRecipes = make_recipes();
  return kRecipes;
}

const Recipe& find_recipe(std::string_view name) {
  if (name == kDirectAlias) name = kBf16;
  std::string known;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.name == name) return recipe;
    known += (known.empty() ? "" : ", ") + recipe.name;
  }
  throw Error(Code::kUsage, "recipe {} is unknown, expected one of {}", quote(name), known);
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : all_recipes()) names.push_back(recipe.name);
  return names;
}

}  // namespace flare::prepare
