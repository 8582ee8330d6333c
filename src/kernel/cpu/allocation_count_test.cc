// Counts every allocation of the test program, whatever thread makes it. A unit of its own: inlined
// into others, malloc under new looks like a mismatch to the compiler.
#include "kernel/cpu/allocation_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

namespace {
std::atomic<int64_t> allocations{0};
}

[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace flare::kernel::testing {

int64_t allocation_count() { return allocations; }

TEST(AllocationCount, SeesAnAllocation) {
  const int64_t before = allocation_count();
  const auto p = std::make_unique<std::atomic<int>>(1);
  EXPECT_EQ(p->load(), 1);
  EXPECT_GT(allocation_count(), before);
}

}  // namespace flare::kernel::testing
