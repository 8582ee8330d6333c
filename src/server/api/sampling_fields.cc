// Ranges and neutral values of serving.md S8.
#include "server/api/sampling_fields.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace flare::server {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr size_t kMaxStopIds = 64;

constexpr std::string_view kNames[] = {
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "ignore_eos",
    "stop_token_ids",
    "typical_p",
    "top_n_sigma",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "xtc_probability",
    "xtc_threshold",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
    "min_tokens",
    "mirostat",
    "dynatemp_range",
    "dynatemp_exponent",
    "use_beam_search",
    "lora",
};

// A filter this build does not run passes only with its neutral value; its range is checked first.
void refuse_number(const Fields& fields, std::string_view name, double low, double high,
                   double neutral) {
  const auto value = fields.number(name, low, high);
  if (value && *value != neutral) fields.refuse(name);
}

void refuse_missing_filters(const Fields& fields) {
  refuse_number(fields, "typical_p", 0, 1, 1);
  refuse_number(fields, "top_n_sigma", -1, 100, -1);
  refuse_number(fields, "dry_multiplier", 0, 10, 0);
  refuse_number(fields, "xtc_probability", 0, 1, 0);
  refuse_number(fields, "min_tokens", 0, std::numeric_limits<double>::max(), 0);
  refuse_number(fields, "mirostat", 0, 2, 0);
  refuse_number(fields, "dynatemp_range", 0, 100, 0);
  fields.refuse("logit_bias", {Json::object(), Json::array()});
  fields.refuse("allowed_token_ids");
  fields.refuse("bad_words", {Json::array()});
  fields.refuse("use_beam_search", {Json(false)});
  fields.refuse("lora", {Json::array()});
}

std::vector<int32_t> read_ids(const Fields& fields, std::string_view name, uint32_t vocab_size) {
  std::vector<int32_t> ids;
  const Json* list = fields.array(name, 0, kMaxStopIds);
  if (!list) return ids;
  for (const Json& item : list->as_array()) {
    if (!item.is_integer()) fields.wrong_value(name, quote(item.to_text()), "token ids");
    const double id = item.as_double();
    if (id < 0 || id >= vocab_size)
      fields.wrong_value(name, item.to_text(), fmt::format("ids in 0..{}", vocab_size - 1));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace

std::span<const std::string_view> sampling_field_names() { return kNames; }

void read_sampling(const Fields& fields, const Service& service, GenerateSettings* settings) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  runtime::SamplingSettings& s = settings->sampling;
  const auto set = [&](float* target, std::string_view name, double low, double high) {
    if (const auto value = fields.number(name, low, high)) *target = static_cast<float>(*value);
  };
  set(&s.temperature, "temperature", 0, 100);
  set(&s.top_p, "top_p", 0, 1);
  set(&s.min_p, "min_p", 0, 1);
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
  settings->stop_ids = read_ids(fields, "stop_token_ids", service.vocab_size());
  refuse_missing_filters(fields);
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
