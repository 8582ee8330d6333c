// ignition: prepares models.
#include "ignition/commands.h"

int main(int argc, char** argv) {
  using namespace flare::app;
  constexpr Command commands[] = {
      {"build", "make an artifact from a checkpoint", declare_build},
      {"inspect", "show what an artifact or a checkpoint holds", declare_inspect},
      {"verify", "check an artifact: structure, codes, scales, padding", declare_verify},
      {"reshard", "split an artifact into files of another size", declare_reshard},
      {"quantize", "make an artifact from an artifact by another recipe", declare_quantize},
      {"convert", "bring an artifact of version 1 or 2 to version 3", declare_convert},
      {"diff", "show what two artifacts say differently", declare_diff},
      {"extract", "write the bytes or numbers of one object", declare_extract},
      {"recipes", "list format recipes, or show one in full", declare_recipes},
      {"logits", "run token ids and write logits and hidden states", declare_logits},
      {"calibrate", "measure what projections read, for build --calibration", declare_calibrate},
      {"eval", "perplexity of a model on texts", declare_eval},
      {"bench", "measure rounds and prompts against this machine's peaks", declare_bench},
  };
  return run_program({"ignition", "Prepares models: checkpoints to artifacts.", commands}, argc,
                     argv);
}
