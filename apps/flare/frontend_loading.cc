// See frontend_loading.h.
#include "flare/frontend_loading.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace flare::app {

const frontend::Tokenizer& LoadedFrontend::tokenizer() const {
  if (!tokenizer_)
    throw Error(Code::kInvalid,
                "{}: has no tokenizer.json and no tokenizer.model, so there is nothing to "
                "tokenize with",
                source);
  return *tokenizer_;
}

frontend::PromptTemplates LoadedFrontend::templates() const {
  if (!chat)
    throw Error(Code::kInvalid, "{}: has no chat template, so it takes raw prompts only", source)
        .set_hint("name one with --chat-template FILE");
  return {.chat = &*chat,
          .with_tools = with_tools ? &*with_tools : nullptr,
          .bos_token = block.bos_token,
          .eos_token = block.eos_token};
}

void add_text_model(CLI::App& app, std::string* model) {
  app.add_option("MODEL", *model,
                 "checkpoint folder, .safetensors, .gguf or .ninfer file, a folder of tokenizer "
                 "files, a tokenizer.json or a tokenizer.model")
      ->type_name("")
      ->required();
}

LoadedFrontend load_frontend(const std::string& model, const FrontendFlags& flags) {
  LoadedFrontend out;
  out.source = model;
  out.block = prepare::open_frontend(model, frontend_choices(flags));
  std::vector<std::string_view> templates;
  for (const auto* text : {&out.block.chat_template, &out.block.tool_template})
    if (*text) templates.push_back(**text);
  if (out.block.tokenizer_json)
    out.tokenizer_ = frontend::Tokenizer::from_json(*out.block.tokenizer_json,
                                                    model + ": tokenizer.json", templates);
  else if (out.block.sentencepiece_model)
    out.tokenizer_ = frontend::Tokenizer::from_sentencepiece(
        *out.block.sentencepiece_model, model + ": tokenizer.model", &templates,
        {out.block.add_bos, out.block.add_eos});
  const bool given = !flags.chat_template.empty();
  if (out.block.chat_template)
    out.chat = frontend::Template::parse(*out.block.chat_template,
                                         given ? flags.chat_template : model + ": chat template");
  if (out.block.tool_template)
    out.with_tools = frontend::Template::parse(*out.block.tool_template, model + ": tool template");
  return out;
}

}  // namespace flare::app
