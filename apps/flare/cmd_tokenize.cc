// `flare tokenize MODEL`: the ids of a text and what they stand for.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "flare/commands.h"
#include "flare/frontend_loading.h"
#include "flare/inputs.h"
#include "frontend/tokenizer/unicode.h"
#include "server/api/ids_json.h"

namespace flare::app {
namespace {

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> text, file, jsonl;
  bool special = false;
};

// As a user's text is encoded: markers in it are plain text, unless they are asked for.
std::vector<int32_t> ids_of(const frontend::Tokenizer& tokenizer, const std::string& text,
                            bool special) {
  if (special) return tokenizer.encode(text, {.parse_special = true});
  return tokenizer.encode(frontend::MarkedText(text, frontend::Origin::kCaller));
}

// Text, or bytes where an id holds a part of a character only.
Json piece_of(const frontend::Tokenizer& tokenizer, int32_t id) {
  const std::string bytes = tokenizer.token_bytes(id);
  if (frontend::tokenizer::valid_utf8_prefix(bytes) == bytes.size()) return Json(bytes);
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<uint32_t>(static_cast<unsigned char>(c)));
  return list;
}

int run(const TokenizeFlags& flags, const CommonFlags& common) {
  const int given = flags.text.has_value() + flags.file.has_value() + flags.jsonl.has_value();
  if (given > 1)
    throw Error(Code::kUsage, "{} texts given, at most one of --text, --file and --jsonl expected",
                given);
  const LoadedFrontend loaded = load_frontend(flags.model, {});
  const frontend::Tokenizer& tokenizer = loaded.tokenizer();
  if (flags.jsonl) {
    for_each_line(*flags.jsonl, [&](const std::string& line) {
      const Json text = parse_json(line, "text");
      fmt::print(
          "{}\n",
          server::ids_json(ids_of(tokenizer, text.as_string("text"), flags.special)).to_text());
    });
    return 0;
  }
  const std::string text = flags.text ? *flags.text : read_input(flags.file.value_or("-"));
  const std::vector<int32_t> ids = ids_of(tokenizer, text, flags.special);
  Json pieces = Json::array();
  std::string lines;
  for (const int32_t id : ids) {
    pieces.push_back(piece_of(tokenizer, id));
    if (!common.json) lines += fmt::format("{:>7}  {}\n", id, pieces.as_array().back().to_text());
  }
  print_result(
      common, Json::object({{"ids", server::ids_json(ids)}, {"pieces", std::move(pieces)}}), lines);
  return 0;
}

}  // namespace

std::function<int()> declare_tokenize(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<TokenizeFlags>();
  add_text_model(app, &flags->model);
  const auto source = [&](const char* name, auto& value, const char* text, const char* type) {
    app.add_option(name, value, text)->type_name(type)->group("Text (standard input)");
  };
  source("--text", flags->text, "the text", "TEXT");
  source("--file", flags->file, "the text of a file, - for stdin", "FILE");
  source("--jsonl", flags->jsonl, "many texts: a JSON string a line in, an id list a line out",
         "FILE|-");
  app.add_flag("--special", flags->special, "markers such as <|im_end|> match in the text");
  app.footer(
      "Examples:\n"
      "  flare tokenize models/nano --text 'Hello, world'\n"
      "  flare tokenize tokenizer.json --special --file prompt.txt --json\n"
      "  flare tokenize vocab.gguf --jsonl texts.jsonl > ids.jsonl");
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
