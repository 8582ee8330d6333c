// flare: runs models.
#include "flare/commands.h"

int main(int argc, char** argv) {
  using namespace flare::app;
  constexpr Command commands[] = {
      {"run", "serve a model over HTTP (OpenAI chat completions)", declare_run},
      {"chat", "talk to a model in the terminal", declare_chat},
      {"generate", "print one answer", declare_generate},
  };
  return run_program({"flare", "Runs models: over HTTP or in the terminal.", commands}, argc, argv);
}
