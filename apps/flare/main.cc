// flare: runs models.
#include "flare/commands.h"

int main(int argc, char** argv) {
  using namespace flare::app;
  constexpr Command commands[] = {
      {"run", "serve a model over HTTP (OpenAI and Anthropic APIs, chat page)", declare_run},
      {"chat", "talk to a model in the terminal", declare_chat},
      {"generate", "print one answer", declare_generate},
      {"doctor", "check machine, configuration and files", declare_doctor},
      {"tokenize", "show the token ids of a text", declare_tokenize},
      {"detokenize", "show the text of token ids", declare_detokenize},
      {"render", "show the prompt of a conversation", declare_render},
      {"bench", "measure a server under load", declare_bench},
  };
  return run_program({"flare", "Runs models: over HTTP or in the terminal.", commands,
                      /*has_configuration=*/true},
                     argc, argv);
}
