// bench_kernel: every launch of real models' plans by format and rows, as per cent of its roof.
//
//   bench_kernel [--all] [--seed N] [--threads N] [--isa LEVEL] [Google Benchmark's flags]
//
// A row is MODEL/FORMAT/OP:WEIGHT/T:ROWS; ops without weights have the format "none". Launches come
// from a plan that preparation made of a model with made-up weights, so rows follow whatever
// preparation fuses and lays out. Up to 8 rows are sequences of one row behind 512 tokens, from 16
// on one prompt. Before each sample the whole plan runs once, so that weights come from memory and
// values are those of a step; the sample is the launches of the row in all layers, its time is one
// launch. Without --all or --benchmark_filter a fixed part and a seeded draw run, four minutes at
// most; --benchmark_filter=REGEX picks from all rows, --benchmark_out=FILE writes JSON.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "bench_main.h"
#include "kernel/kernels.h"
#include "kernel/synthetic_model.h"
#include "machine/launch_name.h"
#include "machine/step_work.h"
#include "prepare/prepare.h"

namespace flare::bench {
namespace {

using Clock = std::chrono::steady_clock;
using codec::FormatId;

constexpr int32_t kRows[] = {1, 2, 4, 8, 16, 64, 512};
constexpr int32_t kMostSequences = 8;
constexpr int32_t kMostRows = 512;
constexpr int32_t kPast = 512;                   // tokens before a row of its own sequence
constexpr uint64_t kStreamedBytes = 256u << 20;  // of layers: more than any cache
constexpr uint32_t kPromptVocab = 1024;          // prompts ask for one row of the head
constexpr int kSamples = 5;
constexpr double kBudgetSeconds = 240;
constexpr size_t kDrawn = 8;  // combinations beside the fixed ones
constexpr std::string_view kNoFormat = "none";
constexpr FormatId kFormats[] = {FormatId::kBf16,     FormatId::kFp16,     FormatId::kQ4G64,
                                 FormatId::kQ5G64,    FormatId::kQ6G64,    FormatId::kQ8G32,
                                 FormatId::kGgufQ4_0, FormatId::kGgufQ8_0, FormatId::kGgufQ4K,
                                 FormatId::kGgufQ6K};

struct Settings {
  bool all = false;
  bool filtered = false;
  uint32_t seed = 1;
  int threads = 0;
  std::string isa;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

bool is_prompt(int32_t rows) { return rows > kMostSequences; }

package::PreparedModel prepare_model(const ModelShape& shape, FormatId format, uint32_t layers,
                                     uint32_t vocab) {
  prepare::PrepareOptions options;
  options.max_context = 4096;
  options.max_concurrency = kMostSequences;
  options.prefill_chunk = kMostRows;
  return prepare::prepare(std::make_unique<SyntheticSource>(shape, format, layers, vocab), options);
}

const graph::Plan& plan_for(const package::Rank& rank, int32_t rows, int32_t sequences) {
  for (const package::CatalogEntry& e : rank.catalog)
    if (e.graph_class == "step" && rows <= e.plan.capacity.rows &&
        sequences <= e.plan.capacity.sequences)
      return e.plan;
  throw Error(Code::kInternal, "no plan for {} rows", rows);
}

// Step inputs of `rows` rows, with pages and continuation rows of their own.
class SyntheticStep {
 public:
  SyntheticStep(const package::PreparedModel& model, int32_t rows)
      : sequences_(is_prompt(rows) ? 1 : rows), past_(sequences_, is_prompt(rows) ? 0 : kPast) {
    const package::Rank& rank = model.ranks[0];
    const int32_t each = rows / sequences_;
    const auto n_pages =
        static_cast<uint64_t>((past_[0] + each) / static_cast<int32_t>(rank.page.tokens) + 1);
    const uint64_t bytes = n_pages * rank.page.bytes + rank.row.bytes;
    memory_ = std::make_unique<HugeMemory>(sequences_ * bytes + 64);
    // A small number as bf16, as fp8 and as f32.
    std::memset(memory_->data(), 0x3c, memory_->size());
    std::mt19937 random(3);
    for (int32_t b = 0; b < sequences_; ++b) {
      std::byte* const base = memory_->data() + b * bytes;
      for (uint64_t p = 0; p < n_pages; ++p) pages_.push_back(base + p * rank.page.bytes);
      rows_.push_back(base + n_pages * rank.page.bytes);
      begin_.push_back(b * each);
      logits_rows_.push_back((b + 1) * each - 1);
      for (int32_t i = 0; i < each; ++i) {
        owner_.push_back(b);
        ids_.push_back(static_cast<int32_t>(random() % model.vocab_size));
      }
    }
    begin_.push_back(rows);
    for (int32_t b = 0; b < sequences_; ++b) tables_.push_back(&pages_[b * n_pages]);
    for (int axis = 0; axis < 3; ++axis)
      for (int32_t t = 0; t < rows; ++t)
        positions_.push_back(past_[owner_[t]] + t - begin_[owner_[t]]);
    logits_.resize(size_t{model.vocab_size} * sequences_);
    inputs.n_rows = rows;
    inputs.n_sequences = inputs.n_logits = sequences_;
    inputs.token_ids = ids_.data();
    inputs.positions = positions_.data();
    inputs.row_sequence = owner_.data();
    inputs.sequence_begin = begin_.data();
    inputs.sequence_past = past_.data();
    inputs.page_tables = tables_.data();
    inputs.rows = rows_.data();
    inputs.page_tokens = static_cast<int32_t>(rank.page.tokens);
    inputs.logits_rows = logits_rows_.data();
    inputs.logits = logits_.data();
    inputs.logits_stride = model.vocab_size;
  }

  std::vector<SequenceRows> sequence_rows() const {
    return std::vector<SequenceRows>(sequences_, {past_[0], inputs.n_rows / sequences_});
  }

  kernel::StepInputs inputs;

 private:
  const int32_t sequences_;
  std::unique_ptr<HugeMemory> memory_;
  std::vector<int32_t> ids_, positions_, owner_, begin_, past_, logits_rows_;
  std::vector<std::byte*> pages_, rows_;
  std::vector<std::byte* const*> tables_;
  std::vector<float> logits_;
};

// A prepared model of one format, enough layers of it, and what runs it.
class Bench {
 public:
  Bench(const ModelShape& shape, FormatId format, bool prompt, const kernel::CpuOptions& cpu)
      : model_(prepare_model(shape, format, layers(shape, format, prompt),
                             prompt ? kPromptVocab : vocab_of(shape))),
        backend_(kernel::make_cpu_backend(cpu)) {
    // Instances share one buffer: what grows it must come before what is measured.
    for (const package::CatalogEntry& e : rank().catalog) backend_->instantiate(e.plan, bindings());
  }

  const package::PreparedModel& model() const { return model_; }

  struct Measured {
    double seconds = 0;      // of one launch
    Work work;               // of one launch
    double value_bytes = 0;  // of activations that it reads and writes
  };
  Measured measure(std::string_view name, int32_t rows, benchmark::State& state) {
    SyntheticStep step(model_, rows);
    const graph::Plan& plan = plan_for(rank(), rows, step.inputs.n_sequences);
    graph::Plan part = plan;
    std::erase_if(part.launches, [&](const graph::Launch& launch) {
      return launch_name(rank(), plan, launch).text != name;
    });
    if (part.launches.empty()) throw Error(Code::kInternal, "no launch {} in the plan", name);
    const auto n = static_cast<double>(part.launches.size());
    const auto whole = backend_->instantiate(plan, bindings());
    const auto instance = backend_->instantiate(part, bindings());
    std::vector<double> seconds;
    for ([[maybe_unused]] auto _ : state) {
      backend_->replay(*whole, step.inputs);
      const double begin = team_clock(backend_->n_members());
      backend_->replay(*instance, step.inputs);
      seconds.push_back((team_clock(backend_->n_members()) - begin) / n);
      state.SetIterationTime(seconds.back());
    }
    Measured out{median(seconds),
                 step_work(rank(), part, step.sequence_rows(), step.inputs.n_logits)};
    out.work.weight_bytes /= n;
    out.work.state_bytes /= n;
    for (double& operations : out.work.operations) operations /= n;
    out.value_bytes = value_bytes(part, step.inputs);
    return out;
  }

 private:
  // Of the values that the first launch reads and writes; a launch that picks rows reads those.
  static double value_bytes(const graph::Plan& plan, const kernel::StepInputs& inputs) {
    const graph::Launch& launch = plan.launches[0];
    int32_t rows = inputs.n_rows;
    double row_bytes = 0;
    for (uint32_t i = 0; i < launch.n_operands; ++i) {
      const graph::Operand& o = plan.operands[launch.first_operand + i];
      if (o.space != graph::Space::kArena && o.space != graph::Space::kIo) continue;
      if (o.extent == graph::Extent::kLogits) rows = inputs.n_logits;
      if (o.dtype == graph::DType::kF32) row_bytes += o.cols * sizeof(float);
    }
    return rows * row_bytes;
  }

  static uint32_t layers(const ModelShape& shape, FormatId format, bool prompt) {
    if (prompt) return shape.layer_step;
    const auto enough =
        static_cast<uint32_t>(kStreamedBytes / layer_bytes(shape, format) / shape.layer_step + 1);
    return std::min(shape.layers, enough * shape.layer_step);
  }
  const package::Rank& rank() const { return model_.ranks[0]; }
  kernel::PlanBindings bindings() const { return {rank().weights, rank().constants}; }

  package::PreparedModel model_;
  std::unique_ptr<kernel::Backend> backend_;
};

// What the rows share: the model that is loaded now, the peaks of this minute.
class Session {
 public:
  explicit Session(const Settings& settings)
      : settings_(settings),
        cpu_{settings.threads > 0 ? settings.threads : static_cast<int>(usable_cores().size()),
             choose_isa(settings.isa)},
        team_(cpu_.threads),
        memory_(kStreamedBytes) {}

  const kernel::CpuOptions& cpu() const { return cpu_; }

  void run(benchmark::State& state, const ModelShape& shape, FormatId format, std::string_view name,
           int32_t rows) {
    if (!settings_.all && !settings_.filtered && seconds_since(started_) > kBudgetSeconds)
      return state.SkipWithError("left out: the time of a sample is up, --all runs everything");
    Bench& bench = loaded(shape, format, is_prompt(rows));
    const Peaks& peaks = recent_peaks();
    const Bench::Measured m = bench.measure(name, rows, state);
    // Ops without weights or states: values through memory, though they often lie in a cache.
    Work work = m.work;
    if (work.bytes() == 0 && work.total_operations() == 0) work.state_bytes = m.value_bytes;
    state.counters["us"] = m.seconds * 1e6;
    state.counters["GB/s"] = (work.bytes() > 0 ? work.bytes() : m.value_bytes) / m.seconds / 1e9;
    state.counters["GOP/s"] = work.total_operations() / m.seconds / 1e9;
    state.counters["%read"] = 100 * work.bytes() / m.seconds / peaks.read_bytes;
    state.counters["%roof"] = 100 * roof_seconds(work, peaks) / m.seconds;
  }

 private:
  Bench& loaded(const ModelShape& shape, FormatId format, bool prompt) {
    const auto key = std::tuple(shape.name, format, prompt);
    if (!bench_ || key != key_) {
      bench_.reset();
      bench_ = std::make_unique<Bench>(shape, format, prompt, cpu_);
      key_ = key;
    }
    return *bench_;
  }

  const Peaks& recent_peaks() {
    constexpr double kFreshSeconds = 2;
    if (peaks_.read_bytes == 0 || seconds_since(measured_) > kFreshSeconds) {
      peaks_ = measure_peaks(team_, cpu_.isa, memory_.bytes());
      measured_ = Clock::now();
    }
    return peaks_;
  }

  const Settings settings_;
  const kernel::CpuOptions cpu_;
  Team team_;
  const HugeMemory memory_;
  const Clock::time_point started_ = Clock::now();
  std::unique_ptr<Bench> bench_;
  std::tuple<std::string_view, FormatId, bool> key_;
  Peaks peaks_;
  Clock::time_point measured_;
};

// One model in one format with so many rows.
struct Combination {
  const ModelShape* shape;
  FormatId format;
  int32_t rows;
  bool operator==(const Combination&) const = default;
};

std::vector<Combination> all_combinations() {
  std::vector<Combination> out;
  for (const ModelShape& shape : model_shapes())
    for (const FormatId format : kFormats)
      for (const int32_t rows : kRows) out.push_back({&shape, format, rows});
  return out;
}

bool in_fixed_part(const Combination& c) {
  const bool usual_format = c.format == FormatId::kBf16 || c.format == FormatId::kQ4G64 ||
                            c.format == FormatId::kQ8G32 || c.format == FormatId::kGgufQ4_0;
  if (c.shape->name == "qwen3-0.6b")
    return usual_format && (c.rows == 1 || c.rows == 8 || c.rows == 512);
  return c.shape->name == "qwen3.5-0.8b" && c.format == FormatId::kBf16 &&
         (c.rows == 1 || c.rows == 512);
}

std::vector<Combination> chosen_combinations(const Settings& settings) {
  const std::vector<Combination> all = all_combinations();
  if (settings.all || settings.filtered) return all;
  std::vector<Combination> rest;
  std::ranges::remove_copy_if(all, std::back_inserter(rest), in_fixed_part);
  std::ranges::shuffle(rest, std::mt19937(settings.seed));
  rest.resize(kDrawn);
  std::vector<Combination> out;
  for (const Combination& c : all)
    if (in_fixed_part(c) || std::ranges::find(rest, c) != rest.end()) out.push_back(c);
  return out;
}

// Names of a model's launches in the order of the plan, from a small one of the same layers.
std::vector<LaunchName> launch_names(const ModelShape& shape) {
  const package::PreparedModel model =
      prepare_model(shape, FormatId::kBf16, shape.layer_step, kPromptVocab);
  std::vector<LaunchName> names;
  const graph::Plan& plan = plan_for(model.ranks[0], 1, 1);
  for (const graph::Launch& launch : plan.launches) {
    LaunchName name = launch_name(model.ranks[0], plan, launch);
    if (std::ranges::find(names, name.text, &LaunchName::text) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

void register_rows(Session& session, const Settings& settings) {
  std::map<std::string_view, std::vector<LaunchName>> names;
  std::set<std::pair<std::string_view, int32_t>> without_weights;  // registered already
  for (const Combination& c : chosen_combinations(settings)) {
    if (!names.contains(c.shape->name)) names[c.shape->name] = launch_names(*c.shape);
    const bool first = without_weights.insert({c.shape->name, c.rows}).second;
    for (const LaunchName& name : names[c.shape->name]) {
      if (!name.has_weight && !first) continue;
      if (is_prompt(c.rows) && name.text.ends_with(":output_head")) continue;
      const std::string_view format = name.has_weight ? codec::format(c.format).name : kNoFormat;
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}/{}/T:{}", c.shape->name, format, name.text, c.rows).c_str(),
          [&session, c, text = name.text](benchmark::State& state) {
            session.run(state, *c.shape, c.format, text, c.rows);
          })
          ->Iterations(kSamples)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

// Takes our flags out of argv; the rest is Google Benchmark's.
Settings take_settings(int& argc, char** argv) {
  Settings settings;
  int kept = 1;
  const auto number = [](std::string_view flag, std::string_view text) {
    int n = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failure != std::errc() || end != text.data() + text.size() || n < 1)
      throw Error(Code::kUsage, "{} is {}, expected a positive number", flag, quote(text));
    return n;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const bool has_value = i + 1 < argc;
    if (flag == "--all") {
      settings.all = true;
    } else if (flag == "--seed" && has_value) {
      settings.seed = static_cast<uint32_t>(number(flag, argv[++i]));
    } else if (flag == "--threads" && has_value) {
      settings.threads = number(flag, argv[++i]);
    } else if (flag == "--isa" && has_value) {
      settings.isa = argv[++i];
    } else {
      if (flag.starts_with("--benchmark_filter") || flag == "--benchmark_list_tests")
        settings.filtered = true;
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return settings;
}

int run(int argc, char** argv) {
  const Settings settings = take_settings(argc, argv);
  std::vector<char*> arguments(argv, argv + argc);
  std::string tabular = "--benchmark_counters_tabular=true";
  arguments.insert(arguments.begin() + 1, tabular.data());
  int n = static_cast<int>(arguments.size());
  benchmark::Initialize(&n, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(n, arguments.data())) return 2;
  Session session(settings);
  benchmark::AddCustomContext("cpu", cpu_model_name());
  benchmark::AddCustomContext("isa", std::string(isa_name(session.cpu().isa)));
  benchmark::AddCustomContext("threads", std::to_string(session.cpu().threads));
  benchmark::AddCustomContext("seed", std::to_string(settings.seed));
  register_rows(session, settings);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  return flare::bench::run_main("bench_kernel", flare::bench::run, argc, argv);
}
