// bench_small: norms, activations and sampling at the shapes of Qwen3.5-0.8B at every vector level,
// as per cent of what reads and writes of the same bytes cost at this machine's read bandwidth.
//
//   bench_small [--threads N]
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "bench_main.h"
#include "kernel/sample.h"
#include "op_bench.h"

namespace flare::bench {
namespace {

using namespace kernel;

constexpr int kRuns = 15;
constexpr int64_t kHidden = 1024;
constexpr int64_t kInner = 3584;
constexpr int64_t kVocabulary = 248320;

struct Bench {
  Team& team;
  Isa isa;
  double read;  // bytes per second

  void report(std::string_view what, double bytes, double s) const {
    fmt::print("{:<4} {:<34} {:8.1f} µs, {:6.1f} GB/s, {:4.0f} % of reading from memory\n",
               isa_name(isa), what, s * 1e6, bytes / s / 1e9, 100 * bytes / s / read);
  }

  void map(std::string_view what, KernelId id, int64_t rows, int64_t cols, int inputs,
           int64_t weight_cols, const std::vector<graph::Immediate>& immediates) const {
    Floats x(rows * cols);
    Floats z(rows * cols);
    Floats w(std::max<int64_t>(weight_cols, 1));
    Floats y(rows * cols);
    std::vector<OperandView> operands = {value(x, rows, cols)};
    if (inputs == 2) operands.push_back(value(z, rows, cols));
    if (weight_cols > 0) operands.push_back(value(w, 1, weight_cols));
    operands.push_back(value(y, rows, cols));
    const double s = launch_seconds(team, kRuns, id, isa, operands, immediates, {StepInputs()});
    report(fmt::format("{} {} × {}", what, rows, cols),
           static_cast<double>(rows * cols * (inputs + 1)) * sizeof(float), s);
  }

  // One row of logits: `width` nats between a typical one and the best few.
  void sample(std::string_view what, SampleParams params, float width) const {
    Floats logits(kVocabulary);
    for (int64_t i = 0; i < kVocabulary; i += 997) logits.data()[i] += width;
    int32_t drawn = 0;
    OperandView in;
    in.data = reinterpret_cast<std::byte*>(&params);
    OperandView out;
    out.data = reinterpret_cast<std::byte*>(&drawn);
    const double s = launch_seconds(team, kRuns, KernelId::kSample, isa,
                                    {value(logits, 1, kVocabulary), in, out}, {}, {StepInputs()});
    report(what, static_cast<double>(kVocabulary) * sizeof(float), s);
  }

  void run() const {
    for (int64_t rows : {1, 512}) {
      map("rms_norm", KernelId::kRmsNorm, rows, kHidden, 1, kHidden,
          {graph::real(1e-6), graph::integer(1)});
      map("add", KernelId::kAdd, rows, kHidden, 2, 0, {});
      map("swiglu", KernelId::kSwiglu, rows, kInner, 2, 0, {});
      map("gate_mul", KernelId::kGateMul, rows, 2 * kHidden, 2, 0, {});
      map("gated_norm", KernelId::kGatedNorm, rows, 2 * kHidden, 2, 128, {graph::real(1e-6)});
    }
    std::vector<int32_t> history(2048);
    for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int32_t>(i * 37 % 5000);
    SampleParams greedy;
    sample("argmax", greedy, 8);
    SampleParams penalised = greedy;
    penalised.presence_penalty = 1.5f;
    penalised.repetition_penalty = 1.1f;
    penalised.repeat_last_n = -1;
    penalised.history = history.data();
    penalised.n_history = static_cast<int32_t>(history.size());
    penalised.n_prompt = 100;
    sample("argmax, penalties on 2048 ids", penalised, 8);
    SampleParams plain;
    plain.temperature = 1;
    sample("temperature", plain, 12);
    SampleParams filtered = plain;
    filtered.top_k = 20;
    filtered.top_p = 0.95f;
    sample("top-k 20, top-p, few candidates", filtered, 12);
    sample("top-k 20, top-p, flat logits", filtered, 0);
    filtered.top_k = 0;
    sample("top-p, few candidates", filtered, 12);
  }
};

int run(int argc, char** argv) {
  int threads = 1;
  for (int i = 1; i + 1 < argc; i += 2)
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
  fmt::print("{}, {} threads, best of {}\n", cpu_model_name(), threads, kRuns);
  Team team(threads);
  const HugeMemory memory(128 << 20);
  for (Isa isa : {Isa::kV2, Isa::kV3, Isa::kV4})
    if (isa <= machine_isa().value_or(Isa::kV2))
      Bench{team, isa, read_bandwidth(team, memory.bytes())}.run();
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  return flare::bench::run_main("bench_small", flare::bench::run, argc, argv);
}
