// Attention in binary32, whatever the pages hold.

// Each body uses the words of those before it.
// clang-format off
#include "kernel/cpu/attention/exp2.inl.h"
#include "kernel/cpu/attention/words_f32.inl.h"
#include "kernel/cpu/attention/operand.inl.h"
#include "kernel/cpu/attention/multiply.inl.h"
#include "kernel/cpu/attention/attention.inl.h"
// clang-format on

template <class K>
inline void attend_keys(const LaunchArgs& args, Member& member) {
  switch (args.operands[2].dtype) {
    case graph::DType::kF8E4M3:
      return attend<K, PageF8>(args, member);
    case graph::DType::kBf16:
      return attend<K, PageBf16>(args, member);
    default:
      return attend<K, PageF32>(args, member);
  }
}

void attention(const LaunchArgs& args, Member& member) {
  switch (args.operands[1].dtype) {
    case graph::DType::kF8E4M3:
      return attend_keys<PageF8>(args, member);
    case graph::DType::kBf16:
      return attend_keys<PageBf16>(args, member);
    default:
      return attend_keys<PageF32>(args, member);
  }
}
