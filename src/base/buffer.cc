// Anonymous mappings with the advice that they are worth huge pages.
#include "base/buffer.h"

#include <sys/mman.h>

#include <utility>

#include "base/error.h"

namespace flare {

Buffer::Buffer(uint64_t bytes, std::string_view what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw Error(Code::kDoesNotFit, "{} bytes of {}: {}", bytes, what, errno_text());
  ::madvise(map, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(map);
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace flare
