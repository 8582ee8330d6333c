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

namespace {

// Pages of such words are read in binary32 at every level.
bool holds_binary32(const LaunchArgs& args) {
  return args.operands[1].dtype == graph::DType::kF32 ||
         args.operands[2].dtype == graph::DType::kF32;
}

}  // namespace
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
#include "kernel/cpu/attention/operand.inl.h"
#include "kernel/cpu/attention/multiply.inl.h"
#include "kernel/cpu/attention/attention.inl.h"
#include "kernel/cpu/attention/attention_bf16.inl.h"
// clang-format on
#undef FLARE_LANES

void attention(const LaunchArgs& args, Member& member) {
  if (holds_binary32(args)) return v4::attention(args, member);
  attend_words(args, member);
}

}  // namespace flare::kernel::bf16
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_AMX)
namespace flare::kernel::amx {
#define FLARE_LANES 16
// Each body uses the words of those before it.
// clang-format off
#include "kernel/cpu/vec.inl.h"
#include "kernel/cpu/tiles.inl.h"
#include "kernel/cpu/attention/exp2.inl.h"
#include "kernel/cpu/attention/words_bf16.inl.h"
#include "kernel/cpu/attention/operand.inl.h"
#include "kernel/cpu/attention/multiply_amx.inl.h"
#include "kernel/cpu/attention/attention.inl.h"
#include "kernel/cpu/attention/attention_bf16.inl.h"
// clang-format on
#undef FLARE_LANES

void attention(const LaunchArgs& args, Member& member) {
  if (holds_binary32(args)) return v4::attention(args, member);
  // Tiles take subnormal numbers for zero; so do the chains of few rows.
  const unsigned control = _mm_getcsr();
  _mm_setcsr(control | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  configure_tiles();
  attend_words(args, member);
  tile_release();
  _mm_setcsr(control);
}

}  // namespace flare::kernel::amx
FLARE_TARGET_END
