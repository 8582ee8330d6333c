// `ignition bench MODEL`: round latency by batch and context, prefill rate, and the roofs of both.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "base/cpu.h"
#include "base/file.h"
#include "common/command_line.h"
#include "common/kv_dtype.h"
#include "ignition/commands.h"
#include "ignition/round_bench.h"
#include "ignition/run_flags.h"
#include "prepare/prepare.h"

namespace flare::app {
namespace {

constexpr const char* kBatches = "1,2,4";
constexpr const char* kContexts = "512,2048,8192,16384";
constexpr uint32_t kMostSequences = 1024;
constexpr uint32_t kMostTokens = 1u << 20;

struct Flags {
  std::string model, batches = kBatches, contexts, output, recipe, isa, kv_dtype = "fp8_e4m3";
  uint32_t width = 1, repetitions = 20, warmup = 3;
  uint64_t seed = 0;
  int threads = 0;
  bool launches = false;
};

constexpr const char* kFooter = R"(
A round is one step of BATCH sequences and the choice of the next tokens. Contexts are really
read; keys, values and states are put back before each sample, which is the second of two rounds
behind CONTEXT tokens: so it finds caches and threads as in a server. The score is the unweighted
mean of the cells' medians. Per cents are of peaks measured in this run.

Examples:
  ignition bench models/nano
  ignition bench model.gguf --batches 1 --contexts 512,8192 --output rounds.json
  ignition bench model.ninfer --batches 1-8 --contexts 512 --threads 2 --isa v3 --json

Exit codes: 0 done, 2 usage, 3 model missing, 4 model invalid, 7 does not fit, 8 output exists)";

// What one run was made with; printed and written beside its figures.
struct Conditions {
  std::string model, source, recipe, kv_dtype, cpu_name;
  kernel::CpuOptions cpu;
  uint64_t seed = 0;
};

double per_cent(double part, double whole) { return 100 * part / whole; }

Json spread_json(const Spread& s) {
  return Json::object({{"median_s", s.median},
                       {"quartile1_s", s.quartile1},
                       {"quartile3_s", s.quartile3},
                       {"least_s", s.least},
                       {"most_s", s.most}});
}

Json launches_json(const RoundCell& cell, const bench::Peaks& peaks) {
  Json launches = Json::array();
  for (const LaunchCell& launch : cell.launches)
    launches.push_back(Json::object({{"name", launch.name},
                                     {"count", launch.count},
                                     {"seconds", launch.seconds},
                                     {"bytes", launch.work.bytes()},
                                     {"operations", launch.work.total_operations()},
                                     {"roof_s", bench::roof_seconds(launch.work, peaks)}}));
  return launches;
}

Json report_json(const Conditions& c, const RoundOptions& options, const RoundReport& report) {
  Json cells = Json::array(), prefill = Json::array();
  for (const RoundCell& cell : report.cells) {
    Json row = spread_json(cell.seconds);
    const double roof = bench::roof_seconds(cell.work, report.peaks);
    row.set("batch", cell.batch);
    row.set("context", cell.context);
    row.set("sampling_s", cell.sampling_s);
    row.set("weight_bytes", cell.work.weight_bytes);
    row.set("state_bytes", cell.work.state_bytes);
    row.set("operations", cell.work.total_operations());
    row.set("roof_s", roof);
    row.set("roof_share", roof / cell.seconds.median);
    if (options.launches) row.set("launches", launches_json(cell, report.peaks));
    cells.push_back(std::move(row));
  }
  for (const PrefillCell& cell : report.prefill) {
    Json row = spread_json(cell.seconds);
    row.set("context", cell.context);
    row.set("tokens_per_s", cell.context / cell.seconds.median);
    row.set("operations", cell.work.total_operations());
    row.set("roof_s", cell.roof_s);
    row.set("roof_share", cell.roof_s / cell.seconds.median);
    prefill.push_back(std::move(row));
  }
  return Json::object({{"model", c.model},
                       {"source", c.source},
                       {"recipe", c.recipe},
                       {"kv_dtype", c.kv_dtype},
                       {"cpu", c.cpu_name},
                       {"isa", isa_name(c.cpu.isa)},
                       {"threads", c.cpu.threads},
                       {"width", options.width},
                       {"repetitions", options.repetitions},
                       {"warmup", options.warmup},
                       {"prefill_chunk", options.chunk},
                       {"seed", c.seed},
                       {"peaks", bench::peaks_json(report.peaks)},
                       {"prefill", prefill},
                       {"cells", cells},
                       {"score_s", report.score_s}});
}

// All layers' launches of a name together; small ones have nothing to be compared with.
std::string launches_text(const RoundCell& cell, const bench::Peaks& peaks) {
  std::string out = fmt::format(
      "\nlaunches of a round of {} behind {} tokens (medians)\n{:40}  count  us each   ms in all"
      "   GB/s  GOP/s  % of roof\n",
      cell.batch, cell.context, "");
  double sum = 0;
  for (const LaunchCell& launch : cell.launches) {
    const double s = launch.seconds;
    sum += s;
    out += fmt::format("{:40}  {:>5}  {:>7.1f}  {:>10.3f}", launch.name, launch.count,
                       s / launch.count * 1e6, s * 1e3);
    if (launch.work.bytes() > 0)
      out += fmt::format("  {:>5.1f}  {:>5.0f}  {:>9.0f}", launch.work.bytes() / s / 1e9,
                         launch.work.total_operations() / s / 1e9,
                         per_cent(bench::roof_seconds(launch.work, peaks), s));
    out += "\n";
  }
  return out + fmt::format("{:40}  {:>5}  {:>7}  {:>10.3f}\n", "sum", "", "", sum * 1e3);
}

std::string report_text(const Conditions& c, const RoundOptions& options,
                        const RoundReport& report) {
  std::string out =
      fmt::format("{} · recipe {} · {} · {} · {} threads\n{} (medians)\n\n", c.model, c.recipe,
                  c.cpu_name, isa_name(c.cpu.isa), c.cpu.threads, bench::peaks_text(report.peaks));
  out += "prefill  context    tok/s  quartiles        GOP/s  % of roof\n";
  for (const PrefillCell& cell : report.prefill)
    out += fmt::format("{:>16}  {:>7.1f}  {:>7.1f}–{:<7.1f}  {:>6.0f}  {:>9.0f}\n", cell.context,
                       cell.context / cell.seconds.median, cell.context / cell.seconds.quartile3,
                       cell.context / cell.seconds.quartile1,
                       cell.work.total_operations() / cell.seconds.median / 1e9,
                       per_cent(cell.roof_s, cell.seconds.median));
  out += fmt::format(
      "\nround    context  batch  median ms  quartiles          tok/s   GB/s"
      "  % of read  % of roof\n");
  for (const RoundCell& cell : report.cells) {
    const double median = cell.seconds.median;
    out += fmt::format(
        "{:>16}  {:>5}  {:>9.3f}  {:>7.3f}–{:<7.3f}  {:>7.1f}  {:>5.1f}"
        "  {:>9.0f}  {:>9.0f}\n",
        cell.context, cell.batch, median * 1e3, cell.seconds.quartile1 * 1e3,
        cell.seconds.quartile3 * 1e3, cell.batch * options.width / median,
        cell.work.bytes() / median / 1e9,
        per_cent(cell.work.bytes() / median, report.peaks.read_bytes),
        per_cent(bench::roof_seconds(cell.work, report.peaks), median));
  }
  for (const RoundCell& cell : report.cells)
    if (!cell.launches.empty()) out += launches_text(cell, report.peaks);
  return out + fmt::format("\nscore {:.3f} ms, the mean of {} medians\n", report.score_s * 1e3,
                           report.cells.size());
}

// Given contexts must be possible; of the default ones those that are.
void choose_contexts(const Flags& flags, uint32_t max_position, RoundOptions& options) {
  options.contexts =
      parse_numbers("--contexts", flags.contexts.empty() ? kContexts : flags.contexts, kMostTokens);
  std::ranges::sort(options.contexts);
  const auto too_long = [&](uint32_t context) {
    return context + round_tokens(options) > max_position;
  };
  if (!flags.contexts.empty() && too_long(options.contexts.back()))
    throw Error(Code::kUsage, "--contexts {}: with {} rows more than the model's {} positions",
                options.contexts.back(), round_tokens(options), max_position);
  std::erase_if(options.contexts, too_long);
  if (options.contexts.empty())
    throw Error(Code::kUsage, "the model has {} positions, fewer than every default context",
                max_position)
        .set_hint("name shorter ones with --contexts");
}

void check_memory(const runtime::MemoryPlan& plan, const RoundOptions& options) {
  const uint64_t needed =
      uint64_t{plan.pages_for(uint64_t{options.contexts.back()} + round_tokens(options))} *
      options.batches.back();
  if (plan.page_bytes > 0 && needed > plan.pages)
    throw Error(Code::kDoesNotFit,
                "{} sequences of {} tokens need {} pages of {}, the memory has room for {}",
                options.batches.back(), options.contexts.back(), needed,
                human_bytes(plan.page_bytes), plan.pages)
        .set_hint("fewer --batches or shorter --contexts");
}

std::unique_ptr<runtime::StepRunner> make_runner(const package::PreparedModel& model,
                                                 const runtime::StepRunner::Options& options) {
  try {
    return std::make_unique<runtime::StepRunner>(model, options);
  } catch (Error& error) {
    if (error.code() == Code::kDoesNotFit)
      error.set_hint("fewer --batches or --threads, a smaller model or recipe");
    throw;
  }
}

int run(const Flags& flags, const CommonFlags& common) {
  RoundOptions options{.batches = parse_numbers("--batches", flags.batches, kMostSequences),
                       .width = flags.width,
                       .repetitions = flags.repetitions,
                       .warmup = flags.warmup,
                       .seed = flags.seed,
                       .launches = flags.launches};
  std::ranges::sort(options.batches);
  // Refused before the work, made after it: an interruption in between has nothing to remove.
  if (!flags.output.empty()) OutputSet().create(flags.output);

  const kernel::CpuOptions cpu{thread_count(flags.threads), isa_level(flags.isa)};
  prepare::PrepareOptions prepare_options;
  prepare_options.kv_dtype = kv_dtype(flags.kv_dtype);
  prepare_options.max_concurrency = options.batches.back();
  prepare_options.prefill_chunk = std::max(options.chunk, options.batches.back() * options.width);
  prepare_options.all_logits = options.width > 1;
  const package::PreparedModel model = prepare::prepare(
      prepare::open_source(flags.model, flags.recipe, cpu.threads), prepare_options);
  choose_contexts(flags, model.max_position, options);
  const auto runner =
      make_runner(model, {cpu, {.concurrency_given = true}, prepare_options.all_logits});
  check_memory(runner->memory_plan(), options);

  Progress progress("bench", round_bench_total(options), "tokens and rounds", common.progress);
  const RoundReport report = measure_rounds(*runner, model, cpu, options, [&](uint64_t n) {
    check_interrupted();
    progress.advance(n);
  });
  progress.finish();

  const Conditions conditions{
      model.name,     model.source,     flags.recipe.empty() ? "as stored" : flags.recipe,
      flags.kv_dtype, cpu_model_name(), cpu,
      flags.seed};
  const Json json = report_json(conditions, options, report);
  if (!flags.output.empty()) write_text_file(flags.output, json.to_pretty_text() + "\n");
  print_result(common, json, report_text(conditions, options, report));
  return 0;
}

}  // namespace

std::function<int()> declare_bench(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("MODEL", flags->model, "artifact, checkpoint folder, .safetensors or .gguf file")
      ->required();
  app.add_option("--batches", flags->batches, fmt::format("sequences in a round ({})", kBatches))
      ->type_name("LIST");
  app.add_option("--width", flags->width, "rows of a sequence in a round (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  app.add_option("--contexts", flags->contexts,
                 fmt::format("tokens before the round ({})", kContexts))
      ->type_name("LIST");
  app.add_option("--repetitions", flags->repetitions, "samples of a cell (20)")
      ->type_name("N")
      ->check(CLI::Range(1, 100000).description(""));
  app.add_option("--warmup", flags->warmup, "rounds before the samples of a cell (3)")
      ->type_name("N")
      ->check(CLI::Range(0, 100000).description(""));
  app.add_option("--seed", flags->seed, "of the token ids (0)")
      ->type_name("N")
      ->check(check_integer<uint64_t>);
  app.add_flag("--launches", flags->launches, "what each launch of a round takes");
  app.add_option("--output", flags->output, "JSON file to write")->type_name("FILE");
  add_kv_dtype_flag(app, &flags->kv_dtype);
  add_run_flags(app, *flags);
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
