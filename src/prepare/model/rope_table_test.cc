// Rotary tables against tables that numpy made (tools/rope_oracle.py).
#include "prepare/model/rope_table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>

#include "base/file.h"

namespace flare::prepare {
namespace {

const Json& oracle() {
  static const Json json = [] {
    const auto file = std::filesystem::path(FLARE_SOURCE_DIR) / "tests/data/rope/tables.json";
    return parse_json(read_text_file(file), file.string());
  }();
  return json;
}

// Positive finite floats are ordered as their words.
int64_t ulps(float a, float b) {
  return std::abs(int64_t{std::bit_cast<int32_t>(a)} - std::bit_cast<int32_t>(b));
}

// Both compute in binary64: a logarithm, a product and a sum near 1.
constexpr double kFactorTolerance = 1e-12;

TEST(RopeTable, MatchesTheOracleForEveryRule) {
  ASSERT_EQ(oracle().as_array().size(), 17u);
  for (const Json& one : oracle().as_array()) {
    const std::string what = one.at("rope").to_text();
    const auto dims = static_cast<uint32_t>(one.at("dims").as_u64());
    const RopeTable table = make_rope_table(Config(one.at("rope")), dims);
    const Json::Array& want = one.at("frequencies").as_array();
    ASSERT_EQ(table.frequencies.size(), want.size()) << what;
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(ulps(table.frequencies[i], static_cast<float>(want[i].as_double())), 1)
          << what << " pair " << i;
    EXPECT_NEAR(table.factor, one.at("factor").as_double(), kFactorTolerance) << what;
  }
}

// Files of the divisor form store 1, F or 1/((1−s)/F + s) in binary32 (llama_qwen3.md §1.4).
TEST(RopeTable, AgreesWithTheDivisorFormToOneUlp) {
  int cases = 0;
  for (const Json& one : oracle().as_array()) {
    const Json* divisors = one.find("divisors");
    if (!divisors) continue;
    ++cases;
    const auto dims = static_cast<uint32_t>(one.at("dims").as_u64());
    const RopeTable table = make_rope_table(Config(one.at("rope")), dims);
    const double theta = one.at("rope").at("rope_theta").as_double();
    for (size_t i = 0; i < table.frequencies.size(); ++i) {
      const auto stored = static_cast<float>(divisors->as_array()[i].as_double());
      const double plain = std::pow(theta, -2.0 * static_cast<double>(i) / dims);
      EXPECT_LE(ulps(table.frequencies[i], static_cast<float>(plain / stored)), 1)
          << one.at("rope").to_text() << " pair " << i;
    }
  }
  EXPECT_EQ(cases, 3);
}

void expect_refused(const char* rope, Code code, const std::vector<std::string>& words) {
  const Json json = parse_json(rope, "rope");
  try {
    make_rope_table(Config(json), 64);
    ADD_FAILURE() << rope << " was taken";
  } catch (const Error& e) {
    EXPECT_EQ(code_name(e.code()), code_name(code)) << e.message();
    for (const std::string& word : words)
      EXPECT_NE(e.message().find(word), std::string::npos) << word << " in " << e.message();
  }
}

TEST(RopeTable, NamesTheMemberThatIsWrong) {
  expect_refused(R"({})", Code::kBinding, {"rope_theta", "missing"});
  expect_refused(R"({"rope_theta":"x"})", Code::kBinding, {"rope_theta", "x"});
  expect_refused(R"({"rope_theta":1})", Code::kBinding, {"rope_theta", "1"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":7})", Code::kBinding, {"rope_type"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"dynamic"})", Code::kSupport,
                 {"dynamic", "default, linear, llama3 or yarn"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"linear"})", Code::kBinding, {"factor"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"linear","factor":0})", Code::kBinding,
                 {"factor", "positive"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"llama3","factor":8,"low_freq_factor":4,
                     "high_freq_factor":4,"original_max_position_embeddings":64})",
                 Code::kBinding, {"low_freq_factor", "high_freq_factor"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"llama3","factor":8,"low_freq_factor":1,
                     "high_freq_factor":4})",
                 Code::kBinding, {"original_max_position_embeddings"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"yarn","factor":-4,
                     "original_max_position_embeddings":64})",
                 Code::kBinding, {"factor", "-4"});
  expect_refused(R"({"rope_theta":1e4,"rope_type":"yarn","factor":4,"truncate":1,
                     "original_max_position_embeddings":64})",
                 Code::kBinding, {"truncate", "boolean"});
}

}  // namespace
}  // namespace flare::prepare
