// See model_loading.h.
#include "flare/model_loading.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "common/kv_dtype.h"
#include "prepare/frontend_notes.h"
#include "prepare/prepare.h"

namespace flare::app {
namespace {

namespace fs = std::filesystem;

// Rows for snapshots, where memory allows: several frontiers of some ten conversations.
constexpr uint32_t kSnapshots = 64;

// Prompt rows of one step whose logits are kept, where prompts may ask for log-probabilities: 64 of
// 250,000 ids take 64 MB.
constexpr uint32_t kPromptLogits = 64;

// Beside the installed program, else where this build came from.
fs::path bundled_model() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = program.parent_path().parent_path() / "share/flare/models/nano";
  if (!program.empty() && fs::exists(installed, ignored)) return installed;
  return FLARE_BUNDLED_MODEL;
}

// Where kernels read weights: a file that is mapped must not change while the model runs.
std::string weights_text(const package::PreparedModel& model, std::string_view recipe) {
  size_t packed = 0, in_place = 0;
  for (const codec::Matrix& weight : model.ranks[0].weights)
    for (const codec::Segment& segment : weight.segments)
      ++(segment.layout == codec::LayoutId::kPanels16 ? packed : in_place);
  const bool encoded = !recipe.empty() && recipe != "keep";
  return fmt::format("weights: {} parts packed in memory, {} {}", packed, in_place,
                     encoded ? "encoded in memory" : "mapped from the file");
}

// SIZE, -SIZE or a part of all memory, which has a decimal point (package.md §11.5).
runtime::MemoryLimit memory_limit(const std::string& text) {
  using Kind = runtime::MemoryLimit::Kind;
  constexpr std::string_view kForms =
      "SIZE (4G), all but -SIZE, or a part of the memory above 0 up to 1.0";
  constexpr std::string_view kFlag = "--memory-limit";
  if (text.starts_with('-'))
    return {Kind::kReserve, parse_size(kFlag, text, kForms, /*begin=*/1), 1};
  if (text.find('.') == std::string::npos)
    return {Kind::kBytes, parse_size(kFlag, text, kForms), 1};
  double share = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (failure != std::errc() || end != text.data() + text.size() || !(share > 0 && share <= 1))
    throw Error(Code::kUsage, "{} is {}, expected {}", kFlag, quote(text), kForms);
  return {Kind::kShare, 0, share};
}

runtime::PageLimit page_limit(const std::string& text) {
  using Kind = runtime::PageLimit::Kind;
  if (text == "concurrency") return {Kind::kConcurrency, 0};
  if (text == "context") return {Kind::kContext, 0};
  if (text == "memory") return {Kind::kMemory, 0};
  return {Kind::kBytes,
          parse_size("--kv-cache-limit", text, "concurrency, context, memory or SIZE (4G)")};
}

}  // namespace

std::filesystem::path model_path(const std::string& argument) {
  if (argument.empty()) return bundled_model();
  std::error_code ignored;
  if (!fs::exists(argument, ignored))
    throw Error(Code::kNotFound,
                "MODEL {}: no such file or folder, expected a checkpoint folder, a .safetensors "
                "or GGUF file or a .ninfer artifact",
                quote(argument))
        .set_hint("check the path, or leave MODEL out for the bundled model");
  return argument;
}

void add_model_flags(CLI::App& app, ModelFlags* flags) {
  app.add_option("MODEL", flags->model,
                 "checkpoint folder, .safetensors or .gguf file, or .ninfer artifact (the bundled "
                 "nano)")
      ->type_name("");
  app.add_option("--recipe", flags->recipe,
                 "number formats for a checkpoint: keep, bf16, q8, q6, q4, or another of 'ignition "
                 "recipes list' (keep)")
      ->type_name("NAME")
      ->group("Model");
  app.add_option("--max-context", flags->max_context, "tokens per conversation (the model's)")
      ->type_name("N")
      ->check(CLI::Range(2, INT32_MAX).description(""))
      ->group("Model");
  add_kv_dtype_flag(app, &flags->kv_dtype)->group("Model");
  app.add_option("--threads", flags->threads, "worker threads (every usable core)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""))
      ->group("Model");
  app.add_option("--memory-limit", flags->memory_limit,
                 "at most SIZE for model and caches, all but -SIZE, or a part such as 0.5 of the "
                 "memory (what the machine can spare)")
      ->type_name("SIZE")
      ->group("Model");
  app.add_option("--kv-cache-limit", flags->kv_cache_limit,
                 "keys and values, cached prefixes too: of all requests (concurrency), of one "
                 "(context), all the memory (memory), or SIZE (concurrency)")
      ->type_name("SIZE")
      ->group("Model");
  app.add_option("--isa", flags->isa,
                 "highest CPU level to use: v2, v3, v4, vnni, bf16, amx (the machine's)")
      ->type_name("LEVEL")
      ->group("Model");
  add_frontend_flags(app, &flags->frontend);
}

void add_frontend_flags(CLI::App& app, FrontendFlags* flags) {
  const auto add = [&](const char* name, std::string& value, const char* text, const char* type) {
    app.add_option(name, value, text)->type_name(type)->group("Prompt format");
  };
  add("--chat-template", flags->chat_template, "Jinja template to use (the model's)", "FILE");
  add("--tool-format", flags->tool_format,
      "how the model writes tool calls: none, hermes, … (as its template shows)", "NAME");
  add("--reasoning-format", flags->reasoning_format,
      "how the model marks reasoning: none, think, … (as its template shows)", "NAME");
}

prepare::FrontendChoices frontend_choices(const FrontendFlags& flags) {
  prepare::FrontendChoices choices;
  if (!flags.chat_template.empty()) {
    choices.chat_template = read_text_file(flags.chat_template);
    frontend::Template::parse(*choices.chat_template, flags.chat_template);  // names the file
  }
  if (!flags.tool_format.empty()) choices.tool_format = flags.tool_format;
  if (!flags.reasoning_format.empty()) choices.reasoning_format = flags.reasoning_format;
  return choices;
}

std::unique_ptr<runtime::Engine> load_model(const ModelFlags& flags, const ServingSettings& serving,
                                            bool show_plan) {
  runtime::EngineOptions engine_options;
  engine_options.cpu.isa = isa_level(flags.isa);
  engine_options.cpu.threads = thread_count(flags.threads);
  engine_options.memory.context_given = flags.max_context != 0;
  engine_options.memory.concurrency_given = flags.max_concurrency != 0;
  engine_options.memory.snapshots = flags.prefix_reuse ? kSnapshots : 0;
  engine_options.memory.serves = serving.serves;
  if (!flags.memory_limit.empty()) engine_options.memory.limit = memory_limit(flags.memory_limit);
  engine_options.memory.pages = page_limit(flags.kv_cache_limit);
  engine_options.prefill_slowdown = serving.prefill_slowdown;
  engine_options.max_pending = serving.max_pending;
  engine_options.pending_timeout = std::chrono::seconds(serving.pending_timeout_s);
  engine_options.on_failure = serving.on_failure;
  engine_options.audit = serving.audit;
  engine_options.prefix_reuse = flags.prefix_reuse;
  engine_options.snapshot_interval = flags.snapshot_interval;
  engine_options.deterministic = flags.deterministic;
  if (!flags.cache_dir.empty()) {
    engine_options.disk = {flags.cache_dir, parse_size("--cache-disk", flags.cache_disk)};
    engine_options.memory.disk_tier = true;
  }

  prepare::PrepareOptions options;
  options.max_context = flags.max_context;
  if (flags.max_concurrency != 0) options.max_concurrency = flags.max_concurrency;
  options.exact = flags.exact;
  options.prompt_logits = flags.prompt_logprobs ? kPromptLogits : 0;
  options.kv_dtype = kv_dtype(flags.kv_dtype);
  options.frontend = frontend_choices(flags.frontend);

  auto source =
      prepare::open_source(model_path(flags.model), flags.recipe, engine_options.cpu.threads);
  options.before_loading = [&](const package::PreparedModel& model) {
    engine_options.plan =
        runtime::plan_before_loading(model, engine_options.cpu, engine_options.memory);
    for (const std::string& note : prepare::frontend_notes(model.frontend, options.frontend))
      log_warn("{}", note);
    if (!show_plan) return;
    fmt::print(stderr, "model {} from {} · cpu {} · {} threads\n{}\n{}\n", model.name, model.source,
               isa_name(engine_options.cpu.isa), engine_options.cpu.threads,
               runtime::memory_plan_text(*engine_options.plan), weights_text(model, flags.recipe));
  };
  package::PreparedModel model = prepare::prepare(std::move(source), options);
  return std::make_unique<runtime::Engine>(std::move(model), engine_options);
}

}  // namespace flare::app
