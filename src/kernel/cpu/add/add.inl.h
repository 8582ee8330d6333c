// The body of add, included once per level.
#include "kernel/cpu/blocks.inl.h"

struct AddForm {
  static VF apply(VF x, VF y) { return x + y; }
};
void add(const LaunchArgs& args, Member& member) {
  map_binary<AddForm>(args.operands[0], args.operands[1], args.operands[2], member);
}
