// Vectors whose memory lies in huge pages where the system gives them: for tables that are read at
// random, where a small page costs a walk of the page tables at most reads.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace flare {

template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}

  // From a quarter of a huge page on, a table has whole ones.
  T* allocate(size_t n) {
    if (n > PTRDIFF_MAX / sizeof(T)) throw std::bad_array_new_length();
    const size_t bytes = n * sizeof(T);
    if (!is_large(bytes)) return static_cast<T*>(::operator new(bytes));
    const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* const out = ::operator new(whole, std::align_val_t(kHugePage));
    ::madvise(out, whole, MADV_HUGEPAGE);  // advice: may be unknown
    return static_cast<T*>(out);
  }
  void deallocate(T* p, size_t n) {
    if (is_large(n * sizeof(T)))
      ::operator delete(p, std::align_val_t(kHugePage));
    else
      ::operator delete(p);
  }

  bool operator==(const HugePageAllocator&) const = default;

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static bool is_large(size_t bytes) { return bytes >= kHugePage / 4; }
};

template <typename T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace flare
