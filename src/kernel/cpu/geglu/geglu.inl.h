// The body of geglu, included once per level.
#include "kernel/cpu/blocks.inl.h"

struct GegluForm {
  static VF apply(VF gate, VF up) { return gelu_tanh(gate) * up; }
};
void geglu(const LaunchArgs& args, Member& member) {
  map_binary<GegluForm>(args.operands[0], args.operands[1], args.operands[2], member);
}
