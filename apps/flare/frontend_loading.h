// Tokenizer and templates of MODEL without its weights.
#pragma once

#include <optional>
#include <string>

#include "flare/model_loading.h"
#include "frontend/messages/prompt.h"
#include "frontend/tokenizer/tokenizer.h"
#include "package/prepared.h"

namespace flare::app {

struct LoadedFrontend {
  std::string source;  // for messages
  package::FrontendBlock block;
  std::optional<frontend::Tokenizer> tokenizer_;
  std::optional<frontend::Template> chat, with_tools;

  // kInvalid if the model has none.
  const frontend::Tokenizer& tokenizer() const;
  frontend::PromptTemplates templates() const;
};

// MODEL, which these commands do not default.
void add_text_model(CLI::App& app, std::string* model);
// Errors: kNotFound, kInvalid and those of the readers.
LoadedFrontend load_frontend(const std::string& model, const FrontendFlags& flags);

}  // namespace flare::app
