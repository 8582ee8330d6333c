// Paged causal attention over fixed token blocks, at every vector level.
#include "kernel/attention.h"

#include "kernel/cpu/attention/layout.h"
#include "kernel/cpu/ops.h"
#include "kernel/kv_write.h"

namespace flare::kernel {

uint64_t attention_workspace_bytes(const LaunchArgs& at_capacity, int n_members) {
  const attention::Shape shape = attention::shape_of(at_capacity);
  const int64_t partials = attention::max_split_units(n_members) * attention::kMaxChunks;
  return static_cast<uint64_t>(n_members * shape.member_floats() +
                               partials * shape.partial_floats()) *
         sizeof(float);
}

}  // namespace flare::kernel

#define FLARE_BODY "kernel/cpu/attention/attention_f32.inl.h"
#include "kernel/cpu/each_level.h"

FLARE_TARGET_BEGIN(FLARE_TARGET_BF16)
namespace flare::kernel::bf16 {
#define FLARE_LANES 16
// Each body uses the words of those before it.
// clang-format off
#include "kernel/cpu/vec.inl.h"
#include "kernel/cpu/attention/exp2.inl.h"
#include "kernel/cpu/attention/words_bf16.inl.h"
#include "kernel/cpu/attention/attention.inl.h"
// clang-format on
#undef FLARE_LANES

void attention(const LaunchArgs& args, Member& member) {
  const graph::DType k = args.operands[1].dtype;
  const graph::DType v = args.operands[2].dtype;
  if (k == graph::DType::kF32 || v == graph::DType::kF32) return v4::attention(args, member);
  if (k == graph::DType::kBf16)
    return v == graph::DType::kBf16 ? attend<PageBf16, PageBf16>(args, member)
                                    : attend<PageBf16, PageF8>(args, member);
  return v == graph::DType::kBf16 ? attend<PageF8, PageBf16>(args, member)
                                  : attend<PageF8, PageF8>(args, member);
}

}  // namespace flare::kernel::bf16
FLARE_TARGET_END
