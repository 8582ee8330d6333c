// The rule, on whatever machine.
#include "kernel/cpu/level.h"

#include <gtest/gtest.h>

namespace flare::kernel {
namespace {

TEST(Level, AttentionTakesBinary32WhereBf16ProductsAreSlow) {
  for (int id = 0; id < kKernels; ++id)
    for (int level = 0; level < kIsaLevels; ++level) {
      const auto kernel = static_cast<KernelId>(id);
      const auto isa = static_cast<Isa>(level);
      EXPECT_EQ(level_of(kernel, isa, false), isa);
      const bool falls = kernel == KernelId::kAttention && isa == Isa::kBf16;
      EXPECT_EQ(level_of(kernel, isa, true), falls ? Isa::kVnni : isa);
    }
  const Isa isa = level_of(KernelId::kAttention, Isa::kBf16, true);
  EXPECT_EQ(kernel_function(KernelId::kAttention, isa),
            kernel_function(KernelId::kAttention, Isa::kV4));
}

}  // namespace
}  // namespace flare::kernel
