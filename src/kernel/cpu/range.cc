// Ranges over mmap.
#include "kernel/cpu/range.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/checked.h"
#include "base/error.h"

namespace flare::kernel {
namespace {

constexpr uint64_t kGranule = 2ull << 20;  // one huge page
constexpr uint64_t kPage = 4096;

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

class MappedRange final : public Range {
 public:
  explicit MappedRange(uint64_t bytes)
      : bytes_(bytes), mapped_(checked_add(checked_align_up(bytes, kGranule), kGranule)) {
    map_ = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map_ == MAP_FAILED)
      throw Error(Code::kDoesNotFit, "reserving {} bytes of address space: {}", bytes,
                  errno_text());
    const uint64_t start = reinterpret_cast<uint64_t>(map_);
    base_ = static_cast<std::byte*>(map_) + (checked_align_up(start, kGranule) - start);
  }
  ~MappedRange() override { ::munmap(map_, mapped_); }
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  std::byte* base() const override { return base_; }
  uint64_t bytes() const override { return bytes_; }

  void back(uint64_t offset, uint64_t length) override {
    check(offset, length);
    if (length == 0) return;
    // Whole granules become usable, so that a huge page can stand behind each; memory is taken for
    // the pages asked for.
    const uint64_t begin = offset / kGranule * kGranule;
    const uint64_t end = checked_align_up(offset + length, kGranule);
    if (::mprotect(base_ + begin, end - begin, PROT_READ | PROT_WRITE) != 0) fail(length);
    ::madvise(base_ + begin, end - begin, MADV_HUGEPAGE);  // advice: may be unknown
    const uint64_t first = offset / kPage * kPage;
    const uint64_t last = checked_align_up(offset + length, kPage);
    // Kernels before 5.14 do not know the call; there the first touch takes the memory.
    if (::madvise(base_ + first, last - first, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
      fail(length);
  }

  void release(uint64_t offset, uint64_t length) override {
    check(offset, length);
    const uint64_t begin = checked_align_up(offset, kGranule);
    const uint64_t end = (offset + length) / kGranule * kGranule;
    if (begin >= end) return;
    ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
    ::mprotect(base_ + begin, end - begin, PROT_NONE);
  }

 private:
  void check(uint64_t offset, uint64_t length) const {
    if (offset > bytes_ || length > bytes_ - offset)
      throw Error(Code::kInternal, "range: [{}, {}+{}) leaves its {} bytes", offset, offset, length,
                  bytes_);
  }
  [[noreturn]] static void fail(uint64_t length) {
    throw Error(Code::kDoesNotFit, "backing {} bytes of memory: {}", length, errno_text());
  }

  const uint64_t bytes_;
  const uint64_t mapped_;
  void* map_ = nullptr;
  std::byte* base_ = nullptr;
};

}  // namespace

std::unique_ptr<Range> reserve_range(uint64_t bytes) {
  return std::make_unique<MappedRange>(bytes);
}

}  // namespace flare::kernel
