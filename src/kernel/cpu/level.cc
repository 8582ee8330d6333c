// A rule beside the table, for CPUs that have instructions without the speed.
#include "kernel/cpu/level.h"

#include "base/cpu.h"

namespace flare::kernel {

bool has_slow_bf16_products() { return is_intel_cpu(); }

Isa level_of(KernelId id, Isa isa, bool slow_bf16_products) {
  const bool falls = id == KernelId::kAttention && isa == Isa::kBf16 && slow_bf16_products;
  return falls ? Isa::kVnni : isa;
}

}  // namespace flare::kernel
