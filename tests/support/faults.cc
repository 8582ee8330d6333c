// A library for LD_PRELOAD that lets one file operation of a program meet a misfortune: an error of
// the system, a file that shrinks or is written to, a signal. tests/cli/faults_test.py uses it.
//
// Environment:
//   FAULT_CALL    mmap, pread, pwrite, fsync or madvise
//   FAULT_PATH    text in the path of the call's file; unset: any (madvise has none)
//   FAULT_AT      from which such call on, counted from 1
//   FAULT_COUNT   a file that gets one byte for every such call
// and what happens, mmap apart before the call:
//   FAULT_ERRNO   this call and all later ones fail with this number
//   FAULT_SHRINK  once: the file PATH:BYTES is cut to so many bytes
//   FAULT_TOUCH   once: the last byte of this file is written again
//   FAULT_SIGNAL  once: the process gets this signal
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  return n < 0 ? std::string() : std::string(path, static_cast<size_t>(n));
}

void shrink(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (::truncate(text.substr(0, colon).c_str(), std::stol(text.substr(colon + 1))) != 0) ::abort();
}

void touch(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR);
  struct stat info{};
  char last = 0;
  if (fd < 0 || ::fstat(fd, &info) != 0 || ::lseek(fd, info.st_size - 1, SEEK_SET) < 0 ||
      ::read(fd, &last, 1) != 1 || ::lseek(fd, info.st_size - 1, SEEK_SET) < 0 ||
      ::write(fd, &last, 1) != 1)
    ::abort();
  ::close(fd);
}

// What befalls this call: an error number, or 0 after whatever else was asked for.
int befall(std::string_view call, int fd) {
  static const std::string kCall = setting("FAULT_CALL"), kPath = setting("FAULT_PATH");
  static const long kAt = std::atol(setting("FAULT_AT").c_str());
  static const int kErrno = std::atoi(setting("FAULT_ERRNO").c_str());
  static std::atomic<long> count{0};
  if (call != kCall) return 0;
  if (!kPath.empty() && path_of(fd).find(kPath) == std::string::npos) return 0;
  if (const std::string file = setting("FAULT_COUNT"); !file.empty()) {
    const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (out < 0 || ::write(out, "x", 1) != 1) ::abort();
    ::close(out);
  }
  const long n = ++count;
  if (kAt == 0 || n < kAt) return 0;
  if (kErrno != 0) return kErrno;
  if (n > kAt) return 0;
  if (const std::string text = setting("FAULT_SHRINK"); !text.empty()) shrink(text);
  if (const std::string path = setting("FAULT_TOUCH"); !path.empty()) touch(path);
  if (const std::string number = setting("FAULT_SIGNAL"); !number.empty())
    ::kill(::getpid(), std::stoi(number));
  return 0;
}

void* map(const char* name, void* address, size_t bytes, int protection, int flags, int fd,
          off_t offset) {
  void* const p = real<decltype(::mmap)>(name)(address, bytes, protection, flags, fd, offset);
  if (p == MAP_FAILED || fd < 0) return p;
  const int failure = befall("mmap", fd);
  if (failure == 0) return p;
  ::munmap(p, bytes);
  errno = failure;
  return MAP_FAILED;
}

}  // namespace

extern "C" {

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  return map("mmap", address, bytes, protection, flags, fd, offset);
}

ssize_t pread(int fd, void* out, size_t bytes, off_t offset) {
  if (const int failure = befall("pread", fd); failure != 0) return errno = failure, -1;
  return real<decltype(::pread)>("pread")(fd, out, bytes, offset);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  if (const int failure = befall("pwrite", fd); failure != 0) return errno = failure, -1;
  return real<decltype(::pwrite)>("pwrite")(fd, from, bytes, offset);
}

int fsync(int fd) {
  if (const int failure = befall("fsync", fd); failure != 0) return errno = failure, -1;
  return real<decltype(::fsync)>("fsync")(fd);
}

int madvise(void* address, size_t bytes, int advice) noexcept {
  if (const int failure = befall("madvise", -1); failure != 0) return errno = failure, -1;
  return real<decltype(::madvise)>("madvise")(address, bytes, advice);
}

}  // extern "C"
