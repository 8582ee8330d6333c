// bench_recurrent: convolution and Gated DeltaNet at the shapes of Qwen3.5-0.8B, as per cent of
// peaks of the same run.
//
//   bench_recurrent [--threads N] [--isa LEVEL] [--part decode|verify|prefill|conv]
#include <cstdlib>
#include <cstring>

#include "bench_main.h"
#include "op_bench.h"

namespace flare::bench {
namespace {

using namespace kernel;

constexpr int kRuns = 9;
constexpr int64_t kHeads = 16;
constexpr int64_t kWidth = 128;
constexpr int64_t kTaps = 4;
constexpr int64_t kConvCols = 3 * kHeads * kWidth;
constexpr int64_t kFactorCols = kHeads + 2 * kHeads * kWidth;
constexpr int64_t kStateFloats = kHeads * kWidth * kWidth;
constexpr int64_t kTailFloats = (kTaps - 1) * kConvCols;
constexpr int64_t kRowFloats = kTailFloats + kStateFloats;

// Steps over the continuation rows of one layer: `steps` steps of `sequences` sequences of `rows`
// rows each, every sequence with a row of its own.
struct Layer {
  Layer(int32_t steps, int32_t sequences, int32_t rows)
      : memory(static_cast<uint64_t>(steps) * sequences * kRowFloats * sizeof(float)),
        n_rows(sequences * rows),
        u(n_rows * kConvCols),
        gates(n_rows * kHeads),
        w(kTaps * kConvCols),
        table(kHeads),
        o(n_rows * kHeads * kWidth),
        factors(n_rows * kFactorCols),
        accepted(sequences, rows) {
    auto* floats = reinterpret_cast<float*>(memory.data());
    for (uint64_t i = 0; i < memory.size() / sizeof(float); ++i)
      floats[i] = static_cast<float>(i % 17) / 17 - 0.5f;
    for (int32_t s = 0; s <= sequences; ++s) begin.push_back(s * rows);
    for (int32_t i = 0; i < steps * sequences; ++i)
      row.push_back(memory.data() + i * kRowFloats * sizeof(float));
    for (int32_t i = 0; i < steps; ++i) {
      StepInputs step;
      step.n_rows = static_cast<int32_t>(n_rows);
      step.n_sequences = sequences;
      step.sequence_begin = begin.data();
      step.rows = row.data() + i * sequences;
      step.accepted = accepted.data();
      inputs.push_back(step);
    }
  }

  OperandView field(int64_t offset_floats, int64_t floats) const {
    OperandView v;
    v.space = graph::Space::kRow;
    v.offset = static_cast<uint64_t>(offset_floats) * sizeof(float);
    v.cols = v.stride = floats;
    return v;
  }
  OperandView tail() const { return field(0, kTailFloats); }
  OperandView state() const { return field(kTailFloats, kStateFloats); }
  std::vector<OperandView> rule_operands() {
    return {value(u, n_rows, kConvCols),
            value(gates, n_rows, kHeads),
            value(gates, n_rows, kHeads),
            value(w, kTaps, kConvCols),
            value(table, 1, kHeads),
            value(table, 1, kHeads),
            tail(),
            state(),
            value(o, n_rows, kHeads * kWidth)};
  }
  static std::vector<graph::Immediate> immediates() {
    return {graph::integer(kHeads), graph::integer(kWidth), graph::integer(kHeads),
            graph::integer(kWidth)};
  }

  double step_seconds(Team& team, Isa isa) {
    return launch_seconds(team, kRuns, KernelId::kGatedDelta, isa, rule_operands(), immediates(),
                          inputs);
  }
  double verify_seconds(Team& team, Isa isa) {
    auto operands = rule_operands();
    operands.push_back(value(factors, n_rows, kFactorCols));
    return launch_seconds(team, kRuns, KernelId::kGatedDeltaVerify, isa, operands, immediates(),
                          inputs);
  }
  double commit_seconds(Team& team, Isa isa) {
    OperandView counts;
    counts.data = reinterpret_cast<std::byte*>(accepted.data());
    auto numbers = immediates();
    numbers.push_back(graph::integer(kTaps));
    return launch_seconds(
        team, kRuns, KernelId::kGatedDeltaCommit, isa,
        {value(u, n_rows, kConvCols), value(factors, n_rows, kFactorCols), counts, tail(), state()},
        numbers, inputs);
  }
  double conv_seconds(Team& team, Isa isa) {
    Floats c(u.size());
    return launch_seconds(team, kRuns, KernelId::kConvCausal, isa,
                          {value(u, n_rows, kConvCols), value(w, kTaps, kConvCols), tail(),
                           value(c, n_rows, kConvCols)},
                          {graph::integer(1)}, inputs);
  }
  double state_bytes() const {
    return static_cast<double>(inputs.size()) * inputs[0].n_sequences * kStateFloats *
           sizeof(float);
  }

  HugeMemory memory;
  int64_t n_rows;
  Floats u, gates, w, table, o, factors;
  std::vector<int32_t> accepted, begin;
  std::vector<std::byte*> row;
  std::vector<StepInputs> inputs;
};

// Bytes per second of doubling every number of `memory` in place, reads and writes counted: what a
// pass over states can reach where writing costs as much as reading.
double update_bandwidth(Team& team, const HugeMemory& memory) {
  auto* floats = reinterpret_cast<float*>(memory.data());
  const auto n = static_cast<int64_t>(memory.size() / sizeof(float));
  const double s = fastest_seconds(team, kRuns, [&] {
    team.run([&](Member& member) {
      const auto part = member.share(n, 1024);
      for (int64_t i = part.first; i < part.second; ++i) floats[i] += floats[i];
    });
  });
  return 2.0 * static_cast<double>(memory.size()) / s;
}

void report_bytes(const char* what, int rows, double bytes, double s, double read, double update) {
  fmt::print(
      "{:<22} {:>4} rows: {:7.2f} GB/s of state, {:3.0f} % of reading, {:3.0f} % of update\n", what,
      rows, bytes / s / 1e9, 100 * bytes / s / read, 100 * bytes / s / update);
}

void report_prefill(Team& team, Isa isa, int32_t rows) {
  Layer layer(1, 1, rows);
  const double s = layer.step_seconds(team, isa);
  // The chunk form of 64 rows: three products with the state, four halves of 64 × 64 ones.
  const double operations =
      static_cast<double>(rows) * kHeads * (6 * kWidth * kWidth + 4 * 64 * kWidth);
  const double peak = peak_operations(team, isa, Arithmetic::kF32);
  const double recurrence = static_cast<double>(rows) * kHeads * 6 * kWidth * kWidth;
  fmt::print(
      "gated_delta prefill    {:>4} rows: {:6.1f} GFLOP/s, {:3.0f} % of the f32 peak ({:3.0f} % "
      "counting the recurrence's), {:.2f} µs a row\n",
      rows, operations / s / 1e9, 100 * operations / s / peak, 100 * recurrence / s / peak,
      s * 1e6 / rows);
}

void report_decode(Team& team, Isa isa) {
  Layer one(128, 1, 1);
  const double read = read_bandwidth(team, one.memory.bytes());
  const double update = update_bandwidth(team, one.memory);
  fmt::print("reading {:.1f} GB/s, update in place {:.1f} GB/s\n", read / 1e9, update / 1e9);
  const double bytes = one.state_bytes();
  report_bytes("gated_delta, 1 seq", 1, 2 * bytes, one.step_seconds(team, isa), read, update);
  Layer many(1, 128, 1);
  report_bytes("gated_delta, 128 seqs", 1, 2 * bytes, many.step_seconds(team, isa), read, update);
}

void report_verify(Team& team, Isa isa, int32_t rows) {
  Layer one(128, 1, rows);
  const double read = read_bandwidth(team, one.memory.bytes());
  const double update = update_bandwidth(team, one.memory);
  const double bytes = one.state_bytes();
  report_bytes("verify, 1 seq", rows, bytes, one.verify_seconds(team, isa), read, update);
  report_bytes("commit, 1 seq", rows, 2 * bytes, one.commit_seconds(team, isa), read, update);
}

void report_conv(Team& team, Isa isa) {
  Layer layer(1, 1, 512);
  const double s = layer.conv_seconds(team, isa);
  const double bytes = 2.0 * static_cast<double>(layer.u.size()) * sizeof(float);
  const HugeMemory memory(128 << 20);
  const double read = read_bandwidth(team, memory.bytes());
  fmt::print("conv_causal             512 rows: {:7.2f} GB/s in and out, {:3.0f} % of reading\n",
             bytes / s / 1e9, 100 * bytes / s / read);
}

int run(int argc, char** argv) {
  int threads = 1;
  Isa isa = choose_isa("");
  std::string_view part;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--isa") == 0) isa = choose_isa(argv[i + 1]);
    if (std::strcmp(argv[i], "--part") == 0) part = argv[i + 1];
  }
  const auto wanted = [&](std::string_view name) { return part.empty() || part == name; };
  fmt::print("{}, {}, {} threads, best of {}\n", cpu_model_name(), isa_name(isa), threads, kRuns);
  Team team(threads);
  if (wanted("decode")) report_decode(team, isa);
  if (wanted("verify"))
    for (int32_t rows : {2, 4, 8, 16}) report_verify(team, isa, rows);
  if (wanted("prefill"))
    for (int32_t rows : {16, 64, 512}) report_prefill(team, isa, rows);
  if (wanted("conv")) report_conv(team, isa);
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  return flare::bench::run_main("bench_recurrent", flare::bench::run, argc, argv);
}
