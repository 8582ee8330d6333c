// `flare detokenize MODEL`: the text of ids, special tokens included.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "flare/commands.h"
#include "flare/frontend_loading.h"
#include "flare/inputs.h"

namespace flare::app {
namespace {

struct DetokenizeFlags {
  std::string model;
  std::optional<std::string> tokens, jsonl;
};

// A decoder of other people's ids skips unknown ones, a person who asks wants to know.
int32_t known_id(const frontend::Tokenizer& tokenizer, const Json& id, Code code) {
  if (id.is_integer() && id.as_double() >= 0 && id.as_double() < tokenizer.id_limit())
    return static_cast<int32_t>(id.as_u64());
  throw Error(code, "token id {} is outside the vocabulary, 0..{} expected",
              id.to_text().substr(0, 80), tokenizer.id_limit() - 1);
}

int run(const DetokenizeFlags& flags, const CommonFlags& common) {
  if (flags.tokens.has_value() == flags.jsonl.has_value())
    throw Error(Code::kUsage, "exactly one of --tokens and --jsonl expected");
  const LoadedFrontend loaded = load_frontend(flags.model, {});
  const frontend::Tokenizer& tokenizer = loaded.tokenizer();
  if (flags.jsonl) {
    for_each_line(*flags.jsonl, [&](const std::string& line) {
      std::vector<int32_t> ids;
      const Json list = parse_json(line, "ids");
      for (const Json& id : list.as_array("ids"))
        ids.push_back(known_id(tokenizer, id, Code::kInvalid));
      fmt::print("{}\n", quote_json(tokenizer.decode(ids, false)));
    });
    return 0;
  }
  const std::vector<int32_t> ids = parse_ids("--tokens", *flags.tokens);
  for (const int32_t id : ids) known_id(tokenizer, id, Code::kUsage);
  const std::string text = tokenizer.decode(ids, false);
  if (common.json) {
    print_result(common, Json::object({{"text", text}}), {});
    return 0;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (::isatty(STDOUT_FILENO) != 0) fmt::print("\n");  // a pipe gets the text alone
  return 0;
}

}  // namespace

std::function<int()> declare_detokenize(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<DetokenizeFlags>();
  add_text_model(app, &flags->model);
  const auto source = [&](const char* name, auto& value, const char* text, const char* type) {
    app.add_option(name, value, text)->type_name(type)->group("Ids (exactly one)");
  };
  source("--tokens", flags->tokens, "token ids, or a file of them", "LIST|FILE");
  source("--jsonl", flags->jsonl, "many: an id list a line in, a JSON string a line out", "FILE|-");
  app.footer(
      "Examples:\n"
      "  flare detokenize models/nano --tokens 1,298,204\n"
      "  flare detokenize vocab.gguf --tokens ids.txt --json\n"
      "  flare detokenize tokenizer.json --jsonl ids.jsonl > texts.jsonl");
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
