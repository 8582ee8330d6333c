// Oracle of kv_write.
#include "base/float_types.h"
#include "kernel/kv_write.h"

namespace flare::kernel {

void kv_write_ref(const LaunchArgs& args) {
  const StepInputs& step = *args.step;
  const int64_t heads = args.immediates[0].i;
  for (int side = 0; side < 2; ++side) {
    const OperandView& x = args.operands[side];
    const OperandView& region = args.operands[2 + side];
    const int64_t width = x.cols / heads;
    for (int64_t t = 0; t < x.rows; ++t) {
      const int32_t b = step.row_sequence[t];
      const int64_t p = step.sequence_past[b] + (t - step.sequence_begin[b]);
      const int64_t slot = p % step.page_tokens;
      std::byte* base = step.page_tables[b][p / step.page_tokens] + region.offset;
      for (int64_t i = 0; i < x.cols; ++i) {
        const auto element = side == 0 ? key_element : value_element;
        const int64_t at = i / width * step.page_tokens * width +
                           element(region.dtype, step.page_tokens, width, slot, i % width);
        if (region.dtype == graph::DType::kBf16) {
          store_le(base + at * 2, f32_to_bf16(x.f32(t)[i]));
        } else if (region.dtype == graph::DType::kF8E4M3) {
          store_le(base + at, f32_to_e4m3(x.f32(t)[i]));
        } else {
          store_le(base + at * 4, x.f32(t)[i]);
        }
      }
    }
  }
}

}  // namespace flare::kernel
