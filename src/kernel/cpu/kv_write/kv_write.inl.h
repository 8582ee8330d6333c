// The body of kv_write, included once per level: one unit is a token row.

#include "kernel/cpu/kv_write/record.inl.h"

void kv_write(const LaunchArgs& args, Member& member) {
  const OperandView& k = args.operands[0];
  const OperandView& v = args.operands[1];
  const OperandView& k_region = args.operands[2];
  const OperandView& v_region = args.operands[3];
  const int64_t heads = args.immediates[0].i;
  const StepInputs& step = *args.step;
  const int64_t k_width = k.cols / heads;
  const int64_t v_width = v.cols / heads;
  const auto part = member.share(k.rows);
  for (int64_t t = part.first; t < part.second; ++t) {
    const auto [page, slot] = token_place(step, t);
    for (int64_t h = 0; h < heads; ++h) {
      write_key(k.f32(t) + h * k_width, k_region.dtype, page + k_region.offset, step.page_tokens, h,
                slot, k_width);
      write_value(v.f32(t) + h * v_width, v_region.dtype, page + v_region.offset, step.page_tokens,
                  h, slot, v_width);
    }
  }
}
