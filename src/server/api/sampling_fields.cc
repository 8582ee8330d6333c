// Ranges and neutral values of serving.md S8.
#include "server/api/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace flare::server {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr size_t kMaxStopIds = 64;
constexpr size_t kMaxBiases = 1024;
constexpr double kMostBias = 100;
constexpr size_t kMaxAllowed = 65536;
constexpr size_t kMaxBadWords = 256;
constexpr size_t kMaxBadWordBytes = 4096;
constexpr double kMaxDryBase = 100;

// A filter this build does not run passes only with its neutral value; its range is checked first.
void refuse_number(const Fields& fields, std::string_view name, double low, double high,
                   double neutral) {
  const auto value = fields.number(name, low, high);
  if (value && *value != neutral) fields.refuse(name);
}

void refuse_missing_filters(const Fields& fields) {
  refuse_number(fields, "mirostat", 0, 2, 0);
  refuse_number(fields, "dynatemp_range", 0, 100, 0);
  refuse_number(fields, "dynatemp_exponent", 0, 100, 1);
  fields.refuse("use_beam_search", {Json(false)});
  fields.refuse("lora", {Json::array()});
}

[[noreturn]] void wrong_id(const Fields& fields, std::string_view name, const std::string& value,
                           uint32_t vocab_size) {
  fields.wrong_value(name, value, fmt::format("ids in 0..{}", vocab_size - 1));
}

std::vector<int32_t> read_ids(const Fields& fields, std::string_view name, size_t min, size_t max,
                              uint32_t vocab_size) {
  std::vector<int32_t> ids;
  const Json* list = fields.array(name, min, max);
  if (!list) return ids;
  for (const Json& item : list->as_array()) {
    if (!item.is_number()) fields.wrong_type(name, "array of token ids");
    const double id = item.as_double();
    if (!(id >= 0 && id < vocab_size && id == std::floor(id)))
      wrong_id(fields, name, item.to_text(), vocab_size);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// {"<id>": bias}; the lowest bias is a ban.
void read_bias(const Fields& fields, uint32_t vocab_size, runtime::TokenRules* rules) {
  constexpr std::string_view kName = "logit_bias";
  const Json* given = fields.find(kName);
  if (!given || *given == Json::array()) return;
  if (!given->is_object()) fields.wrong_type(kName, "object of token ids");
  if (given->as_object().size() > kMaxBiases)
    fields.wrong_value(kName, fmt::format("an object of {}", given->as_object().size()),
                       fmt::format("at most {} ids", kMaxBiases));
  for (const auto& [key, value] : given->as_object()) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool plain = error == std::errc{} && end == key.data() + key.size() &&
                       (key.size() == 1 || key[0] != '0');
    if (!plain || id >= vocab_size) wrong_id(fields, kName, quote(key), vocab_size);
    Fields(*given, "logit_bias.").number(key, -kMostBias, kMostBias);
    if (!value.is_number()) continue;  // null: no bias
    const auto bias = static_cast<float>(value.as_double());
    if (bias == -kMostBias)
      rules->banned.push_back(static_cast<int32_t>(id));
    else if (bias != 0)
      rules->bias.emplace_back(static_cast<int32_t>(id), bias);
  }
}

void read_bad_words(const Fields& fields, const Service& service, runtime::TokenRules* rules) {
  constexpr std::string_view kName = "bad_words";
  const Json* list = fields.array(kName, 0, kMaxBadWords);
  if (!list || list->as_array().empty()) return;
  if (!service.has_tokenizer()) fields.refuse(kName);
  for (const Json& word : list->as_array()) {
    if (!word.is_string()) fields.wrong_type(kName, "array of strings");
    const std::string& text = word.as_string();
    if (text.empty() || text.size() > kMaxBadWordBytes)
      fields.wrong_value(kName, fmt::format("a string of {} bytes", text.size()),
                         fmt::format("1..{} bytes", kMaxBadWordBytes));
    for (std::vector<int32_t>& ids : service.spellings(text))
      rules->bad_words.push_back(std::move(ids));
  }
}

void read_rules(const Fields& fields, const Service& service, runtime::SamplingSettings* s) {
  runtime::TokenRules rules;
  read_bias(fields, service.vocab_size(), &rules);
  rules.allowed = read_ids(fields, "allowed_token_ids", 1, kMaxAllowed, service.vocab_size());
  read_bad_words(fields, service, &rules);
  if (!rules.bias.empty() || !rules.banned.empty() || !rules.allowed.empty() ||
      !rules.bad_words.empty())
    s->rules = std::make_shared<const runtime::TokenRules>(std::move(rules));
}

void read_dry(const Fields& fields, int64_t context, runtime::DrySettings* dry) {
  if (const auto multiplier = fields.number("dry_multiplier", 0, 10))
    dry->multiplier = static_cast<float>(*multiplier);
  if (const auto base = fields.number("dry_base", 1, kMaxDryBase))
    dry->base = static_cast<float>(*base);
  if (const auto length = fields.integer("dry_allowed_length", 0, context))
    dry->allowed_length = static_cast<int32_t>(*length);
  if (const auto n = fields.integer("dry_penalty_last_n", -1, context))
    dry->penalty_last_n = static_cast<int32_t>(*n);
}

}  // namespace

void read_sampling(const Fields& fields, const Service& service, GenerateSettings* settings) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  runtime::SamplingSettings& s = settings->sampling;
  const auto set = [&](float* target, std::string_view name, double low, double high) {
    if (const auto value = fields.number(name, low, high)) *target = static_cast<float>(*value);
  };
  set(&s.temperature, "temperature", 0, 100);
  set(&s.top_p, "top_p", 0, 1);
  set(&s.min_p, "min_p", 0, 1);
  set(&s.typical_p, "typical_p", 0, 1);
  set(&s.top_n_sigma, "top_n_sigma", -1, 100);
  set(&s.xtc_probability, "xtc_probability", 0, 1);
  set(&s.xtc_threshold, "xtc_threshold", 0, 1);
  set(&s.repetition_penalty, "repetition_penalty", 0.01, 10);
  set(&s.presence_penalty, "presence_penalty", -2, 2);
  set(&s.frequency_penalty, "frequency_penalty", -2, 2);
  if (const auto k = fields.integer("top_k", -1, kMaxInt))
    s.top_k = *k < 0 ? 0 : static_cast<int32_t>(*k);
  const int64_t context = service.max_context();
  if (const auto n = fields.integer("repeat_last_n", -1, context))
    s.repeat_last_n = static_cast<int32_t>(*n);
  if (const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                       std::numeric_limits<int64_t>::max()))
    s.seed = static_cast<uint64_t>(*seed);
  make_greedy_if_asked(&s);
  if (const auto ignore = fields.boolean("ignore_eos")) settings->ignore_stop_ids = *ignore;
  settings->stop_ids = read_ids(fields, "stop_token_ids", 0, kMaxStopIds, service.vocab_size());
  if (const auto n = fields.integer("min_tokens", 0, std::numeric_limits<int64_t>::max()))
    s.min_tokens = static_cast<uint32_t>(std::min<int64_t>(*n, UINT32_MAX));
  read_dry(fields, context, &s.dry);
  read_rules(fields, service, &s);
  refuse_missing_filters(fields);
}

std::optional<int32_t> read_prompt_logprobs(const Fields& fields, const Service& service) {
  constexpr int kMax = 20;
  const auto n = fields.integer("prompt_logprobs", 0, kMax);
  if (!n) return std::nullopt;
  if (!service.has_prompt_logprobs())
    throw ApiError{400, "prompt_logprobs_unavailable",
                   "'prompt_logprobs' is not in what this model was prepared for",
                   "prompt_logprobs"};
  return static_cast<int32_t>(*n);
}

std::vector<std::string> read_stop(const Fields& fields, std::string_view name) {
  std::vector<std::string> stops;
  const Json* value = fields.find(name);
  if (!value) return stops;
  if (value->is_string()) {
    stops.push_back(value->as_string());
  } else if (value->is_array()) {
    if (value->as_array().size() > kMaxStops)
      fields.wrong_value(name, fmt::format("an array of {}", value->as_array().size()),
                         fmt::format("at most {} strings", kMaxStops));
    for (const Json& item : value->as_array()) {
      if (!item.is_string()) fields.wrong_type(name, "string or array of strings");
      stops.push_back(item.as_string());
    }
  } else {
    fields.wrong_type(name, "string or array of strings");
  }
  for (const std::string& stop : stops)
    if (stop.empty() || stop.size() > kMaxStopBytes)
      fields.wrong_value(name, fmt::format("a string of {} bytes", stop.size()),
                         fmt::format("1..{} bytes", kMaxStopBytes));
  return stops;
}

}  // namespace flare::server
