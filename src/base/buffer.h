// Large zeroed memory in huge pages.
#pragma once

#include "base/bytes.h"

namespace flare {

// Anonymous zeroed memory aligned to a page and more; huge pages where the system gives them.
// Errors: kDoesNotFit naming `what` and the bytes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(uint64_t bytes, std::string_view what);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace flare
