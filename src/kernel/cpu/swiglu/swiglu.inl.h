// The body of swiglu, included once per level.
#include "kernel/cpu/blocks.inl.h"

struct SwigluForm {
  static VF apply(VF gate, VF up) { return silu(gate) * up; }
};
void swiglu(const LaunchArgs& args, Member& member) {
  map_binary<SwigluForm>(args.operands[0], args.operands[1], args.operands[2], member);
}
