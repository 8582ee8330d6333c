// The frontend block: what the checkpoint's own files say about text (architecture.md §5).
#include <algorithm>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf_parts.h"
#include "frontend/output/format.h"
#include "frontend/template/traits.h"
#include "frontend/template/unknown_formats.h"
#include "frontend/tokenizer/tokenizer.h"
#include "prepare/frontend_notes.h"
#include "prepare/import/gguf_vocabulary.h"
#include "prepare/prepare.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;

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

// Text of a role such as "tokenizer.json"; nothing if there is none.
using Resource = std::function<std::optional<std::string>(std::string_view role)>;

// The templates of a block, parsed.
struct ParsedTemplates {
  std::optional<frontend::Template> chat_template, tool_template;
  frontend::TemplateSource chat, tools;
};

// Nothing without a template, or if one cannot be parsed.
std::unique_ptr<ParsedTemplates> parse_templates(const package::FrontendBlock& block,
                                                 const std::string& file) {
  if (!block.chat_template) return nullptr;
  auto out = std::make_unique<ParsedTemplates>();
  try {
    out->chat_template = frontend::Template::parse(*block.chat_template, file);
    if (block.tool_template)
      out->tool_template = frontend::Template::parse(*block.tool_template, file);
  } catch (const Error&) {
    return nullptr;
  }
  out->chat = {*block.chat_template, &*out->chat_template};
  if (out->tool_template) out->tools = {*block.tool_template, &*out->tool_template};
  return out;
}

// What the templates are found to do; neutral without them.
void read_traits(const std::string& file, package::FrontendBlock& block) {
  const auto parsed = parse_templates(block, file);
  if (!parsed) return;
  frontend::TemplateTraits traits =
      frontend::detect_traits(parsed->chat, parsed->tools, block.bos_token, block.eos_token);
  block.tool_format = std::move(traits.tool_format);
  block.reasoning_format = std::move(traits.reasoning_format);
  block.reasoning = std::move(traits.reasoning);
  block.rules = traits.rules;
}

// A format that a flag names: it must be one, and "none" is recorded as no name.
std::string chosen_format(std::string_view flag, const std::string& name, bool known,
                          std::span<const std::string_view> names) {
  if (known && !name.empty()) return name == "none" ? "" : name;
  std::string list;
  for (const std::string_view one : names) list += (list.empty() ? "" : ", ") + std::string(one);
  throw Error(Code::kUsage, "{}: {} is no format, one of {} expected", flag, quote(name), list);
}

void apply_formats(const FrontendChoices& choices, package::FrontendBlock& block) {
  if (choices.tool_format) {
    const std::string& name = *choices.tool_format;
    block.tool_format = chosen_format("--tool-format", name, frontend::find_format(name) != nullptr,
                                      frontend::format_names());
  }
  if (choices.reasoning_format) {
    const std::string& name = *choices.reasoning_format;
    block.reasoning_format =
        chosen_format("--reasoning-format", name, frontend::find_reasoning_format(name) != nullptr,
                      frontend::reasoning_format_names());
    // Spelling and switches were found for another format.
    const frontend::ReasoningFormat* format = frontend::find_reasoning_format(name);
    block.reasoning.open = format->open;
    block.reasoning.close = format->close;
  } else if (block.reasoning_format.empty()) {
    block.reasoning_format = frontend::implied_reasoning_format(block.tool_format);
  }
}

// Templates and the special tokens that they name.
void read_templates(const Resource& resource, const std::string& file,
                    const FrontendChoices& choices, package::FrontendBlock& block) {
  if (const auto text = resource("tokenizer_config.json")) {
    const std::string where = file + ": tokenizer_config.json";
    const Json config = parse_large_json(*text, where);
    config.as_object(where);
    block.bos_token = special_token({config, where, "bos_token"});
    block.eos_token = special_token({config, where, "eos_token"});
    read_config_template({config, where, "chat_template"}, block);
    block.add_bos = flag({config, where, "add_bos_token"}, block.add_bos);
    block.add_eos = flag({config, where, "add_eos_token"}, block.add_eos);
  }
  const auto template_file = resource("chat_template.jinja");
  if (template_file || choices.chat_template) {
    block.chat_template = choices.chat_template ? choices.chat_template : template_file;
    block.tool_template.reset();
  }
}

package::FrontendBlock make_block(const Resource& resource, const std::string& file,
                                  const FrontendChoices& choices) {
  package::FrontendBlock block;
  block.tokenizer_json = resource("tokenizer.json");
  if (!block.tokenizer_json) block.sentencepiece_model = resource("tokenizer.model");
  read_templates(resource, file, choices, block);
  const auto generation = resource("generation_config.json");
  if (generation) {
    const std::string where = file + ": generation_config.json";
    read_generation_config(parse_json(*generation, where), where, block);
  }
  // Without a generation config the tokenizer's end-of-sequence token ends an answer.
  if (block.stop_ids.empty() && !block.eos_token.empty()) {
    if (const auto tokenizer = load_tokenizer(block, file))
      if (const auto id = tokenizer->token_id(block.eos_token)) block.stop_ids.push_back(*id);
  }
  read_traits(file, block);
  apply_formats(choices, block);
  return block;
}

// Files of a folder. `tokenizer`: the one to take for the role of that name, or none.
Resource files_of(const fs::path& folder, std::string_view tokenizer_role = {},
                  const fs::path& tokenizer = {}) {
  return [=](std::string_view role) -> std::optional<std::string> {
    const bool other = role.starts_with("tokenizer.") && !tokenizer_role.empty();
    if (other && role != tokenizer_role) return std::nullopt;
    const fs::path path = other ? tokenizer : folder / role;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return std::nullopt;
    return read_text_file(path);
  };
}

}  // namespace

package::FrontendBlock make_frontend_block(const ParameterSource& source,
                                           const FrontendChoices& choices) {
  return make_block([&](std::string_view role) { return source.resource(role); },
                    source.path().string(), choices);
}

package::FrontendBlock open_frontend(const fs::path& path, const FrontendChoices& choices) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error(Code::kNotFound, "MODEL {}: no such file or folder", quote(path.string()));
  const std::string where = path.string();
  if (fs::is_directory(path, ignored)) return make_block(files_of(path), where, choices);
  const std::string ending = path.extension().string();
  if (ending == ".gguf") {
    const auto parts = checkpoint::open_gguf_parts(path);
    return make_block([&](std::string_view role) { return gguf_resource(parts.front(), role); },
                      where, choices);
  }
  const fs::path folder = path.parent_path();
  if (ending == ".json" || ending == ".model") {
    const std::string role = "tokenizer" + ending;
    // Under another name it stands alone: what lies beside it may belong to another tokenizer.
    const bool alone = path.filename() != role;
    return make_block(files_of(alone ? fs::path("/nowhere") : folder, role, path), where, choices);
  }
  if (ending == ".safetensors") return make_block(files_of(folder), where, choices);
  return make_frontend_block(*open_source(path, "", 1), choices);
}

std::vector<std::string> frontend_notes(const package::FrontendBlock& block,
                                        const FrontendChoices& choices) {
  std::vector<std::string> notes;
  const auto parsed = parse_templates(block, "chat template");
  if (!parsed) return notes;
  const frontend::UnknownFormats unknown =
      frontend::find_unknown_formats(parsed->chat, parsed->tools, block.bos_token, block.eos_token);
  constexpr size_t kShown = 300;
  if (!unknown.call.empty() && !choices.tool_format)
    notes.push_back(fmt::format(
        "the chat template writes a tool call as {}, which is no tool format that is known: calls "
        "stay text, unless --tool-format says what they are",
        quote(unknown.call.substr(0, kShown))));
  if (!unknown.thinking.empty() && !choices.reasoning_format && block.reasoning_format.empty())
    notes.push_back(fmt::format(
        "the chat template writes a thought as {}, which is no reasoning format that is known: "
        "reasoning stays text, unless --reasoning-format says what it is",
        quote(unknown.thinking.substr(0, kShown))));
  return notes;
}

std::vector<std::string> frontend_notes(const Resource& resource, const std::string& file) {
  try {
    package::FrontendBlock block;
    read_templates(resource, file, {}, block);
    read_traits(file, block);
    apply_formats({}, block);
    return frontend_notes(block, {});
  } catch (const Error& error) {
    return {error.message()};
  }
}

}  // namespace flare::prepare
