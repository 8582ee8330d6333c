// Reserved address space backed on demand by anonymous memory.
#pragma once

#include <memory>

#include "kernel/backend.h"

namespace flare::kernel {

// Errors: kDoesNotFit where the address space or the memory is missing.
std::unique_ptr<Range> reserve_range(uint64_t bytes);

// Anonymous zeroed memory aligned to 64 and more; huge pages where the system gives them.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(uint64_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace flare::kernel
