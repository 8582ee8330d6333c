// From the MODEL argument to a running engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/command_line.h"
#include "runtime/engine.h"

namespace flare::app {

struct ModelFlags {
  std::string model;  // empty: the bundled one
  std::string recipe;
  std::string isa;
  std::string kv_dtype = "fp8_e4m3";
  uint32_t max_context = 0;      // 0: not given
  uint32_t max_concurrency = 0;  // 0: not given
  int threads = 0;               // 0: every usable core
  bool exact = false;
  bool prefix_reuse = true;
  uint32_t snapshot_interval = 1024;  // prompt tokens
};

// MODEL, --recipe, --max-context, --kv-dtype, --threads, --isa.
void add_model_flags(CLI::App& app, ModelFlags* flags);

// Opens, prepares and starts the model. The memory plan goes to stderr with `show_plan`. Errors:
// kNotFound (no such path) and those of opening, preparation and the engine.
std::unique_ptr<runtime::Engine> load_model(const ModelFlags& flags, uint32_t max_pending,
                                            bool show_plan);

}  // namespace flare::app
