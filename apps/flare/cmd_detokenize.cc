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

// Checked: a decoder of other people's ids skips unknown ones, a person who asks wants to know.
std::string text_of(const frontend::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer.id_limit())
      throw Error(Code::kUsage, "token id {} is outside the vocabulary, 0..{} expected", id,
                  tokenizer.id_limit() - 1);
  return tokenizer.decode(ids, false);
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
      for (const Json& id : list.as_array("ids")) {
        const uint64_t value = id.as_u64("id");
        ids.push_back(static_cast<int32_t>(std::min<uint64_t>(value, INT32_MAX)));
      }
      fmt::print("{}\n", quote_json(text_of(tokenizer, ids)));
    });
    return 0;
  }
  const std::string text = text_of(tokenizer, parse_ids("--tokens", *flags.tokens));
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
