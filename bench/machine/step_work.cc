// Counts from the launches of a plan.
#include "machine/step_work.h"

#include <algorithm>
#include <vector>

#include "codec/format.h"
#include "kernel/kernels.h"

namespace flare::bench {
namespace {

using graph::Op;
using graph::Operand;
using graph::Space;

double& operations_of(Work& work, Arithmetic a) { return work.operations[static_cast<int>(a)]; }

class Counter {
 public:
  Counter(const package::Rank& rank, const graph::Plan& plan,
          std::span<const SequenceRows> sequences, int64_t n_logits)
      : rank_(rank),
        plan_(plan),
        sequences_(sequences),
        n_logits_(n_logits),
        was_read_(rank.weights.size()) {
    for (const SequenceRows& s : sequences) n_rows_ += s.rows;
  }

  std::vector<Work> count() {
    std::vector<Work> works;
    for (const graph::Launch& launch : plan_.launches) {
      work_ = {};
      const auto id = static_cast<kernel::KernelId>(launch.kernel);
      const Operand* operands = &plan_.operands[launch.first_operand];
      const graph::Immediate* immediates = plan_.immediates.data() + launch.first_immediate;
      switch (kernel::kernel_info(id).op) {
        case Op::kLinear:
          linear(operands, static_cast<graph::Policy>(immediates[0].i));
          break;
        case Op::kAttention:
          attention({operands, launch.n_operands}, immediates);
          break;
        case Op::kGatedDelta:
        case Op::kGatedDeltaVerify:
          gated_delta(immediates);
          break;
        default:
          break;
      }
      works.push_back(work_);
    }
    return works;
  }

 private:
  // kernel/linear.h: operand 0 x, 1 W.
  void linear(const Operand* operands, graph::Policy policy) {
    const uint32_t index = operands[1].index;
    const int64_t rows = operands[0].extent == graph::Extent::kLogits ? n_logits_ : n_rows_;
    const bool integers = policy == graph::Policy::kAllowA8 || policy == graph::Policy::kAllowA4;
    for (const codec::Segment& s : rank_.weights[index].segments) {
      const codec::Format& format = codec::format(s.format);
      const double elements = static_cast<double>(s.rows()) * static_cast<double>(s.geometry.cols);
      if (!was_read_[index] && rows > 0)
        work_.weight_bytes += elements * format.bits_per_weight / 8;
      const Arithmetic arithmetic = !(integers && format.quantised) ? Arithmetic::kBf16
                                    : format.bits_per_weight <= 5   ? Arithmetic::kInt8By4
                                                                    : Arithmetic::kInt8;
      operations_of(work_, arithmetic) += 2 * elements * static_cast<double>(rows);
    }
    was_read_[index] = true;
  }

  // kernel/attention.h: immediates 0 nq, 1 nkv, 3 window; K and V are its page regions.
  void attention(std::span<const Operand> operands, const graph::Immediate* immediates) {
    const auto heads = static_cast<double>(immediates[0].i);
    const auto kv_heads = static_cast<double>(immediates[1].i);
    const int64_t window = immediates[3].i;
    double columns = 0;  // of keys and values
    double token_bytes = 0;
    for (const Operand& o : operands) {
      if (o.space != Space::kPage) continue;
      columns += o.cols;
      token_bytes += static_cast<double>(o.cols) * graph::dtype_bytes(o.dtype);
    }
    for (const SequenceRows& s : sequences_) {
      double pairs = 0;
      for (int64_t t = 0; t < s.rows; ++t) {
        const int64_t visible = s.past + t + 1;
        pairs += static_cast<double>(window > 0 ? std::min(window, visible) : visible);
      }
      const int64_t seen = s.past + s.rows;
      const int64_t first = window > 0 ? std::max<int64_t>(0, s.past + 1 - window) : 0;
      if (s.rows > 0) work_.state_bytes += token_bytes * static_cast<double>(seen - first);
      operations_of(work_, Arithmetic::kBf16) += 2 * pairs * columns * heads / kv_heads;
    }
  }

  // kernel/gated_delta.h: immediates 0 nk, 1 dk, 2 nv, 3 dv.
  void gated_delta(const graph::Immediate* immediates) {
    const auto elements = static_cast<double>(immediates[1].i * immediates[2].i * immediates[3].i);
    for (const SequenceRows& s : sequences_)
      if (s.rows > 0) work_.state_bytes += elements * sizeof(float);
    operations_of(work_, Arithmetic::kF32) += 6 * elements * static_cast<double>(n_rows_);
  }

  const package::Rank& rank_;
  const graph::Plan& plan_;
  const std::span<const SequenceRows> sequences_;
  const int64_t n_logits_;
  int64_t n_rows_ = 0;
  std::vector<bool> was_read_;  // by weight
  Work work_;                   // of a launch
};

}  // namespace

double Work::total_operations() const {
  double sum = 0;
  for (const double n : operations) sum += n;
  return sum;
}

Work& Work::operator+=(const Work& other) {
  weight_bytes += other.weight_bytes;
  state_bytes += other.state_bytes;
  for (int i = 0; i < kArithmetics; ++i) operations[i] += other.operations[i];
  return *this;
}

Work step_work(const package::Rank& rank, const graph::Plan& plan,
               std::span<const SequenceRows> sequences, int64_t n_logits) {
  Work sum;
  for (const Work& work : launch_work(rank, plan, sequences, n_logits)) sum += work;
  return sum;
}

std::vector<Work> launch_work(const package::Rank& rank, const graph::Plan& plan,
                              std::span<const SequenceRows> sequences, int64_t n_logits) {
  return Counter(rank, plan, sequences, n_logits).count();
}

double roof_seconds(const Work& work, const Peaks& peaks) {
  double compute = 0;
  for (int i = 0; i < kArithmetics; ++i)
    if (work.operations[i] > 0) compute += work.operations[i] / peaks.operations[i];
  return std::max(work.bytes() / peaks.read_bytes, compute);
}

}  // namespace flare::bench
