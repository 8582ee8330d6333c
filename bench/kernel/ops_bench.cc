// bench_ops: attention and the cost of a launch, as per cent of peaks of the same run.
//
//   bench_ops [--threads N] [--isa LEVEL] [--only attention|launches]
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "bench_main.h"
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

struct Heads {
  int64_t nq, nkv, d;
};

// `sequences` sequences of `past` tokens with `rows` new rows each, in as many layers as fill the
// memory: pages lie scattered in it, and no layer finds its keys in a cache.
class AttentionLayers {
 public:
  AttentionLayers(const HugeMemory& memory, DType dtype, int32_t sequences, int32_t past,
                  int32_t rows, const Heads& heads)
      : dtype_(dtype), heads_(heads) {
    const int64_t region = heads.nkv * kPageTokens * heads.d * graph::dtype_bytes(dtype);
    const int64_t pages = (past + rows + kPageTokens - 1) / kPageTokens;
    const auto all = static_cast<int64_t>(memory.size()) / (2 * region);
    n_layers_ = std::clamp<int64_t>(all / (pages * sequences), 1, 64);
    // The memory's bytes are e4m3 and bf16 patterns of small magnitude.
    for (int64_t i = 0; i < n_layers_ * pages * sequences; ++i)
      pages_.push_back(memory.data() + i % all * 2 * region);
    std::shuffle(pages_.begin(), pages_.end(), std::mt19937(1));
    for (int64_t i = 0; i < n_layers_ * sequences; ++i)
      tables_.push_back(pages_.data() + i * pages);
    for (int32_t b = 0; b < sequences; ++b) {
      begin_.push_back(b * rows);
      past_.push_back(past);
      owner_.insert(owner_.end(), rows, b);
    }
    begin_.push_back(sequences * rows);
    q_ = random_floats(int64_t{sequences} * rows * heads.nq * heads.d);
    o_.resize(q_.size());
    k_.space = v_.space = Space::kPage;
    k_.dtype = v_.dtype = dtype;
    k_.cols = v_.cols = heads.nkv * heads.d;
    v_.offset = region;
    step_.n_rows = sequences * rows;
    step_.n_sequences = sequences;
    step_.sequence_begin = begin_.data();
    step_.row_sequence = owner_.data();
    step_.sequence_past = past_.data();
    step_.page_tokens = kPageTokens;
  }

  // Seconds of one layer.
  double seconds(Team& team, Isa isa) {
    const int64_t rows = step_.n_rows;
    const std::vector<OperandView> operands = {
        value(q_, rows, heads_.nq * heads_.d), k_, v_, {}, value(o_, rows, heads_.nq * heads_.d)};
    const std::vector<graph::Immediate> immediates = {graph::integer(heads_.nq),
                                                      graph::integer(heads_.nkv), graph::real(0.1),
                                                      graph::integer(0), graph::real(0)};
    LaunchArgs args{.operands = operands, .immediates = immediates, .step = &step_};
    HugeMemory workspace(kernel_info(KernelId::kAttention).workspace_bytes(args, team.size()));
    args.workspace = {workspace.data(), workspace.size()};
    const KernelFn fn = kernel_function(KernelId::kAttention, isa);
    const double all = fastest_seconds(team, kRuns, [&] {
      team.run([&](Member& member) {
        StepInputs step = step_;
        LaunchArgs mine = args;
        mine.step = &step;
        for (int64_t layer = 0; layer < n_layers_; ++layer) {
          if (layer > 0) member.barrier();
          step.page_tables = tables_.data() + layer * step_.n_sequences;
          fn(mine, member);
        }
      });
    });
    return all / static_cast<double>(n_layers_);
  }

 private:
  DType dtype_;
  Heads heads_;
  int64_t n_layers_ = 1;
  std::vector<std::byte*> pages_;
  std::vector<std::byte* const*> tables_;
  std::vector<int32_t> begin_, past_, owner_;
  std::vector<float> q_, o_;
  OperandView k_, v_;
  StepInputs step_;
};

void attention_decode(Team& team, Isa isa, const HugeMemory& memory, DType dtype, int32_t sequences,
                      int32_t tokens, const Heads& heads) {
  const double s =
      AttentionLayers(memory, dtype, sequences, tokens - 1, 1, heads).seconds(team, isa);
  const double bytes = 2.0 * sequences * tokens * heads.nkv * heads.d * graph::dtype_bytes(dtype);
  const double peak = read_bandwidth(team, memory.bytes());
  fmt::print(
      "attention decode {} × {:>6} tokens, {}/{} heads of {}, {}: {:8.1f} µs, {:6.2f} GB/s of KV, "
      "{:3.0f} % of read\n",
      sequences, tokens, heads.nq, heads.nkv, heads.d, graph::dtype_name(dtype), s * 1e6,
      bytes / s / 1e9, 100 * bytes / s / peak);
}

void attention_prefill(Team& team, Isa isa, const HugeMemory& memory, DType dtype, int32_t past,
                       int32_t rows, const Heads& heads) {
  const double s = AttentionLayers(memory, dtype, 1, past, rows, heads).seconds(team, isa);
  // Visible pairs of token and query, two products each.
  const double pairs = static_cast<double>(rows) * past + 0.5 * rows * (rows + 1);
  const double operations = pairs * static_cast<double>(heads.nq * heads.d) * 4;
  const double peak = peak_operations(team, isa, Arithmetic::kBf16);
  fmt::print(
      "attention prefill {:>5} rows after {:>5}, {}/{} heads of {}, {}: {:7.1f} GFLOP/s, {:3.0f} % "
      "of bf16 (f32 below level bf16)\n",
      rows, past, heads.nq, heads.nkv, heads.d, graph::dtype_name(dtype), operations / s / 1e9,
      100 * operations / s / peak);
}

void attention(Team& team, Isa isa) {
  HugeMemory memory(uint64_t{512} << 20);
  std::fill_n(memory.data(), memory.size(), std::byte{0x30});
  constexpr Heads kQwen06{16, 8, 128};  // Qwen3-0.6B, 1.7B
  constexpr Heads kQwen4{32, 8, 128};   // Qwen3-4B
  constexpr Heads kQwen35{8, 2, 256};   // Qwen3.5-0.8B
  constexpr Heads kLlama1{32, 8, 64};   // Llama-3.2-1B
  for (DType dtype : {DType::kF8E4M3, DType::kBf16})
    for (int32_t tokens : {1024, 8192, 32768, 131072})
      attention_decode(team, isa, memory, dtype, 1, tokens, kQwen06);
  for (const Heads& heads : {kQwen4, kQwen35, kLlama1})
    attention_decode(team, isa, memory, DType::kF8E4M3, 1, 8192, heads);
  attention_decode(team, isa, memory, DType::kF8E4M3, 8, 2048, kQwen06);
  for (const Heads& heads : {kQwen06, kQwen4, kQwen35, kLlama1})
    attention_prefill(team, isa, memory, DType::kF8E4M3, 0, 512, heads);
  attention_prefill(team, isa, memory, DType::kF8E4M3, 4096, 512, kQwen06);
  attention_prefill(team, isa, memory, DType::kBf16, 4096, 512, kQwen06);
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
  std::string_view only;
  Isa isa = choose_isa("");
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--isa") == 0) isa = choose_isa(argv[i + 1]);
  }
  fmt::print("{}, {}, {} threads, best of {}\n", cpu_model_name(), isa_name(isa), threads, kRuns);
  Team team(threads);
  if (only.empty() || only == "attention") attention(team, isa);
  if (only.empty() || only == "launches") launches(threads, isa);
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  return flare::bench::run_main("bench_ops", flare::bench::run, argc, argv);
}
