// Model code against its sources: every parameter bound once, wrong configs and left-overs refused.
#include "prepare/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "prepare/checkpoint_source.h"
#include "prepare/model/blocks.h"
#include "prepare/test_support.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) {
  return fs::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/models" / name;
}
const fs::path kNano = fs::path(FLARE_SOURCE_DIR) / "models/nano";

// A source with another config or more parameters than it has.
class ChangedSource final : public ParameterSource {
 public:
  explicit ChangedSource(const fs::path& path)
      : inner_(path, "", 1), config_(inner_.config("text")) {}
  std::string name() const override { return inner_.name(); }
  fs::path path() const override { return inner_.path(); }
  std::vector<fs::path> files() const override { return inner_.files(); }
  const Json& config(std::string_view) const override { return config_; }
  bool has(std::string_view parameter) const override { return inner_.has(parameter); }
  std::vector<std::string> parameters(std::string_view component) const override {
    std::vector<std::string> names = inner_.parameters(component);
    names.insert(names.end(), more.begin(), more.end());
    return names;
  }
  codec::Matrix matrix(std::string_view parameter, codec::Geometry geometry) override {
    return inner_.matrix(parameter, geometry);
  }
  std::vector<float> values(std::string_view parameter, uint64_t n) override {
    return inner_.values(parameter, n);
  }
  graph::Policy policy(std::string_view parameter, std::string_view input) const override {
    return inner_.policy(parameter, input);
  }
  std::vector<int32_t> input_columns(std::string_view parameter, std::string_view input) override {
    return parameter == reordered ? columns : inner_.input_columns(parameter, input);
  }
  std::optional<std::string> resource(std::string_view role) const override {
    return inner_.resource(role);
  }
  void release(Bytes object) override { inner_.release(object); }
  void fill() override { inner_.fill(); }

  void set(std::string_view key, Json value) { config_.set(key, std::move(value)); }
  void set_rope(std::string_view key, Json value) {
    Json rope = config_.at("rope_parameters");
    rope.set(key, std::move(value));
    config_.set("rope_parameters", std::move(rope));
  }
  std::vector<std::string> more;
  std::string reordered;  // a parameter with input_columns
  std::vector<int32_t> columns;

 private:
  CheckpointSource inner_;
  Json config_;
};

// The parameters behind a fused name: "a/query|key_bias" is a/query_bias and a/key_bias.
void append_names(std::string name, std::vector<std::string>& out) {
  const std::string suffix = name.ends_with("_bias") ? "_bias" : "";
  name.resize(name.size() - suffix.size());
  const std::string folder = name.substr(0, name.rfind('/') + 1);
  size_t at = folder.size();
  while (at <= name.size()) {
    const size_t end = std::min(name.find('|', at), name.size());
    out.push_back(folder + name.substr(at, end - at) + suffix);
    at = end + 1;
  }
}

TEST(Model, BindsEveryParameterOnce) {
  for (const char* name : {"llama2", "llama3", "mistral", "qwen2", "qwen3", "qwen3_tied_yarn",
                           "qwen3_5", "qwen3_5_vision", "gemma3_text", "nano"}) {
    const fs::path folder = std::string(name) == "nano" ? kNano : golden(name);
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
    for (const char* recipe : {"", "q4"}) {
      CheckpointSource source(folder, recipe, 1);
      const TextModel model = build_text_model(source, {});
      std::vector<std::string> bound;
      for (const std::string& w : model.step.graph.weight_names) append_names(w, bound);
      for (const std::string& c : model.step.graph.constant_names)
        if (!c.starts_with("text/rope")) append_names(c, bound);
      std::vector<std::string> wanted = source.parameters("text");
      std::ranges::sort(bound);
      std::ranges::sort(wanted);
      EXPECT_EQ(bound, wanted) << name << " " << recipe;
      EXPECT_EQ(model.step.weights.size(), model.step.graph.weight_names.size());
      EXPECT_EQ(model.step.constants.size(), model.step.graph.constant_names.size());
    }
  }
}

TEST(Model, BuildsTheSameGraphEveryTime) {
  CheckpointSource a(kNano, "", 1), b(kNano, "", 2);
  EXPECT_EQ(graph::graph_text(build_text_model(a, {}).step.graph),
            graph::graph_text(build_text_model(b, {}).step.graph));
}

TEST(Model, EmitsTapsOnlyWhereTheyAreWanted) {
  CheckpointSource source(kNano, "", 1);
  EXPECT_TRUE(build_text_model(source, {}).step.graph.taps.empty());
  ModelOptions options;
  options.taps = true;
  EXPECT_EQ(build_text_model(source, options).step.graph.taps,
            (std::vector<std::string>{"hidden.0", "hidden.1", "hidden.2", "hidden.3", "hidden.4",
                                      "hidden.5", "hidden.6", "hidden.final"}));
}

TEST(Model, ExactArithmeticAsksForExactLinearsAndF32Pages) {
  CheckpointSource source(kNano, "", 1);
  ModelOptions options;
  options.exact = true;
  options.kv_dtype = graph::DType::kF32;
  const graph::Graph g = build_text_model(source, options).step.graph;
  for (const graph::Node& n : g.nodes)
    if (n.op == graph::Op::kLinear) {
      EXPECT_EQ(n.policy, graph::Policy::kExact);
    }
  for (const graph::StateInfo& s : g.states) EXPECT_EQ(s.dtype, graph::DType::kF32);
}

template <typename Change>
void expect_refused(const fs::path& path, Change change, Code code,
                    const std::vector<std::string>& words) {
  ChangedSource source(path);
  change(source);
  try {
    build_text_model(source, {});
    ADD_FAILURE() << "taken, expected " << words[0];
  } catch (const Error& e) {
    EXPECT_EQ(code_name(e.code()), code_name(code)) << e.message();
    for (const std::string& word : words)
      EXPECT_NE(e.message().find(word), std::string::npos) << word << " in " << e.message();
  }
}

TEST(Model, ListsTheArchitecturesItKnows) {
  const auto with = [](Json names) {
    return [names = std::move(names)](ChangedSource& s) { s.set("architectures", names); };
  };
  expect_refused(kNano, with(Json::array({"FooForCausalLM"})), Code::kSupport,
                 {"FooForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                  "Qwen3ForCausalLM", "Qwen3_5ForCausalLM", "nano"});
  expect_refused(kNano, with(Json::array()), Code::kSupport, {"unknown"});
  expect_refused(kNano, with("Qwen3_5ForCausalLM"), Code::kBinding, {"architectures", "array"});
  expect_refused(kNano, with(Json::array({7})), Code::kBinding, {"architectures", "string"});
}

TEST(Gemma3, RefusesTypesAndWindowsThatDoNotFit) {
  const fs::path folder = golden("gemma3_text");
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  expect_refused(folder, [](ChangedSource& s) { s.set("sliding_window", Json()); }, Code::kBinding,
                 {"sliding_window"});
  expect_refused(folder, [](ChangedSource& s) { s.set("query_pre_attn_scalar", 0); },
                 Code::kBinding, {"query_pre_attn_scalar", "positive"});
  expect_refused(folder, [](ChangedSource& s) { s.set("layer_types", Json::array({"a"})); },
                 Code::kBinding, {"layer_types has 1 entries", "6 expected"});
  expect_refused(folder, [](ChangedSource& s) { s.set("rope_parameters", Json::object()); },
                 Code::kBinding, {"sliding_attention"});
}

// √128 is 11.3137: as served the factor is that of a bf16 model, 11.3125.
TEST(Gemma3, ScalesEmbeddingsByARootOfTheWeightsType) {
  const fs::path folder = golden("gemma3_text");
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  for (const bool exact : {false, true}) {
    CheckpointSource source(folder, "", 1);
    ModelOptions options;
    options.exact = exact;
    const graph::Graph g = build_text_model(source, options).step.graph;
    ASSERT_EQ(g.nodes.front().op, graph::Op::kEmbed);
    EXPECT_EQ(g.nodes.front().immediates[0].r, exact ? 11.31370830535888671875 : 11.3125);
  }
}

TEST(Model, RefusesParametersThatAreLeftOver) {
  expect_refused(
      kNano, [](ChangedSource& s) { s.more = {"text/layers/9/mlp/up", "text/layers/9/mlp/down"}; },
      Code::kBinding, {"text/layers/9/mlp/up", "2 of the parameters", "text", "nano"});
  // A layer less than the file has.
  expect_refused(kNano,
                 [](ChangedSource& s) {
                   s.set("num_hidden_layers", 5);
                   s.set("layer_types",
                         Json::array({"linear_attention", "linear_attention", "full_attention",
                                      "linear_attention", "linear_attention"}));
                 },
                 Code::kBinding, {"text/layers/5/"});
}

TEST(Model, GathersReorderedColumnsBeforeTheirUse) {
  const auto reorder = [](const std::string& parameter, int32_t n) {
    return [=](ChangedSource& s) {
      s.reordered = parameter;
      for (int32_t c = n; c-- > 0;) s.columns.push_back(c);
    };
  };
  expect_refused(kNano, reorder("text/layers/0/gdn/output", 255), Code::kBinding,
                 {"text/layers/0/gdn/output", "255 columns, 256 expected"});
  for (const char* parameter : {"text/layers/0/gdn/output", "text/layers/0/mlp/up",
                                "text/layers/0/gdn/query", "text/layers/2/attention/output"}) {
    ChangedSource source(kNano);
    reorder(parameter, 256)(source);
    const TextModel model = build_text_model(source, {});
    const auto gathers = [](const graph::Node& n) { return n.op == graph::Op::kGatherColumns; };
    ASSERT_EQ(std::ranges::count_if(model.step.graph.nodes, gathers), 1) << parameter;
    const auto gather = std::ranges::find_if(model.step.graph.nodes, gathers);
    // One linear reads what the node writes.
    const int32_t ordered = gather->operands.back().value.id;
    EXPECT_EQ(std::ranges::count_if(model.step.graph.nodes,
                                    [&](const graph::Node& n) {
                                      return n.op == graph::Op::kLinear &&
                                             n.operands[0].value.id == ordered;
                                    }),
              1)
        << parameter;
    EXPECT_TRUE(std::ranges::any_of(model.step.constants, [&](const kernel::Constant& c) {
      return c.indices == source.columns && c.dtype() == graph::DType::kI32;
    }));
  }
}

TEST(Model, NamesTheConfigKeyThatIsWrong) {
  const auto set = [](const char* key, Json value) {
    return [key, value = std::move(value)](ChangedSource& s) { s.set(key, value); };
  };
  const auto rope = [](const char* key, Json value) {
    return [key, value = std::move(value)](ChangedSource& s) { s.set_rope(key, value); };
  };
  const auto refused = [](const auto& change, const std::vector<std::string>& words) {
    expect_refused(kNano, change, Code::kBinding, words);
  };
  refused(set("hidden_size", "256"), {"hidden_size", "integer"});
  refused(set("hidden_size", 0), {"hidden_size", "0"});
  refused(set("hidden_size", -1), {"hidden_size"});
  refused(set("hidden_size", uint64_t{1} << 40), {"hidden_size", "1099511627776"});
  refused(set("hidden_size", 128), {"text/token_embedding", "[2048, 256]", "[2048, 128]"});
  refused(set("rms_norm_eps", 0.0), {"rms_norm_eps", "positive"});
  refused(set("rms_norm_eps", true), {"rms_norm_eps"});
  refused(set("rms_norm_eps", -1e-6), {"rms_norm_eps", "positive"});
  refused(set("rms_norm_eps", 1e300), {"rms_norm_eps", "(0, 1)"});
  refused(set("tie_word_embeddings", "yes"), {"tie_word_embeddings"});
  refused(set("model_type", 3), {"model_type"});
  refused(set("num_attention_heads", 3), {"num_attention_heads 3", "num_key_value_heads 2"});
  refused(set("head_dim", 63), {"head_dim"});
  refused(set("linear_num_value_heads", 6), {"linear_num_value_heads 6"});
  refused(set("linear_key_head_dim", 1 << 20), {"linear heads"});
  refused(set("linear_conv_kernel_dim", 1), {"linear_conv_kernel_dim"});
  refused(set("layer_types", Json::array({"full_attention"})), {"layer_types"});
  refused(set("layer_types", Json(Json::Array(6, "sliding_attention"))), {"sliding_attention"});
  refused(set("rope_parameters", 4), {"rope_parameters", "object"});
  refused(rope("partial_rotary_factor", -0.5), {"partial_rotary_factor", "-0.5"});
  refused(rope("partial_rotary_factor", 1e30), {"partial_rotary_factor"});
  refused(rope("mrope_section", Json::array({4, 4, 4})), {"mrope_section", "8"});
  refused(rope("mrope_section", Json::array({uint64_t{1} << 32, 4, 4})), {"mrope_section"});
  refused(rope("mrope_section", Json::array({4, 4})), {"mrope_section"});
}

TEST(Model, RefusesConfigKeysThatTheArchitectureDoesNotDefine) {
  const auto refused = [](const fs::path& folder, const char* key, Json value) {
    expect_refused(folder, [&](ChangedSource& s) { s.set(key, value); }, Code::kBinding,
                   {key, "may change the mathematics"});
  };
  refused(kNano, "final_logit_softcapping", 30.0);
  refused(kNano, "sliding_window", 128);
  refused(kNano, "num_experts", 8);
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::tiny_llama_config(), test::tiny_llama_tensors());
  refused(folder.path(), "linear_num_key_heads", 4);
}

TEST(Model, RefusesBiasesThatAreMissing) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::tiny_llama_config(), test::tiny_llama_tensors());
  expect_refused(folder.path(), [](ChangedSource& s) { s.set("attention_bias", true); },
                 Code::kBinding,
                 {"attention_bias", "text/layers/0/attention/query_bias", "missing"});
}

TEST(Model, RefusesHeadsThatDoNotDivideInEveryFamily) {
  const test::TemporaryFolder folder;
  test::write_checkpoint(folder.path(), test::tiny_llama_config(), test::tiny_llama_tensors());
  expect_refused(folder.path(), [](ChangedSource& s) { s.set("num_key_value_heads", 3); },
                 Code::kBinding, {"num_attention_heads 2", "num_key_value_heads 3"});
  expect_refused(folder.path(), [](ChangedSource& s) { s.set("num_attention_heads", 5000); },
                 Code::kBinding, {"5000"});
}

}  // namespace
}  // namespace flare::prepare
