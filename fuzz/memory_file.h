// A file without a folder: bytes that readers open by a path, as they open any file.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "require.h"

// Grows and shrinks with what is put into it. One per target, reused from input to input.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(::memfd_create(name, MFD_CLOEXEC)) {
    require(fd_ >= 0);
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  void put(const void* bytes, size_t n) {
    require(::ftruncate(fd_, 0) == 0 && ::ftruncate(fd_, static_cast<off_t>(n)) == 0);
    require(n == 0 || ::pwrite(fd_, bytes, n, 0) == static_cast<ssize_t>(n));
  }

 private:
  int fd_;
};
