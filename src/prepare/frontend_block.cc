// The frontend block: what the checkpoint's own files say about text (architecture.md §5).
#include <algorithm>

#include "base/error.h"
#include "frontend/tokenizer/tokenizer.h"
#include "prepare/prepare.h"

namespace flare::prepare {
namespace {

// `key` of one file, with the words that name it in messages.
struct Field {
  Field(const Json& config, const std::string& file, std::string_view key)
      : value(config.find(key)), where(fmt::format("{}: {}", file, key)) {
    if (value && value->is_null()) value = nullptr;
  }
  const Json* value;  // null: absent
  std::string where;
};

// A special token of tokenizer_config.json: a string or an object with `content`.
std::string special_token(const Field& field) {
  if (!field.value) return "";
  if (!field.value->is_object()) return field.value->as_string(field.where);
  return field.value->at("content", field.where).as_string(field.where + ".content");
}

// `chat_template` of tokenizer_config.json: one text, or a list of named ones.
void read_config_template(const Field& field, package::FrontendBlock& block) {
  if (!field.value) return;
  if (!field.value->is_array()) {
    block.chat_template = field.value->as_string(field.where);
    return;
  }
  for (const Json& item : field.value->as_array()) {
    const std::string& name = item.at("name", field.where).as_string(field.where + ".name");
    const std::string& text = item.at("template", field.where).as_string(field.where + ".template");
    if (name == "default") block.chat_template = text;
    if (name == "tool_use") block.tool_template = text;
  }
}

void add_stop_ids(const Field& field, std::vector<int32_t>& ids) {
  if (!field.value) return;
  const auto add = [&](const Json& id) {
    const uint64_t v = id.as_u64(field.where);
    if (v > INT32_MAX)
      throw Error(Code::kInvalid, "{}: token id {} is too large, up to {} expected", field.where, v,
                  INT32_MAX);
    if (std::ranges::find(ids, static_cast<int32_t>(v)) == ids.end())
      ids.push_back(static_cast<int32_t>(v));
  };
  if (field.value->is_array()) {
    for (const Json& id : field.value->as_array()) add(id);
  } else {
    add(*field.value);
  }
}

// A sampling number in [least, most]; `otherwise` if the file does not give it.
double number(const Field& field, double least, double most, double otherwise) {
  if (!field.value) return otherwise;
  const double v = field.value->as_double(field.where);
  if (!(v >= least && v <= most))
    throw Error(Code::kInvalid, "{}: {} found, {}..{} expected", field.where, v, least, most);
  return v;
}

void read_generation_config(const Json& config, const std::string& file,
                            package::FrontendBlock& block) {
  const auto field = [&](std::string_view key) { return Field(config, file, key); };
  config.as_object(file);
  add_stop_ids(field("eos_token_id"), block.stop_ids);
  package::SamplingDefaults& s = block.sampling;
  const Field do_sample = field("do_sample");
  if (do_sample.value && !do_sample.value->as_bool(do_sample.where)) {
    s.temperature = 0;
    return;
  }
  // Generous bounds: they keep out what no sampler can mean.
  constexpr double kMost = 1e6;
  s.temperature = static_cast<float>(number(field("temperature"), 0, kMost, s.temperature));
  s.top_k = static_cast<int32_t>(number(field("top_k"), -1, INT32_MAX, s.top_k));
  s.top_p = static_cast<float>(number(field("top_p"), 0, 1, s.top_p));
  s.min_p = static_cast<float>(number(field("min_p"), 0, 1, s.min_p));
  s.repetition_penalty =
      static_cast<float>(number(field("repetition_penalty"), 1e-6, kMost, s.repetition_penalty));
}

bool flag(const Field& field, bool otherwise) {
  return field.value ? field.value->as_bool(field.where) : otherwise;
}

std::optional<frontend::Tokenizer> load_tokenizer(const package::FrontendBlock& block,
                                                  const std::string& file) {
  if (block.tokenizer_json)
    return frontend::Tokenizer::from_json(*block.tokenizer_json, file + ": tokenizer.json");
  if (block.sentencepiece_model)
    return frontend::Tokenizer::from_sentencepiece(*block.sentencepiece_model,
                                                   file + ": tokenizer.model");
  return std::nullopt;
}

}  // namespace

package::FrontendBlock make_frontend_block(const ParameterSource& source) {
  package::FrontendBlock block;
  const std::string file = source.path().string();
  block.tokenizer_json = source.resource("tokenizer.json");
  if (!block.tokenizer_json) block.sentencepiece_model = source.resource("tokenizer.model");
  if (const auto text = source.resource("tokenizer_config.json")) {
    const std::string where = file + ": tokenizer_config.json";
    const Json config = parse_large_json(*text, where);
    config.as_object(where);
    block.bos_token = special_token({config, where, "bos_token"});
    block.eos_token = special_token({config, where, "eos_token"});
    read_config_template({config, where, "chat_template"}, block);
    block.add_bos = flag({config, where, "add_bos_token"}, block.add_bos);
    block.add_eos = flag({config, where, "add_eos_token"}, block.add_eos);
  }
  if (const auto text = source.resource("chat_template.jinja")) {
    block.chat_template = *text;
    block.tool_template.reset();
  }
  const auto generation = source.resource("generation_config.json");
  if (generation) {
    const std::string where = file + ": generation_config.json";
    read_generation_config(parse_json(*generation, where), where, block);
  }
  // Without a generation config the tokenizer's end-of-sequence token ends an answer.
  if (block.stop_ids.empty() && !block.eos_token.empty()) {
    if (const auto tokenizer = load_tokenizer(block, file))
      if (const auto id = tokenizer->token_id(block.eos_token)) block.stop_ids.push_back(*id);
  }
  return block;
}

}  // namespace flare::prepare
