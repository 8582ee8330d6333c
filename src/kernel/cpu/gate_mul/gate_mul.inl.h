// The body of gate_mul, included once per level.
#include "kernel/cpu/blocks.inl.h"

struct GateMulForm {
  static VF apply(VF x, VF gate) { return x * sigmoid(gate); }
};
void gate_mul(const LaunchArgs& args, Member& member) {
  map_binary<GateMulForm>(args.operands[0], args.operands[1], args.operands[2], member);
}
