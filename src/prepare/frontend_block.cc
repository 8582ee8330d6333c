// The frontend block: what the checkpoint's own files say about text (architecture.md §5).
#include <algorithm>

#include "base/error.h"
#include "frontend/tokenizer/tokenizer.h"
#include "prepare/prepare.h"

namespace flare::prepare {
namespace {

// A special token of tokenizer_config.json: a string or an object with `content`.
std::string special_token(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  if (!value || value->is_null()) return "";
  if (value->is_string()) return value->as_string();
  const Json* content = value->find("content");
  return content && content->is_string() ? content->as_string() : "";
}

// `chat_template` of tokenizer_config.json: one text, or a list of named ones.
void read_config_template(const Json& config, package::FrontendBlock& block) {
  const Json* value = config.find("chat_template");
  if (!value) return;
  if (value->is_string()) block.chat_template = value->as_string();
  if (!value->is_array()) return;
  for (const Json& item : value->as_array()) {
    const Json* name = item.find("name");
    const Json* text = item.find("template");
    if (!name || !text || !name->is_string() || !text->is_string()) continue;
    if (name->as_string() == "default") block.chat_template = text->as_string();
    if (name->as_string() == "tool_use") block.tool_template = text->as_string();
  }
}

void add_stop_ids(const Json* value, std::string_view where, std::vector<int32_t>& ids) {
  if (!value || value->is_null()) return;
  const auto add = [&](const Json& id) {
    const uint64_t v = id.as_u64(where);
    if (v > INT32_MAX) throw Error(Code::kInvalid, "{}: token id {} is too large", where, v);
    if (std::ranges::find(ids, static_cast<int32_t>(v)) == ids.end())
      ids.push_back(static_cast<int32_t>(v));
  };
  if (value->is_array()) {
    for (const Json& id : value->as_array()) add(id);
  } else {
    add(*value);
  }
}

void read_generation_config(const Json& config, std::string_view where,
                            package::FrontendBlock& block) {
  add_stop_ids(config.find("eos_token_id"), where, block.stop_ids);
  const auto number = [&](std::string_view key, auto& out) {
    const Json* value = config.find(key);
    if (value && !value->is_null())
      out = static_cast<std::remove_reference_t<decltype(out)>>(value->as_double(where));
  };
  package::SamplingDefaults& s = block.sampling;
  const Json* do_sample = config.find("do_sample");
  if (do_sample && do_sample->is_bool() && !do_sample->as_bool()) {
    s.temperature = 0;
    return;
  }
  number("temperature", s.temperature);
  number("top_k", s.top_k);
  number("top_p", s.top_p);
  number("min_p", s.min_p);
  number("repetition_penalty", s.repetition_penalty);
}

}  // namespace

package::FrontendBlock make_frontend_block(const ParameterSource& source) {
  package::FrontendBlock block;
  const std::string file = source.path().string();
  block.tokenizer_json = source.resource("tokenizer.json");
  if (const auto text = source.resource("tokenizer_config.json")) {
    const Json config = parse_large_json(*text, file + ": tokenizer_config.json");
    block.bos_token = special_token(config, "bos_token");
    block.eos_token = special_token(config, "eos_token");
    read_config_template(config, block);
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
  if (block.stop_ids.empty() && block.tokenizer_json && !block.eos_token.empty()) {
    const auto tokenizer =
        frontend::Tokenizer::from_json(*block.tokenizer_json, file + ": tokenizer.json");
    if (const auto id = tokenizer.token_id(block.eos_token)) block.stop_ids.push_back(*id);
  }
  return block;
}

}  // namespace flare::prepare
