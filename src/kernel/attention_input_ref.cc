// Oracle of attention_input: the oracles of its parts in turn.
#include <vector>

#include "kernel/attention_input.h"
#include "kernel/kv_write.h"
#include "kernel/rms_norm.h"
#include "kernel/rope.h"

namespace flare::kernel {
namespace {

// Norms and rotates x into y.
void turn(const LaunchArgs& args, const OperandView& x, const OperandView& w,
          const OperandView& y) {
  const auto& im = args.immediates;
  const OperandView* in = &x;
  if (w.space != graph::Space::kNone) {
    const OperandView operands[] = {x, w, y};
    rms_norm_ref({.operands = operands, .immediates = im.subspan(5, 2)});
    in = &y;
  }
  const OperandView operands[] = {*in, args.operands[7], args.operands[8], y};
  rope_ref({.operands = operands, .immediates = im.subspan(1, 4)});
}

}  // namespace

void attention_input_ref(const LaunchArgs& args) {
  const auto& o = args.operands;
  turn(args, o[0], o[5], o[9]);
  OperandView k = o[1];
  std::vector<float> keys(static_cast<size_t>(k.rows * k.cols));
  k.data = reinterpret_cast<std::byte*>(keys.data());
  k.stride = k.cols;
  turn(args, o[1], o[6], k);
  const OperandView operands[] = {k, o[2], o[3], o[4]};
  kv_write_ref(
      {.operands = operands, .immediates = args.immediates.subspan(0, 1), .step = args.step});
}

}  // namespace flare::kernel
