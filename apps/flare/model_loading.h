// From the MODEL argument to a running engine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/command_line.h"
#include "prepare/prepare.h"
#include "runtime/engine.h"

namespace flare::app {

struct FrontendFlags {
  std::string chat_template;                  // file; empty: the model's
  std::string tool_format, reasoning_format;  // empty: as the template shows
};
// --chat-template, --tool-format, --reasoning-format.
void add_frontend_flags(CLI::App& app, FrontendFlags* flags);
// Errors: kNotFound (no such template file), kInvalid (no template: file, line and cause).
prepare::FrontendChoices frontend_choices(const FrontendFlags& flags);

// The MODEL argument's path; the bundled model where it is empty. Errors: kNotFound.
std::filesystem::path model_path(const std::string& argument);

struct ModelFlags {
  std::string model;  // empty: the bundled one
  std::string recipe;
  std::string isa;
  std::string kv_dtype = "fp8_e4m3";
  uint32_t max_context = 0;      // 0: not given
  uint32_t max_concurrency = 0;  // 0: not given
  int threads = 0;               // 0: every usable core
  bool exact = false;
  std::string memory_limit;  // empty: what the machine can spare
  std::string kv_cache_limit = "concurrency";
  bool prefix_reuse = true;
  uint32_t snapshot_interval = 1024;  // prompt tokens
  bool deterministic = false;
  bool prompt_logprobs = false;
  std::string cache_dir;           // empty: prefixes are kept in memory alone
  std::string cache_disk = "20G";  // of it, at most
  FrontendFlags frontend;
};

// What a server sets beside the model.
struct ServingSettings {
  uint32_t max_pending = 64;
  int pending_timeout_s = 30;        // 0: for ever
  bool serves = false;               // over HTTP: for the memory plan
  double prefill_slowdown = 2;       // as EngineOptions
  bool audit = false;                // the same
  std::function<void()> on_failure;  // see EngineOptions
};

// MODEL, --recipe, --max-context, --kv-dtype, --threads, --isa.
void add_model_flags(CLI::App& app, ModelFlags* flags);

// Opens, prepares and starts the model. The memory plan goes to stderr with `show_plan`. Errors:
// kNotFound (no such path) and those of opening, preparation and the engine.
std::unique_ptr<runtime::Engine> load_model(const ModelFlags& flags, const ServingSettings& serving,
                                            bool show_plan);

}  // namespace flare::app
