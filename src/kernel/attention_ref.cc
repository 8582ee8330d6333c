// Oracle of attention.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/float_types.h"
#include "kernel/attention.h"
#include "kernel/kv_write.h"

namespace flare::kernel {
namespace {

// Element i of token j's record of one KV head.
double page_value(const LaunchArgs& args, const OperandView& region, int32_t b, int64_t head,
                  int64_t width, int64_t j, int64_t i) {
  const StepInputs& step = *args.step;
  const std::byte* base = step.page_tables[b][j / step.page_tokens] + region.offset;
  const auto element = &region == &args.operands[1] ? key_element : value_element;
  const int64_t at = head * step.page_tokens * width +
                     element(region.dtype, step.page_tokens, width, j % step.page_tokens, i);
  if (region.dtype == graph::DType::kBf16) return bf16_to_f32(load_le<uint16_t>(base + at * 2));
  if (region.dtype == graph::DType::kF8E4M3) return e4m3_to_f32(load_le<uint8_t>(base + at));
  return load_le<float>(base + at * 4);
}

}  // namespace

void attention_ref(const LaunchArgs& args) {
  const OperandView& q = args.operands[0];
  const OperandView& sinks = args.operands[3];
  const OperandView& o = args.operands[4];
  const StepInputs& step = *args.step;
  const int64_t nq = args.immediates[0].i;
  const int64_t nkv = args.immediates[1].i;
  const int64_t window = args.immediates[3].i;
  const double cap = args.immediates[4].r;
  const int64_t dk = q.cols / nq;
  const int64_t dv = o.cols / nq;
  for (int64_t t = 0; t < q.rows; ++t) {
    const int32_t b = step.row_sequence[t];
    const int64_t p = step.sequence_past[b] + (t - step.sequence_begin[b]);
    const int64_t begin = window > 0 ? std::max<int64_t>(0, p - window + 1) : 0;
    for (int64_t h = 0; h < nq; ++h) {
      const int64_t head = h / (nq / nkv);
      std::vector<double> score;
      for (int64_t j = begin; j <= p; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < dk; ++i)
          sum += q.f32(t)[h * dk + i] * page_value(args, args.operands[1], b, head, dk, j, i);
        const double z = sum * args.immediates[2].r;
        score.push_back(cap > 0 ? cap * std::tanh(z / cap) : z);
      }
      double top = *std::max_element(score.begin(), score.end());
      const bool sunk = sinks.space != graph::Space::kNone;
      if (sunk) top = std::max<double>(top, sinks.f32()[h]);
      std::vector<double> out(dv, 0.0);
      double total = sunk ? std::exp(sinks.f32()[h] - top) : 0;
      for (int64_t j = begin; j <= p; ++j) {
        const double weight = std::exp(score[j - begin] - top);
        total += weight;
        for (int64_t i = 0; i < dv; ++i)
          out[i] += weight * page_value(args, args.operands[2], b, head, dv, j, i);
      }
      for (int64_t i = 0; i < dv; ++i)
        o.f32_out(t)[h * dv + i] = static_cast<float>(out[i] / total);
    }
  }
}

}  // namespace flare::kernel
