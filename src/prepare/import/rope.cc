// Merging and checking of rotary settings.
#include "prepare/import/rope.h"

namespace flare::prepare {
namespace {

void merge_member(Json& into, std::string_view key, const Json& value, const std::string& where) {
  if (value.is_null()) return;
  const std::string_view name = key == "type" ? "rope_type" : key;
  const Json* present = into.find(name);
  if (present == nullptr) {
    into.set(name, value);
    return;
  }
  const bool same = *present == value || (present->is_number() && value.is_number() &&
                                          present->as_double() == value.as_double());
  if (!same)
    throw Error(Code::kBinding, "{}: rotary member '{}' is both {} and {}, expected one value",
                where, name, present->to_text(), value.to_text());
}

void copy_real(ConfigReader& from, std::string_view key, Json& to) {
  to.set(key, from.positive_real(key));
}

void copy_optional_real(ConfigReader& from, std::string_view key, Json& to) {
  if (const double value = from.positive_real_or(key, 0); value != 0) to.set(key, value);
}

void copy_original_context(ConfigReader& from, uint64_t absent, Json& to) {
  constexpr std::string_view key = "original_max_position_embeddings";
  to.set(key, absent == 0 ? from.count(key) : from.count_or(key, absent));
}

}  // namespace

Json merged_rope(ConfigReader& config) {
  Json rope = Json::object();
  for (std::string_view group : {"rope_parameters", "rope_scaling"}) {
    const Json* value = config.take(group);
    if (value == nullptr) continue;
    if (!value->is_object())
      throw Error(Code::kBinding, "{}: '{}' is {}, expected an object", config.where(), group,
                  value->kind_name());
    for (const auto& [key, member] : value->as_object())
      merge_member(rope, key, member, config.where());
  }
  for (std::string_view key : {"rope_theta", "partial_rotary_factor"})
    if (const Json* value = config.take(key)) merge_member(rope, key, *value, config.where());
  return rope;
}

Json plain_rope(ConfigReader& config, double default_theta, uint64_t max_positions) {
  const Json merged = merged_rope(config);
  ConfigReader rope(merged, config.where() + ": rope_parameters");
  const std::string type = rope.text("rope_type").value_or("default");
  Json out = Json::object();
  out.set("rope_type", type);
  out.set("rope_theta", rope.positive_real_or("rope_theta", default_theta));
  rope.expect("partial_rotary_factor", {1.0});
  if (type == "linear") {
    copy_real(rope, "factor", out);
  } else if (type == "llama3") {
    copy_real(rope, "factor", out);
    copy_real(rope, "low_freq_factor", out);
    copy_real(rope, "high_freq_factor", out);
    copy_original_context(rope, 0, out);
  } else if (type == "yarn") {
    copy_real(rope, "factor", out);
    copy_original_context(rope, max_positions, out);
    out.set("beta_fast", rope.positive_real_or("beta_fast", 32));
    out.set("beta_slow", rope.positive_real_or("beta_slow", 1));
    out.set("truncate", rope.flag_or("truncate", true));
    copy_optional_real(rope, "attention_factor", out);
    copy_optional_real(rope, "mscale", out);
    copy_optional_real(rope, "mscale_all_dim", out);
  } else if (type != "default") {
    throw Error(Code::kSupport,
                "{}: rope_type is {}, only default, linear, llama3 and yarn are supported",
                rope.where(), quote(type));
  } else {
    // Published files repeat these with the default type, where they mean nothing.
    constexpr std::string_view unused[] = {"factor", "original_max_position_embeddings"};
    rope.ignore(unused);
  }
  rope.finish();
  return out;
}

}  // namespace flare::prepare
