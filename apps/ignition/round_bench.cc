// Samples of rounds and prompts, with peaks measured between them.
#include "ignition/round_bench.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"

namespace flare::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class RoundBench {
 public:
  RoundBench(runtime::StepRunner& runner, const package::PreparedModel& model,
             const kernel::CpuOptions& cpu, const RoundOptions& options,
             const std::function<void(uint64_t)>& advance)
      : runner_(runner),
        rank_(model.ranks[0]),
        cpu_(cpu),
        options_(options),
        advance_(advance),
        team_(cpu.threads),
        memory_(bench::read_memory_bytes()) {
    std::mt19937_64 random(options.seed);
    runner_.backend().pin_members();
    const size_t n = size_t{options.contexts.back()} + round_tokens(options);
    for (uint32_t b = 0; b < options.batches.back(); ++b) {
      tokens_.emplace_back(n);
      for (int32_t& id : tokens_.back()) id = static_cast<int32_t>(random() % model.vocab_size);
    }
  }

  RoundReport run() {
    warm_up_prefill();
    for (uint32_t b = 0; b < options_.batches.back(); ++b) {
      sequences_.push_back(runner_.new_sequence());
      prompt_s_.push_back(0);
    }
    for (const uint32_t context : options_.contexts) {
      read_prompts(context);
      for (const uint32_t batch : options_.batches) measure_cell(batch, context);
    }
    summarise();
    return std::move(report_);
  }

 private:
  const graph::Plan& plan() const { return rank_.catalog.front().plan; }

  // The first step touches weights and buffers that nothing has touched yet.
  void warm_up_prefill() {
    if (options_.warmup == 0) return;
    runtime::SequenceMemory sequence = runner_.new_sequence();
    const uint32_t rows = std::min(options_.chunk, options_.contexts.front());
    const runtime::StepEntry entry{&sequence, std::span(tokens_[0]).first(rows), true};
    runner_.step({&entry, 1});
  }

  void measure_operations() {
    for (int i = 0; i < bench::kArithmetics; ++i)
      operations_[i].push_back(
          bench::peak_operations(team_, cpu_.isa, static_cast<bench::Arithmetic>(i)));
  }
  void measure_read() { read_.push_back(bench::read_bandwidth(team_, memory_.bytes())); }

  // Reads on to `context` tokens of every sequence.
  void read_prompts(uint32_t context) {
    PrefillCell cell{.context = context};
    chunks_.clear();
    for (uint32_t at = 0; at < context; at += options_.chunk) {
      const bench::SequenceRows rows{at, std::min(options_.chunk, context - at)};
      chunks_.push_back(bench::step_work(rank_, plan(), {&rows, 1}, at + rows.rows == context));
      cell.work += chunks_.back();
    }
    prompt_work_.push_back(chunks_);
    for (size_t b = 0; b < sequences_.size(); ++b) {
      measure_read();
      measure_operations();
      while (sequences_[b].computed() < context) {
        const uint32_t at = sequences_[b].computed();
        const uint32_t rows = std::min(options_.chunk, context - at);
        const runtime::StepEntry entry{&sequences_[b], std::span(tokens_[b]).subspan(at, rows),
                                       at + rows == context};
        const auto begin = Clock::now();
        runner_.step({&entry, 1});
        prompt_s_[b] += seconds_since(begin);
        advance_(rows);
      }
    }
    cell.seconds = spread_of(prompt_s_);
    report_.prefill.push_back(cell);
  }

  // Two rounds in a row, of which the second is the sample: it finds caches and team as the rounds
  // of a running engine do.
  struct Rounds {
    Rounds(std::span<runtime::SequenceMemory> sequences,
           const std::vector<std::vector<int32_t>>& tokens, uint32_t context, uint32_t width)
        : greedy(sequences.size() * width) {
      for (size_t b = 0; b < sequences.size(); ++b) {
        const std::span<const int32_t> all = tokens[b];
        const auto ids = [&](uint32_t at) { return all.subspan(at, width); };
        marks.push_back(sequences[b].mark());
        first.push_back({&sequences[b], ids(context), true});
        second.push_back({&sequences[b], ids(context + width), true});
        rows.push_back({context + width, width});
      }
    }
    void undo() const {
      for (size_t b = 0; b < marks.size(); ++b) first[b].memory->return_to(marks[b]);
    }
    std::vector<runtime::SequenceMemory::Mark> marks;
    std::vector<runtime::StepEntry> first, second;
    std::vector<bench::SequenceRows> rows;  // of the second
    std::vector<kernel::SampleParams> greedy;
  };

  // The first of the two, with the memory of read swept before it.
  void run_first(const Rounds& rounds) {
    measure_read();
    runner_.step(rounds.first);
    runner_.sample(rounds.greedy);
  }

  void measure_cell(uint32_t batch, uint32_t context) {
    const Rounds rounds({sequences_.data(), batch}, tokens_, context, options_.width);
    std::vector<double> seconds, sampling;
    for (uint32_t i = 0; i < options_.warmup + options_.repetitions; ++i) {
      run_first(rounds);
      const auto begin = Clock::now();
      runner_.step(rounds.second);
      const auto chosen = Clock::now();
      runner_.sample(rounds.greedy);
      if (i >= options_.warmup) {
        seconds.push_back(seconds_since(begin));
        sampling.push_back(seconds_since(chosen));
      }
      rounds.undo();
      advance_(1);
    }
    measure_operations();
    const auto n_logits = static_cast<int64_t>(rounds.greedy.size());
    report_.cells.push_back(
        {batch, context, spread_of(seconds), spread_of(sampling).median,
         bench::step_work(rank_, plan(), rounds.rows, n_logits),
         options_.launches ? measure_launches(rounds) : std::vector<LaunchCell>()});
  }

  // Samples of their own, since reading the clock takes time.
  std::vector<LaunchCell> measure_launches(const Rounds& rounds) {
    std::vector<LaunchCell> cells;
    std::vector<size_t> cell_of;               // by launch
    std::vector<std::vector<double>> samples;  // by cell, by round
    std::vector<double> seconds;
    for (uint32_t i = 0; i < options_.repetitions; ++i) {
      run_first(rounds);
      const graph::Plan& plan = runner_.step_timed(rounds.second, &seconds);
      if (i == 0) {
        const auto n_logits = static_cast<int64_t>(rounds.greedy.size());
        cell_of =
            group_launches(plan, bench::launch_work(rank_, plan, rounds.rows, n_logits), &cells);
        samples.resize(cells.size());
      }
      for (std::vector<double>& of_cell : samples) of_cell.push_back(0);
      for (size_t l = 0; l < seconds.size(); ++l) samples[cell_of[l]].back() += seconds[l];
      rounds.undo();
      advance_(1);
    }
    for (size_t c = 0; c < cells.size(); ++c) cells[c].seconds = spread_of(samples[c]).median;
    return cells;
  }

  // The cell of each launch; cells without seconds.
  std::vector<size_t> group_launches(const graph::Plan& plan, const std::vector<bench::Work>& works,
                                     std::vector<LaunchCell>* cells) const {
    std::vector<size_t> cell_of;
    for (size_t l = 0; l < plan.launches.size(); ++l) {
      const std::string name = bench::launch_name(rank_, plan, plan.launches[l]).text;
      auto cell = std::ranges::find(*cells, name, &LaunchCell::name);
      if (cell == cells->end()) cell = cells->insert(cell, LaunchCell{.name = name});
      ++cell->count;
      cell->work += works[l];
      cell_of.push_back(static_cast<size_t>(cell - cells->begin()));
    }
    return cell_of;
  }

  void summarise() {
    report_.peaks.read_bytes = spread_of(read_).median;
    for (int i = 0; i < bench::kArithmetics; ++i)
      report_.peaks.operations[i] = spread_of(operations_[i]).median;
    for (size_t i = 0; i < report_.prefill.size(); ++i)
      for (const bench::Work& chunk : prompt_work_[i])
        report_.prefill[i].roof_s += bench::roof_seconds(chunk, report_.peaks);
    for (const RoundCell& cell : report_.cells) report_.score_s += cell.seconds.median;
    report_.score_s /= static_cast<double>(report_.cells.size());
  }

  runtime::StepRunner& runner_;
  const package::Rank& rank_;
  const kernel::CpuOptions cpu_;
  const RoundOptions& options_;
  const std::function<void(uint64_t)>& advance_;
  Team team_;
  // Larger than the caches, so that rounds find them full of other things than the state that was
  // just restored.
  const bench::HugeMemory memory_;
  std::vector<std::vector<int32_t>> tokens_;  // by sequence
  std::vector<runtime::SequenceMemory> sequences_;
  std::vector<double> prompt_s_;  // by sequence, so far
  std::vector<bench::Work> chunks_;
  std::vector<std::vector<bench::Work>> prompt_work_;  // by context, by chunk
  std::vector<double> read_;
  std::vector<double> operations_[bench::kArithmetics];
  RoundReport report_;
};

}  // namespace

Spread spread_of(std::vector<double> samples) {
  FLARE_ASSERT(!samples.empty());
  std::ranges::sort(samples);
  // The p-quantile, linear between neighbours.
  const auto quantile = [&](double p) {
    const double at = p * static_cast<double>(samples.size() - 1);
    const auto low = static_cast<size_t>(at);
    const size_t high = std::min(low + 1, samples.size() - 1);
    return samples[low] + (at - static_cast<double>(low)) * (samples[high] - samples[low]);
  };
  return {quantile(0.5), quantile(0.25), quantile(0.75), samples.front(), samples.back()};
}

RoundReport measure_rounds(runtime::StepRunner& runner, const package::PreparedModel& model,
                           const kernel::CpuOptions& cpu, const RoundOptions& options,
                           const std::function<void(uint64_t)>& advance) {
  return RoundBench(runner, model, cpu, options, advance).run();
}

uint32_t round_tokens(const RoundOptions& options) { return 2 * options.width; }

uint64_t round_bench_total(const RoundOptions& options) {
  const uint64_t rounds = uint64_t{options.batches.size()} * options.contexts.size() *
                          (uint64_t{options.warmup} + options.repetitions +
                           (options.launches ? options.repetitions : 0));
  return uint64_t{options.batches.back()} * options.contexts.back() + rounds;
}

}  // namespace flare::app
