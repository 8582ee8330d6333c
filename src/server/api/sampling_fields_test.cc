// Ranges, types and meaning of the sampling fields (serving.md S8), B061.
#include "server/api/sampling_fields.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/test_support.h"

namespace flare::server {
namespace {

using Pairs = std::vector<std::pair<int32_t, float>>;
using Ids = std::vector<int32_t>;

// 100 ids, 64 tokens of context, no tokenizer.
Service& toy() {
  static runtime::Engine engine(runtime::test::toy_model(), {{1, Isa::kV2}, {}, 64, 0});
  static Service service(engine);
  return service;
}

GenerateSettings read(std::string_view body) {
  const Json json = parse_json(body, "test");
  GenerateSettings settings = toy().default_settings();
  read_sampling(Fields(json), toy(), &settings);
  return settings;
}

std::string refusal(std::string_view body) {
  try {
    read(body);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.code + " " + error.param;
  }
  return "accepted";
}

TEST(SamplingFields, ReachTheSettings) {
  const GenerateSettings g = read(
      R"({"temperature":0.5,"top_k":7,"top_p":0.75,"min_p":0.25,"typical_p":0.625,"top_n_sigma":1.5,
          "xtc_probability":0.125,"xtc_threshold":0.25,"repetition_penalty":1.25,"repeat_last_n":5,
          "presence_penalty":-1,"frequency_penalty":0.5,"dry_multiplier":0.75,"dry_base":2,
          "dry_allowed_length":3,"dry_penalty_last_n":20,"min_tokens":4,"seed":-3,
          "stop_token_ids":[5,6.0],"ignore_eos":true})");
  const runtime::SamplingSettings& s = g.sampling;
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.top_p, 0.75f);
  EXPECT_EQ(s.min_p, 0.25f);
  EXPECT_EQ(s.typical_p, 0.625f);
  EXPECT_EQ(s.top_n_sigma, 1.5f);
  EXPECT_EQ(s.xtc_probability, 0.125f);
  EXPECT_EQ(s.xtc_threshold, 0.25f);
  EXPECT_EQ(s.repetition_penalty, 1.25f);
  EXPECT_EQ(s.repeat_last_n, 5);
  EXPECT_EQ(s.presence_penalty, -1);
  EXPECT_EQ(s.frequency_penalty, 0.5f);
  EXPECT_EQ(s.dry.multiplier, 0.75f);
  EXPECT_EQ(s.dry.base, 2);
  EXPECT_EQ(s.dry.allowed_length, 3);
  EXPECT_EQ(s.dry.penalty_last_n, 20);
  EXPECT_EQ(s.min_tokens, 4u);
  EXPECT_EQ(s.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(g.stop_ids, (Ids{5, 6}));
  EXPECT_TRUE(g.ignore_stop_ids);
  EXPECT_EQ(s.rules, nullptr);
}

TEST(SamplingFields, RulesOverIdsReachTheSettings) {
  const GenerateSettings g = read(
      R"({"logit_bias":{"0":1.5,"99":-100,"7":100,"8":0,"9":null},"allowed_token_ids":[0,99,7.0]})");
  ASSERT_NE(g.sampling.rules, nullptr);
  EXPECT_EQ(g.sampling.rules->bias, (Pairs{{0, 1.5f}, {7, 100}}));
  EXPECT_EQ(g.sampling.rules->banned, (Ids{99}));
  EXPECT_EQ(g.sampling.rules->allowed, (Ids{0, 99, 7}));
  EXPECT_TRUE(g.sampling.rules->bad_words.empty());
}

TEST(SamplingFields, NeutralAndAbsentValuesAskForNothing) {
  for (const std::string_view body :
       {R"({})",
        R"({"logit_bias":null,"allowed_token_ids":null,"bad_words":null,"min_tokens":null})",
        R"({"logit_bias":{},"bad_words":[],"min_tokens":0,"typical_p":1,"top_n_sigma":-1,
            "dry_multiplier":0,"xtc_probability":0,"mirostat":0,"dynatemp_range":0,
            "dynatemp_exponent":1,"use_beam_search":false,"lora":[]})",
        R"({"logit_bias":[]})", R"({"logit_bias":{"3":0}})"}) {
    const GenerateSettings g = read(body);
    EXPECT_EQ(g.sampling.rules, nullptr) << body;
    EXPECT_EQ(g.sampling.min_tokens, 0u) << body;
    EXPECT_EQ(g.sampling.dry.multiplier, 0) << body;
    EXPECT_EQ(g.sampling.typical_p, 1) << body;
    EXPECT_EQ(g.sampling.xtc_probability, 0) << body;
  }
}

TEST(SamplingFields, BothSpellingsOfGreedyAreGreedy) {  // B101 in part
  for (const std::string_view body :
       {R"({"temperature":0})", R"({"temperature":1e-5})", R"({"temperature":2,"top_p":0})"}) {
    EXPECT_EQ(read(body).sampling.temperature, 0) << body;
    EXPECT_EQ(read(body).sampling.top_p, 1) << body;
  }
}

TEST(SamplingFields, WrongValuesAreNamed) {
  const auto number = [](std::string_view name, std::string_view value) {
    return refusal(fmt::format(R"({{"{}":{}}})", name, value));
  };
  for (const auto& [name, low, high] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"temperature", "-0.1", "100.5"},
           {"top_p", "-0.1", "1.1"},
           {"typical_p", "-0.1", "1.1"},
           {"min_p", "-0.1", "1.1"},
           {"top_n_sigma", "-1.5", "100.5"},
           {"xtc_probability", "-0.1", "1.1"},
           {"xtc_threshold", "-0.1", "1.1"},
           {"repetition_penalty", "0.005", "10.5"},
           {"repeat_last_n", "-2", "65"},
           {"presence_penalty", "-2.1", "2.1"},
           {"frequency_penalty", "-2.1", "2.1"},
           {"dry_multiplier", "-1", "10.5"},
           {"dry_base", "0.5", "101"},
           {"dry_allowed_length", "-1", "65"},
           {"dry_penalty_last_n", "-2", "65"},
           {"min_tokens", "-1", "1e300"},
           {"top_k", "-2", "3000000000"}}) {
    EXPECT_EQ(number(name, low), "invalid_value " + name);
    EXPECT_EQ(number(name, high), "invalid_value " + name);
    EXPECT_EQ(number(name, "\"1\""), "invalid_type " + name);
    EXPECT_EQ(number(name, "true"), "invalid_type " + name);
  }
  EXPECT_EQ(number("mirostat", "1"), "unsupported_parameter mirostat");
  EXPECT_EQ(number("dynatemp_exponent", "2"), "unsupported_parameter dynatemp_exponent");
  EXPECT_EQ(number("lora", "[{}]"), "unsupported_parameter lora");
}

TEST(SamplingFields, B061WrongIdsAreNamed) {
  for (const std::string_view bias :
       {R"({"100":1})", R"({"-1":1})", R"({"x":1})", R"({"":1})", R"({"1.0":1})", R"({"01":1})",
        R"({"99999999999":1})", R"({" 1":1})"})
    EXPECT_EQ(refusal(fmt::format(R"({{"logit_bias":{}}})", bias)), "invalid_value logit_bias")
        << bias;
  EXPECT_EQ(refusal(R"({"logit_bias":{"1":101}})"), "invalid_value logit_bias.1");
  EXPECT_EQ(refusal(R"({"logit_bias":{"1":-100.5}})"), "invalid_value logit_bias.1");
  EXPECT_EQ(refusal(R"({"logit_bias":{"1":"5"}})"), "invalid_type logit_bias.1");
  EXPECT_EQ(refusal(R"({"logit_bias":5})"), "invalid_type logit_bias");
  EXPECT_EQ(refusal(R"({"logit_bias":[[1,2]]})"), "invalid_type logit_bias");
  std::string many;
  for (int i = 0; i < 1025; ++i) many += fmt::format(R"({}"{}":1)", i == 0 ? "" : ",", i);
  EXPECT_EQ(refusal("{\"logit_bias\":{" + many + "}}"), "invalid_value logit_bias");
  for (const std::string_view name : {"allowed_token_ids", "stop_token_ids"}) {
    const auto with = [&](std::string_view list) {
      return refusal(fmt::format(R"({{"{}":{}}})", name, list));
    };
    EXPECT_EQ(with("[100]"), fmt::format("invalid_value {}", name));
    EXPECT_EQ(with("[-1]"), fmt::format("invalid_value {}", name));
    EXPECT_EQ(with("[1.5]"), fmt::format("invalid_value {}", name));
    EXPECT_EQ(with("[\"1\"]"), fmt::format("invalid_type {}", name));
    EXPECT_EQ(with("1"), fmt::format("invalid_type {}", name));
  }
  EXPECT_EQ(refusal(R"({"allowed_token_ids":[]})"), "invalid_value allowed_token_ids");
  // Words need a tokenizer.
  EXPECT_EQ(refusal(R"({"bad_words":["x"]})"), "unsupported_parameter bad_words");
  EXPECT_EQ(refusal(R"({"bad_words":"x"})"), "invalid_type bad_words");
}

}  // namespace
}  // namespace flare::server
