// bench_ops: attention, gated_delta and the cost of a launch, as per cent of peaks of the same run.
//
//   bench_ops [--threads N] [--isa LEVEL]
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/backend.h"
#include "kernel/kernels.h"
#include "machine/peaks.h"

namespace flare::bench {
namespace {

using namespace kernel;
using graph::DType;
using graph::Space;

constexpr int kRuns = 7;
constexpr int32_t kPageTokens = 128;

OperandView value(std::vector<float>& data, int64_t rows, int64_t cols) {
  OperandView v;
  v.space = Space::kArena;
  v.data = reinterpret_cast<std::byte*>(data.data());
  v.rows = rows;
  v.cols = v.stride = cols;
  return v;
}

std::vector<float> random_floats(int64_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(n);
  for (float& x : out) x = uniform(random);
  return out;
}

double seconds_of(Team& team, KernelId id, Isa isa, const std::vector<OperandView>& operands,
                  const std::vector<graph::Immediate>& immediates, const StepInputs& step) {
  LaunchArgs args{.operands = operands, .immediates = immediates, .step = &step};
  std::vector<float> workspace(kernel_info(id).workspace_bytes(args, team.size()) / sizeof(float) +
                               1);
  args.workspace = {reinterpret_cast<std::byte*>(workspace.data()),
                    workspace.size() * sizeof(float)};
  const KernelFn fn = kernel_function(id, isa);
  return fastest_seconds(team, kRuns, [&] { team.run([&](Member& member) { fn(args, member); }); });
}

// rows queries behind `past` tokens of one sequence.
void attention(Team& team, Isa isa, int32_t past, int32_t rows, int64_t nq, int64_t nkv,
               int64_t d) {
  const int64_t tokens = past + rows;
  const int64_t n_pages = (tokens + kPageTokens - 1) / kPageTokens;
  const int64_t region = nkv * kPageTokens * d * 2;
  // bf16 patterns of small magnitude.
  std::vector<uint16_t> memory(n_pages * region, 0x3c10);
  std::vector<std::byte*> pages;
  for (int64_t p = 0; p < n_pages; ++p)
    pages.push_back(reinterpret_cast<std::byte*>(memory.data()) + p * 2 * region);
  std::byte* const* table = pages.data();
  const int32_t begin[] = {0, rows};
  const std::vector<int32_t> owner(rows, 0);
  StepInputs step;
  step.n_rows = rows;
  step.n_sequences = 1;
  step.sequence_begin = begin;
  step.row_sequence = owner.data();
  step.sequence_past = &past;
  step.page_tables = &table;
  step.page_tokens = kPageTokens;
  std::vector<float> q = random_floats(rows * nq * d);
  std::vector<float> o(q.size());
  OperandView k;
  k.space = Space::kPage;
  k.dtype = DType::kBf16;
  k.cols = nkv * d;
  OperandView v = k;
  v.offset = region;
  const double s = seconds_of(
      team, KernelId::kAttention, isa, {value(q, rows, nq * d), k, v, value(o, rows, nq * d)},
      {graph::integer(nq), graph::integer(nkv), graph::real(0.1), graph::integer(0)}, step);
  if (rows == 1) {
    const double bytes = static_cast<double>(tokens) * nkv * d * 2 * 2;
    const double peak = read_bandwidth(
        team, {reinterpret_cast<const std::byte*>(memory.data()), memory.size() * 2});
    fmt::print("attention decode  {:>6} tokens, {}/{} heads of {}: {:7.2f} GB/s of KV, {:3.0f} %\n",
               tokens, nq, nkv, d, bytes / s / 1e9, 100 * bytes / s / peak);
    return;
  }
  // Visible pairs of token and query, two products each.
  const double pairs = static_cast<double>(rows) * past + 0.5 * rows * (rows + 1);
  const double operations = pairs * nq * d * 4;
  const double peak = peak_operations(team, isa, Arithmetic::kF32);
  fmt::print("attention prefill {:>6} rows after {}: {:7.1f} GFLOP/s, {:3.0f} %\n", rows, past,
             operations / s / 1e9, 100 * operations / s / peak);
}

// `sequences` sequences of `rows` rows each.
void gated_delta(Team& team, Isa isa, int32_t sequences, int32_t rows) {
  constexpr int64_t kKeys = 16;
  constexpr int64_t kValues = 32;
  constexpr int64_t kWidth = 128;
  const int64_t state_floats = kValues * kWidth * kWidth;
  std::vector<float> states = random_floats(sequences * state_floats);
  std::vector<int32_t> begin;
  std::vector<std::byte*> row;
  for (int32_t s = 0; s <= sequences; ++s) begin.push_back(s * rows);
  for (int32_t s = 0; s < sequences; ++s)
    row.push_back(reinterpret_cast<std::byte*>(states.data() + s * state_floats));
  StepInputs step;
  step.n_rows = sequences * rows;
  step.n_sequences = sequences;
  step.sequence_begin = begin.data();
  step.rows = row.data();
  const int64_t cols = (2 * kKeys + kValues) * kWidth;
  std::vector<float> c = random_floats(step.n_rows * cols);
  std::vector<float> gates = random_floats(step.n_rows * kValues);
  std::vector<float> table(kValues, 0.5f);
  std::vector<float> o(step.n_rows * kValues * kWidth);
  OperandView state;
  state.space = Space::kRow;
  const double s =
      seconds_of(team, KernelId::kGatedDelta, isa,
                 {value(c, step.n_rows, cols), value(gates, step.n_rows, kValues),
                  value(gates, step.n_rows, kValues), value(table, 1, kValues),
                  value(table, 1, kValues), state, value(o, step.n_rows, kValues * kWidth)},
                 {graph::integer(kKeys), graph::integer(kWidth), graph::integer(kValues),
                  graph::integer(kWidth)},
                 step);
  if (rows == 1) {
    const double bytes = 2.0 * sequences * state_floats * sizeof(float);
    const double peak = read_bandwidth(
        team, {reinterpret_cast<const std::byte*>(states.data()), states.size() * sizeof(float)});
    fmt::print("gated_delta decode {} sequences: {:6.2f} GB/s of state (in and out), {:3.0f} %\n",
               sequences, bytes / s / 1e9, 100 * bytes / s / peak);
    return;
  }
  // What the recurrence would do: decay apart, two reads and a write of S, a product each.
  const double operations = static_cast<double>(step.n_rows) * kValues * kWidth * kWidth * 6;
  const double peak = peak_operations(team, isa, Arithmetic::kF32);
  fmt::print(
      "gated_delta prefill {} rows: {:6.1f} GFLOP/s of the recurrence's, {:3.0f} %, "
      "{:.2f} µs a row\n",
      rows, operations / s / 1e9, 100 * operations / s / peak, s * 1e6 / step.n_rows);
}

void launches(int threads, Isa isa) {
  constexpr int kLaunches = 1000;
  const auto backend = make_cpu_backend({.threads = threads, .isa = isa});
  graph::Plan plan;
  plan.role = "bench";
  plan.capacity = {1, 1, 1};
  plan.arena_bytes = 192;
  for (uint64_t offset : {0, 64, 128})
    plan.operands.push_back({Space::kArena, DType::kF32, graph::Extent::kRows, 0, offset, 16, 16});
  for (int i = 0; i < kLaunches; ++i)
    plan.launches.push_back({static_cast<uint16_t>(KernelId::kAdd), 0, 3, 0, 0});
  const auto instance = backend->instantiate(plan, {});
  StepInputs step;
  step.n_rows = 1;
  Team one(1);  // for fastest_seconds' choice of clock only
  Team two(2);
  const double s =
      fastest_seconds(threads == 1 ? one : two, 20, [&] { backend->replay(*instance, step); });
  fmt::print("replay, {} threads: {:.3f} µs a launch\n", threads, s * 1e6 / kLaunches);
}

int run(int argc, char** argv) {
  int threads = 1;
  Isa isa = choose_isa("");
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--isa") == 0) isa = choose_isa(argv[i + 1]);
  }
  fmt::print("{}, {}, {} threads, best of {}\n", cpu_model_name(), isa_name(isa), threads, kRuns);
  Team team(threads);
  attention(team, isa, 32767, 1, 16, 4, 128);
  attention(team, isa, 8191, 1, 8, 2, 256);
  attention(team, isa, 0, 512, 16, 4, 128);
  attention(team, isa, 4096, 128, 8, 2, 256);
  gated_delta(team, isa, 16, 1);
  gated_delta(team, isa, 1, 512);
  launches(threads, isa);
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  try {
    return flare::bench::run(argc, argv);
  } catch (const flare::Error& e) {
    fmt::print(stderr, "bench_ops: {}\n", e.message());
    return flare::exit_code(e.code());
  }
}
