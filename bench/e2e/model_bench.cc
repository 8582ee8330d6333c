// bench_model: prompt reading and decoding of a whole model, as per cent of peaks of the same run.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "kernel/kernels.h"
#include "machine/peaks.h"
#include "prepare/prepare.h"
#include "runtime/step.h"

namespace flare::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string model, recipe, isa;
  int threads = 0;
  uint32_t prompt = 512, decode = 32, sequences = 1;
  int repetitions = 5;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Bytes of linear weights that one decode step streams, and multiply-adds of one row.
struct Work {
  double weight_bytes = 0, operations = 0;
};
Work work_of_row(const package::Rank& rank, const graph::Plan& plan) {
  Work work;
  for (const graph::Launch& l : plan.launches) {
    if (kernel::kernel_info(static_cast<kernel::KernelId>(l.kernel)).op != graph::Op::kLinear)
      continue;
    const graph::Operand& w = plan.operands[l.first_operand + 1];
    for (const codec::Segment& s : rank.weights[w.index].segments) {
      const double elements = static_cast<double>(s.rows()) * static_cast<double>(s.geometry.cols);
      work.weight_bytes += elements * codec::format(s.format).bits_per_weight / 8;
      work.operations += 2 * elements;
    }
  }
  return work;
}

int run(const Arguments& a) {
  const Isa isa = choose_isa(a.isa);
  const int threads = a.threads > 0 ? a.threads : static_cast<int>(usable_cores().size());
  prepare::PrepareOptions options;
  options.max_context = 4096;
  options.max_concurrency = a.sequences;
  options.prefill_chunk = a.prompt;
  const auto loading = Clock::now();
  const package::PreparedModel model =
      prepare::prepare(prepare::open_source(a.model, a.recipe, threads), options);
  runtime::StepRunner runner(model, {{threads, isa}, {}, false});
  fmt::print("{} recipe {} · {} · {} · {} threads · ready in {:.2f} s\n", model.name,
             a.recipe.empty() ? "as stored" : a.recipe, cpu_model_name(), isa_name(isa), threads,
             seconds_since(loading));

  std::mt19937 random(1);
  std::vector<int32_t> tokens(a.prompt);
  for (int32_t& id : tokens) id = static_cast<int32_t>(random() % model.vocab_size);
  Team team(threads);
  std::vector<std::byte> memory(size_t{512} << 20, std::byte{1});
  const Work work = work_of_row(model.ranks[0], model.ranks[0].catalog[0].plan);

  std::vector<double> dram, int8, bf16, prefill, decode;
  for (int r = 0; r <= a.repetitions; ++r) {
    const double now_dram = read_bandwidth(team, memory);
    const double now_int8 = peak_operations(team, isa, Arithmetic::kInt8);
    const double now_bf16 = peak_operations(team, isa, Arithmetic::kBf16);
    std::vector<runtime::SequenceMemory> sequences;
    double prefill_seconds = 0;
    for (uint32_t i = 0; i < a.sequences; ++i) {
      sequences.push_back(runner.new_sequence());
      const auto begin = Clock::now();
      const runtime::StepEntry prompt{&sequences.back(), tokens, true};
      runner.step({&prompt, 1});
      prefill_seconds += seconds_since(begin) / a.sequences;
    }
    const auto begin = Clock::now();
    std::vector<runtime::StepEntry> entries;
    for (uint32_t i = 0; i < a.decode; ++i) {
      entries.clear();
      for (runtime::SequenceMemory& sequence : sequences)
        entries.push_back({&sequence, std::span(tokens).subspan(i % tokens.size(), 1), true});
      runner.step(entries);
    }
    const double decode_seconds = seconds_since(begin) / a.decode;
    if (r == 0) continue;  // first touch of pages and caches
    dram.push_back(now_dram);
    int8.push_back(now_int8);
    bf16.push_back(now_bf16);
    prefill.push_back(a.prompt / prefill_seconds);
    decode.push_back(1 / decode_seconds);
  }
  // The head runs on one row of a prompt; its share of operations is left out of prefill.
  const double head =
      2.0 * model.vocab_size * static_cast<double>(model.ranks[0].weights.back().cols);
  const double per_token = work.operations - head + head / a.prompt;
  fmt::print(
      "peaks (medians of this run): read {:.1f} GB/s, int8 {:.0f} GOP/s, bf16 {:.0f} GOP/s\n",
      median(dram) / 1e9, median(int8) / 1e9, median(bf16) / 1e9);
  const double prefill_ops = median(prefill) * per_token;
  fmt::print(
      "prefill {} tokens: {:.0f} tok/s, {:.0f} GOP/s in projections = {:.0f} % of int8, {:.0f} % "
      "of bf16 peak\n",
      a.prompt, median(prefill), prefill_ops / 1e9, 100 * prefill_ops / median(int8),
      100 * prefill_ops / median(bf16));
  const package::PageLayout& page = model.ranks[0].page;
  const double kv_bytes = static_cast<double>(page.bytes) / page.tokens * a.prompt * a.sequences;
  const double decode_bytes = median(decode) * (work.weight_bytes + kv_bytes);
  fmt::print(
      "decode of {} at once: {:.1f} steps/s, {:.1f} GB/s of weights and KV = {:.0f} % of read "
      "bandwidth\n",
      a.sequences, median(decode), decode_bytes / 1e9, 100 * decode_bytes / median(dram));
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  flare::bench::Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (flag == "--recipe") {
      a.recipe = value();
    } else if (flag == "--isa") {
      a.isa = value();
    } else if (flag == "--threads") {
      a.threads = std::atoi(value().c_str());
    } else if (flag == "--prompt") {
      a.prompt = static_cast<uint32_t>(std::max(1, std::atoi(value().c_str())));
    } else if (flag == "--sequences") {
      a.sequences = static_cast<uint32_t>(std::max(1, std::atoi(value().c_str())));
    } else {
      a.model = flag;
    }
  }
  if (a.model.empty()) {
    fmt::print(stderr,
               "usage: bench_model MODEL [--recipe NAME] [--threads N] [--isa LEVEL] [--prompt N] "
               "[--sequences N]\n");
    return 2;
  }
  try {
    return flare::bench::run(a);
  } catch (const flare::Error& e) {
    fmt::print(stderr, "error: {}\n", e.message());
    return flare::exit_code(e.code());
  }
}
