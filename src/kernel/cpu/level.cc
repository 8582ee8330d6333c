// A rule beside the table, for CPUs that have instructions without the speed.
#include "kernel/cpu/level.h"

#include <cpuid.h>

#include <cstring>

namespace flare::kernel {

bool has_slow_bf16_products() {
  uint32_t most = 0, name[3] = {};  // the vendor's name comes in the order b, d, c
  if (!__get_cpuid(0, &most, &name[0], &name[2], &name[1])) return false;
  return std::memcmp(name, "GenuineIntel", sizeof name) == 0;
}

Isa level_of(KernelId id, Isa isa, bool slow_bf16_products) {
  const bool falls = id == KernelId::kAttention && isa == Isa::kBf16 && slow_bf16_products;
  return falls ? Isa::kVnni : isa;
}

}  // namespace flare::kernel
