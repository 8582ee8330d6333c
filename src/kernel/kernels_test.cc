// The kernel table is whole.
#include "kernel/kernels.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace flare::kernel {
namespace {

TEST(KernelTable, EveryIdHasItsNameOpAndAFunctionAtEveryLevel) {
  std::set<std::string_view> names;
  std::set<graph::Op> ops;
  for (int i = 0; i < kKernels; ++i) {
    const KernelInfo& info = kernel_info(static_cast<KernelId>(i));
    EXPECT_EQ(static_cast<int>(info.id), i);
    EXPECT_EQ(kernel_name(static_cast<uint16_t>(i)), info.name);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    ops.insert(info.op);
    ASSERT_NE(info.fn[0], nullptr) << info.name;
    for (int level = 0; level < kIsaLevels; ++level)
      EXPECT_NE(kernel_function(info.id, static_cast<Isa>(level)), nullptr);
  }
  EXPECT_EQ(ops.size(), static_cast<size_t>(graph::kOps));
}

TEST(KernelTable, AnUnknownIdIsAQuestionMark) {
  EXPECT_EQ(kernel_name(kKernels), "?");
  EXPECT_EQ(kernel_name(65535), "?");
}

TEST(KernelTable, AMissingLevelTakesTheNextLowerOne) {
  EXPECT_EQ(kernel_function(KernelId::kAdd, Isa::kBf16), kernel_info(KernelId::kAdd).fn[2]);
  EXPECT_EQ(kernel_function(KernelId::kEmbed, Isa::kV4), kernel_info(KernelId::kEmbed).fn[0]);
}

}  // namespace
}  // namespace flare::kernel
