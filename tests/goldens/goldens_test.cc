// The models against independent implementations: logits, hidden states and greedy answers of
// ../shared/data/goldens/models, by artifact and straight from the folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json/json.h"
#include "checkpoint/safetensors.h"
#include "kernel/kernels.h"
#include "prepare/prepare.h"
#include "runtime/engine.h"
#include "runtime/forward.h"
#include "tests/goldens/artifact_of.h"
#include "tests/goldens/logits.h"
#include "tests/support/collect.h"

namespace flare {
namespace {

namespace fs = std::filesystem;

// Frozen (data/README.md): an fp32 path that is off by more than 1e-4 has a bug. As served, bf16
// keys, values and activations may move logits by 2e-2; the tiny DeltaNet of the qwen3_5 cases
// magnifies rounding (another implementation in bf16 is 1.96e-2 away), so 3e-2 there.
constexpr double kExactRms = 1e-4;
constexpr double kServedRms = 2e-2;
constexpr double kServedRmsDelta = 3e-2;
// fp8 keys and values: a code is off by 2^-4 of its value at most and 2.6e-2 in the root of the
// mean, 32 times bf16. An attention's output errs by that and by as much again through the scores,
// 3.7e-2; two to four layers whose residuals carry about as much from elsewhere leave the logits
// about 4e-2 away. Frozen at twice that; the largest seen is 6.0e-2 (qwen3_tied_yarn).
constexpr double kFp8Rms = 8e-2;
// Two right programs may part where the two best logits are nearer than this.
constexpr float kExactMargin = 0.05f;
constexpr float kServedMargin = 0.3f;

const fs::path kShared = fs::path(FLARE_SOURCE_DIR) / "../shared/data";

const char* const kCases[] = {"llama2",          "llama3",  "mistral",        "qwen2",      "qwen3",
                              "qwen3_tied_yarn", "qwen3_5", "qwen3_5_vision", "gemma3_text"};

class Golden {
 public:
  explicit Golden(const std::string& name)
      : folder(kShared / "goldens/models" / name),
        expected(checkpoint::SafetensorsFile::open(folder / "expected.safetensors")) {}
  const checkpoint::Tensor* find(const std::string& name) const {
    for (const auto& t : expected.tensors())
      if (t.name == name) return &t;
    return nullptr;
  }
  const checkpoint::Tensor& at(const std::string& name) const {
    const auto* t = find(name);
    if (!t) throw std::runtime_error("no tensor " + name);
    return *t;
  }
  fs::path folder;
  checkpoint::SafetensorsFile expected;
};

runtime::ForwardResult forward(const fs::path& path, std::span<const int32_t> tokens, bool exact,
                               uint32_t chunk, Isa isa, const std::string& recipe = "",
                               graph::DType kv_dtype = graph::DType::kBf16) {
  prepare::PrepareOptions options;
  options.kv_dtype = kv_dtype;
  options.exact = exact;
  options.taps = true;
  options.all_logits = true;
  options.max_concurrency = 1;
  options.prefill_chunk = chunk;
  const auto model = prepare::prepare(prepare::open_source(path, recipe, 2), options);
  runtime::StepRunner runner(model, {{2, isa}, {}, true});
  return runtime::forward(runner, model, tokens, chunk);
}

class Goldens : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists(kShared / "goldens/models" / GetParam()))
      GTEST_SKIP() << "../shared/data/goldens/models is absent";
  }
  bool is_delta() const { return std::string(GetParam()).starts_with("qwen3_5"); }
};

void expect_exact(const Golden& golden, const runtime::ForwardResult& result,
                  const std::string& prefix, const std::string& what) {
  EXPECT_LE(relative_rms(result.logits, floats(golden.at(prefix + ".logits"))), kExactRms) << what;
  for (size_t k = 0; k < result.tap_names.size(); ++k) {
    // The reference's last hidden entry is the one after the final norm.
    std::string name = result.tap_names[k];
    const bool last_layer = k + 2 == result.tap_names.size();
    if (last_layer) continue;
    if (name == "hidden.final") name = "hidden." + std::to_string(result.tap_names.size() - 2);
    if (const auto* want = golden.find(prefix + "." + name)) {
      EXPECT_LE(relative_rms(result.taps[k], floats(*want)), kExactRms) << what << " " << name;
    }
  }
}

TEST_P(Goldens, ExactArithmeticMatchesLogitsAndEveryHiddenState) {
  const Golden golden(GetParam());
  const Isa machine = choose_isa("");
  for (const char* prefix : {"a", "b"}) {
    if (!golden.find(std::string(prefix) + ".input_ids")) continue;
    const auto tokens = token_ids(golden.at(std::string(prefix) + ".input_ids"));
    expect_exact(golden, forward(golden.folder, tokens, true, 512, machine), prefix, "folder");
    expect_exact(golden, forward(golden.folder, tokens, true, 7, machine), prefix, "chunks of 7");
  }
  const auto tokens = token_ids(golden.at("a.input_ids"));
  const fs::path artifact = artifact_of(golden.folder, "bf16");
  for (int level = 0; level <= static_cast<int>(machine); ++level) {
    const Isa isa = static_cast<Isa>(level);
    expect_exact(golden, forward(artifact, tokens, true, 64, isa), "a",
                 "artifact at " + std::string(isa_name(isa)));
  }
}

TEST_P(Goldens, ServedArithmeticStaysNearTheReference) {
  const Golden golden(GetParam());
  const auto tokens = token_ids(golden.at("a.input_ids"));
  const fs::path artifact = artifact_of(golden.folder, "bf16");
  const double limit = is_delta() ? kServedRmsDelta : kServedRms;
  for (int level = 0; level <= static_cast<int>(choose_isa("")); ++level) {
    const Isa isa = static_cast<Isa>(level);
    // Row by row at the machine's own level only: it is slow, and levels differ by kernel, not by
    // the cut of the prompt.
    for (uint32_t chunk : {1u, 64u, 512u}) {
      if (chunk == 1 && isa != choose_isa("")) continue;
      const auto result = forward(artifact, tokens, false, chunk, isa);
      EXPECT_LE(relative_rms(result.logits, floats(golden.at("a.logits"))), limit)
          << isa_name(isa) << " chunk " << chunk;
    }
  }
}

TEST_P(Goldens, Fp8KeysAndValuesStayNearTheReference) {
  const Golden golden(GetParam());
  const auto tokens = token_ids(golden.at("a.input_ids"));
  const fs::path artifact = artifact_of(golden.folder, "bf16");
  for (int level = 0; level <= static_cast<int>(choose_isa("")); ++level) {
    const Isa isa = static_cast<Isa>(level);
    const auto result = forward(artifact, tokens, false, 64, isa, "", graph::DType::kF8E4M3);
    EXPECT_LE(relative_rms(result.logits, floats(golden.at("a.logits"))), kFp8Rms) << isa_name(isa);
  }
}

TEST_P(Goldens, GreedyAnswersMatchUpToTheFirstCloseCall) {
  const Golden golden(GetParam());
  for (const bool exact : {true, false}) {
    prepare::PrepareOptions options;
    options.kv_dtype = graph::DType::kBf16;
    options.exact = exact;
    options.max_context = 512;
    runtime::Engine engine(prepare::prepare(prepare::open_source(golden.folder, "", 2), options),
                           {{2, choose_isa("")}, {}, 64, 0});
    const float margin_limit = exact ? kExactMargin : kServedMargin;
    for (int i = 0; golden.find("greedy." + std::to_string(i) + ".prompt"); ++i) {
      const std::string name = "greedy." + std::to_string(i);
      const auto want = token_ids(golden.at(name + ".ids"));
      const auto margins = floats(golden.at(name + ".margins"));
      runtime::Request request;
      request.prompt = token_ids(golden.at(name + ".prompt"));
      request.max_tokens = static_cast<uint32_t>(want.size());
      request.sampling.temperature = 0;
      request.ignore_stop_ids = true;
      const auto got = test::collect(engine, std::move(request)).tokens;
      ASSERT_EQ(got.size(), want.size());
      for (size_t t = 0; t < want.size() && margins[t] >= margin_limit; ++t)
        ASSERT_EQ(got[t], want[t]) << name << " token " << t << (exact ? " exact" : " served");
    }
  }
}

// models/nano against the answers of transformers in fp32.
class Nano : public testing::Test {
 protected:
  struct Case {
    std::vector<int32_t> prompt, want;
    std::vector<float> margins;
  };
  static const std::vector<Case>& cases() {
    static const std::vector<Case> all = [] {
      const fs::path file = kNano / "greedy.json";
      const Json json = parse_json(read_text_file(file), file.string());
      std::vector<Case> out;
      for (const Json& c : json.at("cases").as_array()) {
        Case one;
        for (const Json& id : c.at("prompt_ids").as_array())
          one.prompt.push_back(static_cast<int32_t>(id.as_i64()));
        for (const Json& id : c.at("greedy_ids").as_array())
          one.want.push_back(static_cast<int32_t>(id.as_i64()));
        for (const Json& m : c.at("margins").as_array())
          one.margins.push_back(static_cast<float>(m.as_double()));
        out.push_back(std::move(one));
      }
      return out;
    }();
    return all;
  }
  static runtime::Request request(const Case& c) {
    runtime::Request r;
    r.prompt = c.prompt;
    r.max_tokens = static_cast<uint32_t>(c.want.size());
    r.sampling.temperature = 0;
    r.ignore_stop_ids = true;
    return r;
  }
  static void expect_answer(const Case& c, const std::vector<int32_t>& got, float margin,
                            const std::string& what) {
    ASSERT_EQ(got.size(), c.want.size()) << what;
    for (size_t t = 0; t < c.want.size() && c.margins[t] >= margin; ++t)
      ASSERT_EQ(got[t], c.want[t]) << what << " token " << t;
  }
  static package::PreparedModel prepared(const fs::path& path, bool exact = false) {
    prepare::PrepareOptions options;
    options.kv_dtype = graph::DType::kBf16;
    options.exact = exact;
    options.max_context = 1024;
    return prepare::prepare(prepare::open_source(path, "", 2), options);
  }
  static inline const fs::path kNano = fs::path(FLARE_SOURCE_DIR) / "models/nano";
};

TEST_F(Nano, AnswersAsTheReferenceFromFolderAndArtifact) {
  for (const bool exact : {true, false})
    for (const fs::path& path : {kNano, artifact_of(kNano, "bf16")}) {
      runtime::Engine engine(prepared(path, exact), {{2, choose_isa("")}, {}, 64, 0});
      for (size_t i = 0; i < cases().size(); ++i)
        expect_answer(cases()[i], test::collect(engine, request(cases()[i])).tokens,
                      exact ? kExactMargin : kServedMargin, "case " + std::to_string(i));
    }
}

TEST_F(Nano, ChunksOfAnySizeGiveTheSameTokens) {
  for (uint32_t chunk : {1u, 7u, 64u, 512u}) {
    runtime::Engine engine(prepared(kNano), {{2, choose_isa("")}, {}, 64, chunk});
    for (size_t i = 0; i < cases().size(); ++i)
      expect_answer(cases()[i], test::collect(engine, request(cases()[i])).tokens, kServedMargin,
                    "case " + std::to_string(i) + " in chunks of " + std::to_string(chunk));
  }
}

TEST_F(Nano, ABatchWithThreeOthersGivesTheSameTokens) {
  runtime::Engine engine(prepared(kNano), {{2, choose_isa("")}, {}, 64, 16});
  for (size_t i = 0; i < cases().size(); ++i) {
    std::vector<test::Pending> batch;
    for (size_t j = 0; j < 4; ++j)
      batch.emplace_back(engine, request(cases()[(i + j) % cases().size()]));
    for (size_t j = 0; j < 4; ++j)
      expect_answer(cases()[(i + j) % cases().size()], batch[j].wait().tokens, kServedMargin,
                    "case " + std::to_string(i) + "+" + std::to_string(j));
  }
}

TEST_F(Nano, LogitsOfAConversationMatchInExactArithmetic) {
  const auto expected = checkpoint::SafetensorsFile::open(kNano / "expected.safetensors");
  std::vector<int32_t> tokens;
  std::span<const float> want;
  for (const auto& t : expected.tensors()) {
    if (t.name == "input_ids") tokens = token_ids(t);
    if (t.name == "logits") want = floats(t);
  }
  EXPECT_LE(relative_rms(forward(kNano, tokens, true, 512, choose_isa("")).logits, want),
            kExactRms);
}

TEST_F(Nano, QuantisedRecipesStillAnswerTheSureThings) {
  // Rounded weights move logits by more than close calls allow; an answer whose every margin is
  // wide must survive.
  for (const auto& [recipe, margin] : {std::pair{"q8", 2.0f}, std::pair{"q4", 8.0f}}) {
    runtime::Engine engine(prepared(artifact_of(kNano, recipe)), {{2, choose_isa("")}, {}, 64, 0});
    int sure = 0;
    for (const Case& c : cases()) {
      if (std::ranges::any_of(c.margins, [&](float m) { return m < margin; })) continue;
      ++sure;
      expect_answer(c, test::collect(engine, request(c)).tokens, margin, recipe);
    }
    EXPECT_GE(sure, 3) << recipe;
  }
}

TEST_F(Nano, TwoEnginesWithDifferentModelsRunAtOnce) {
  const fs::path other = kShared / "models/stories260k/hf-f32";
  if (!fs::exists(other)) GTEST_SKIP() << "../shared/data/models/stories260k is absent";
  runtime::Engine nano(prepared(kNano), {{1, choose_isa("")}, {}, 64, 0});
  prepare::PrepareOptions options;
  options.exact = true;
  runtime::Engine stories(prepare::prepare(prepare::open_source(other, "", 2), options),
                          {{1, choose_isa("")}, {}, 64, 0});
  std::vector<test::Pending> nano_answers;
  for (size_t i = 0; i < 8; ++i) nano_answers.emplace_back(nano, request(cases()[i]));
  const auto story_request = [] {
    runtime::Request story;
    story.prompt = {1};
    story.max_tokens = 200;
    story.sampling.temperature = 0;
    return story;
  };
  const auto first = test::collect(stories, story_request()).tokens;
  for (size_t i = 0; i < 8; ++i)
    expect_answer(cases()[i], nano_answers[i].wait().tokens, kServedMargin,
                  "beside another engine");
  EXPECT_EQ(test::collect(stories, story_request()).tokens, first);
}

TEST(Stories260k, TellsTheThreeStoriesTokenForToken) {
  const fs::path folder = kShared / "models/stories260k/hf-f32";
  if (!fs::exists(folder)) GTEST_SKIP() << "../shared/data/models/stories260k is absent";
  prepare::PrepareOptions options;
  options.exact = true;
  runtime::Engine engine(prepare::prepare(prepare::open_source(folder, "", 2), options),
                         {{2, choose_isa("")}, {}, 64, 0});
  const fs::path file = folder.parent_path() / "greedy.json";
  const Json json = parse_json(read_text_file(file), file.string());
  ASSERT_EQ(json.as_array().size(), 3u);
  for (const Json& story : json.as_array()) {
    std::vector<int32_t> want;
    for (const Json& id : story.at("greedy_ids").as_array())
      want.push_back(static_cast<int32_t>(id.as_i64()));
    runtime::Request request;
    for (const Json& id : story.at("prompt_ids").as_array())
      request.prompt.push_back(static_cast<int32_t>(id.as_i64()));
    const size_t n_prompt = request.prompt.size();
    request.max_tokens = static_cast<uint32_t>(want.size() - n_prompt);
    request.sampling.temperature = 0;
    request.ignore_stop_ids = true;
    const auto got = test::collect(engine, std::move(request)).tokens;
    EXPECT_EQ(got,
              std::vector<int32_t>(want.begin() + static_cast<ptrdiff_t>(n_prompt), want.end()));
  }
}

// Plans are data: written out, read back and replayed they give the same logits.
TEST_F(Nano, PlansWrittenOutAndReadBackGiveTheSameLogits) {
  prepare::PrepareOptions options;
  options.kv_dtype = graph::DType::kBf16;
  options.all_logits = true;
  options.max_context = 1024;
  options.max_concurrency = 1;
  auto model = prepare::prepare(prepare::open_source(kNano, "", 2), options);
  const std::vector<int32_t>& tokens = cases()[0].prompt;
  const auto run = [&] {
    runtime::StepRunner runner(model, {{2, choose_isa("")}, {}, true});
    return runtime::forward(runner, model, tokens, 512).logits;
  };
  const auto before = run();
  for (package::CatalogEntry& entry : model.ranks[0].catalog) {
    const std::string text = graph::plan_to_json(entry.plan, kernel::kernel_name).to_text();
    entry.plan = graph::plan_from_json(parse_json(text, "plan"), "plan", kernel::kernel_name);
  }
  EXPECT_EQ(run(), before);
}

INSTANTIATE_TEST_SUITE_P(Models, Goldens, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace flare
