// The accounting of config keys, and the keys that mean nothing here.
#include "prepare/import/config_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flare::prepare {
namespace {

constexpr std::string_view kNeutralKeys[] = {
    // Bookkeeping of the library that wrote the file.
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "architectures",
    "auto_map",
    "model_type",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "tokenizer_class",
    "processor_class",
    "unsloth_fixed",
    "unsloth_version",
    // Read by read_quantisation.
    "quantization_config",
    "compression_config",
    // Training and execution settings.
    "attention_dropout",
    "hidden_dropout",
    "residual_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "initializer_range",
    "use_cache",
    "pretraining_tp",
    "gradient_checkpointing",
    "torchscript",
    "chunk_size_feed_forward",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict",
    "return_dict_in_generate",
    "use_bfloat16",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "is_encoder_decoder",
    "is_decoder",
    "add_cross_attention",
    "cross_attention_hidden_size",
    "pruned_heads",
    "router_aux_loss_coef",
    "output_router_logits",
    // Tasks and labels.
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "finetuning_task",
    "task_specific_params",
    "prefix",
    // Token ids and generation defaults, which the frontend takes from its own files.
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "bad_words_ids",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "num_return_sequences",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
};

std::string shown(const Json& value) { return quote(value.to_text()); }

}  // namespace

std::vector<std::string> read_layer_types(ConfigReader& config, uint64_t layers,
                                          std::string_view other, uint64_t interval) {
  constexpr std::string_view kFull = "full_attention";
  auto types = config.texts("layer_types");
  if (!types) {
    types.emplace();
    for (uint64_t i = 0; i < layers; ++i)
      types->emplace_back((i + 1) % interval == 0 ? kFull : other);
  }
  if (types->size() != layers)
    throw Error(Code::kBinding, "{}: layer_types has {} items, expected {}", config.where(),
                types->size(), layers);
  for (const std::string& type : *types)
    if (type != kFull && type != other)
      throw Error(Code::kSupport, "{}: layer_types has {}, only {} and {} are supported",
                  config.where(), quote(type), kFull, other);
  return *types;
}

std::span<const std::string_view> neutral_keys() { return kNeutralKeys; }

double config_real(double value) { return static_cast<double>(static_cast<float>(value)); }

ConfigReader::ConfigReader(const Json& config, std::string where)
    : config_(config), where_(std::move(where)) {
  if (!config.is_object())
    throw Error(Code::kBinding, "{} is {}, expected an object", where_, config.kind_name());
  read_.resize(config.as_object().size());
}

void ConfigReader::mark(std::string_view key) {
  const auto& members = config_.as_object();
  for (size_t i = 0; i < members.size(); ++i)
    if (members[i].first == key) read_[i] = true;
}

const Json* ConfigReader::take(std::string_view key) {
  mark(key);
  const Json* value = config_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void ConfigReader::wrong(std::string_view key, const Json& value, std::string_view expected) const {
  throw Error(Code::kBinding, "{}: '{}' is {}, expected {}", where_, key, shown(value), expected);
}

uint64_t ConfigReader::as_count(std::string_view key, const Json& value) const {
  if (!value.is_integer()) wrong(key, value, "a positive integer");
  const int64_t limit = std::numeric_limits<int32_t>::max();
  int64_t n = 0;
  try {
    n = value.as_i64();
  } catch (const Error&) {
    wrong(key, value, "a positive integer below 2^31");
  }
  if (n <= 0 || n > limit) wrong(key, value, "a positive integer below 2^31");
  return static_cast<uint64_t>(n);
}

double ConfigReader::as_positive(std::string_view key, const Json& value) const {
  if (!value.is_number()) wrong(key, value, "a positive number");
  const double real = config_real(value.as_double());
  if (!(real > 0) || !std::isfinite(real)) wrong(key, value, "a positive number");
  return real;
}

uint64_t ConfigReader::count(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr)
    throw Error(Code::kBinding, "{}: '{}' is missing, expected a positive integer", where_, key);
  return as_count(key, *value);
}

uint64_t ConfigReader::count_or(std::string_view key, uint64_t absent) {
  const Json* value = take(key);
  return value == nullptr ? absent : as_count(key, *value);
}

double ConfigReader::positive_real(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr)
    throw Error(Code::kBinding, "{}: '{}' is missing, expected a positive number", where_, key);
  return as_positive(key, *value);
}

double ConfigReader::positive_real_or(std::string_view key, double absent) {
  const Json* value = take(key);
  return value == nullptr ? config_real(absent) : as_positive(key, *value);
}

bool ConfigReader::flag_or(std::string_view key, bool absent) {
  const Json* value = take(key);
  if (value == nullptr) return absent;
  if (!value->is_bool()) wrong(key, *value, "true or false");
  return value->as_bool();
}

std::optional<std::string> ConfigReader::text(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(key, *value, "a string");
  return value->as_string();
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) wrong(key, *value, "a list of strings");
  std::vector<std::string> out;
  for (const Json& item : value->as_array()) {
    if (!item.is_string()) wrong(key, *value, "a list of strings");
    out.push_back(item.as_string());
  }
  return out;
}

std::optional<std::vector<uint64_t>> ConfigReader::counts(std::string_view key) {
  const Json* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) wrong(key, *value, "a list of positive integers");
  std::vector<uint64_t> out;
  for (const Json& item : value->as_array()) out.push_back(as_count(key, item));
  return out;
}

void ConfigReader::expect(std::string_view key, std::initializer_list<Json> allowed) {
  const Json* value = take(key);
  if (value == nullptr) return;
  std::string list;
  for (const Json& one : allowed) {
    if (one == *value) return;
    // 1 and 1.0 are the same number here.
    if (one.is_number() && value->is_number() && one.as_double() == value->as_double()) return;
    list += (list.empty() ? "" : " or ") + one.to_text();
  }
  throw Error(Code::kSupport, "{}: '{}' is {}, only {} is supported", where_, key, shown(*value),
              list);
}

void ConfigReader::ignore(std::span<const std::string_view> keys) {
  for (std::string_view key : keys) mark(key);
}

void ConfigReader::finish() {
  const auto& members = config_.as_object();
  for (size_t i = 0; i < members.size(); ++i) {
    if (read_[i] || members[i].second.is_null()) continue;
    throw Error(Code::kBinding,
                "{}: unknown key {} with value {}; it may change the mathematics, expected only "
                "keys that the architecture defines",
                where_, quote(members[i].first), shown(members[i].second));
  }
}

}  // namespace flare::prepare
