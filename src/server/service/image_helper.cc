// The image helper: a forked process and its confined workers.
#include "server/service/image_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "base/cpu.h"

namespace flare::server {
namespace {

using media::Fault;
using media::Image;
using media::ImageError;
using media::ImageLimits;

// What a worker may take besides the file: 12 bytes a pixel and the libraries' own memory.
constexpr uint64_t kBytesPerPixel = 16, kWorkerBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxMessageBytes = 1024;

// In front of the file, and in front of the pixels or the message.
struct RequestHeader {
  ImageLimits limits;
  uint64_t n_bytes = 0;
  uint32_t seconds = 0;  // by the clock
};
enum class Outcome : uint32_t { kImage, kFault, kError };
struct AnswerHeader {
  Outcome outcome = Outcome::kError;
  Fault fault = Fault::kInvalid;
  uint32_t width = 0;
  uint32_t height = 0;
  uint64_t n_bytes = 0;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(release());
  }

 private:
  int fd_;
};

// Both end early with false: at the end of the stream or on an error. `read` and `write` are all
// that a worker may call; SIGPIPE ends it, and the server sends without it.
bool read_all(int fd, void* to, uint64_t n_bytes) {
  auto* at = static_cast<char*>(to);
  while (n_bytes > 0) {
    const ssize_t n = ::read(fd, at, std::min<uint64_t>(n_bytes, 1 << 20));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    n_bytes -= static_cast<uint64_t>(n);
  }
  return true;
}
template <typename Write>
bool write_all(const void* from, uint64_t n_bytes, Write&& write) {
  const auto* at = static_cast<const char*>(from);
  while (n_bytes > 0) {
    const ssize_t n = write(at, std::min<uint64_t>(n_bytes, 1 << 20));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    n_bytes -= static_cast<uint64_t>(n);
  }
  return true;
}
bool worker_write(int fd, const void* from, uint64_t n_bytes) {
  return write_all(from, n_bytes, [fd](const char* at, uint64_t n) { return ::write(fd, at, n); });
}
bool server_write(int fd, const void* from, uint64_t n_bytes) {
  return write_all(from, n_bytes,
                   [fd](const char* at, uint64_t n) { return ::send(fd, at, n, MSG_NOSIGNAL); });
}

// Passes `passed` over a socket whose messages are whole.
bool send_descriptor(int control, int passed) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &passed, sizeof passed);
  ssize_t n;
  do n = ::sendmsg(control, &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == 1;
}

// The next descriptor; −1 where the other side is gone.
int receive_descriptor(int control) {
  while (true) {
    char byte;
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    const ssize_t n = ::recvmsg(control, &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    const cmsghdr* const head = CMSG_FIRSTHDR(&message);
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS) continue;
    int passed;
    memcpy(&passed, CMSG_DATA(head), sizeof passed);
    return passed;
  }
}

// The system calls of a worker: its socket, memory, its end; futex belongs to the first exception.
// nullptr where the library fails.
scmp_filter_ctx make_filter() {
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (filter == nullptr) return nullptr;
  int failure = 0;
  for (const int call : {SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(brk), SCMP_SYS(munmap),
                         SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex), SCMP_SYS(exit),
                         SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn)})
    failure |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
  // Anonymous memory only, and none that can be executed.
  failure |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, 4 /* PROT_EXEC */, 0),
                              SCMP_A4(SCMP_CMP_MASKED_EQ, 0xffffffff, 0xffffffff));
  failure |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, 4 /* PROT_EXEC */, 0));
  if (failure == 0) return filter;
  seccomp_release(filter);
  return nullptr;
}

// Pages of address space that this process has; 0 where the system does not tell.
uint64_t own_pages() {
  unsigned long long pages = 0;
  if (FILE* const file = ::fopen("/proc/self/statm", "re")) {
    if (::fscanf(file, "%llu", &pages) != 1) pages = 0;
    ::fclose(file);
  }
  return pages;
}

void limit(__rlimit_resource resource, rlim_t value) {
  const rlimit bound{value, value};
  ::setrlimit(resource, &bound);
}

void answer(int socket, Outcome outcome, Fault fault, std::string_view message) {
  AnswerHeader header{outcome, fault};
  header.n_bytes = std::min<uint64_t>(message.size(), kMaxMessageBytes);
  if (worker_write(socket, &header, sizeof header))
    worker_write(socket, message.data(), header.n_bytes);
}

void answer_image(int socket, Bytes file, const ImageLimits& limits) try {
  const Image image = media::decode_image(file, limits);
  const AnswerHeader header{Outcome::kImage, Fault::kInvalid, image.width, image.height,
                            image.rgb.size()};
  if (worker_write(socket, &header, sizeof header))
    worker_write(socket, image.rgb.data(), image.rgb.size());
} catch (const ImageError& error) {
  answer(socket, Outcome::kFault, error.fault(), error.message());
} catch (const Error& error) {
  answer(socket, Outcome::kError, Fault::kInvalid, error.message());
} catch (const std::bad_alloc&) {
  answer(socket, Outcome::kFault, Fault::kInvalid,
         "image: decoding needs more memory than allowed");
}

// The life of a worker, behind its fork. Nothing of it may be trusted.
[[noreturn]] void run_worker(int socket, scmp_filter_ctx filter) {
  for (int fd = 0; fd < 3; ++fd)
    if (fd != socket) ::close(fd);
  RequestHeader request;
  if (!read_all(socket, &request, sizeof request)) ::_exit(1);
  const uint64_t n_bytes = std::min(request.n_bytes, request.limits.max_bytes);
  if (const uint64_t pages = own_pages(); pages > 0)
    limit(RLIMIT_AS,
          pages * 4096 + n_bytes + request.limits.max_pixels * kBytesPerPixel + kWorkerBytes);
  ::alarm(request.seconds);  // its signal ends the process
  limit(RLIMIT_CPU, request.seconds);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 0);  // holds without a filter too: no more descriptors
  if (filter != nullptr && seccomp_load(filter) != 0) ::_exit(1);
  std::vector<std::byte> file(n_bytes);
  if (!read_all(socket, file.data(), file.size())) ::_exit(1);
  answer_image(socket, file, request.limits);
  ::_exit(0);
}

// Why a filter is refused here, by a process that tries one; empty where it is not.
std::string refusal(scmp_filter_ctx filter) {
  if (filter == nullptr) return "no filter could be made";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(std::min(-seccomp_load(filter), 255));
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return "the system ended the process that tried a filter";
  return WEXITSTATUS(status) == 0 ? "" : strerror(WEXITSTATUS(status));
}

// The life of the helper: says whether workers are confined, then forks one for each socket until
// the server is gone.
[[noreturn]] void run_helper(int control) {
  // The server decides when it ends; its socket is closed then.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(number, SIG_IGN);
  machine_isa();  // asks the system, which workers may not
  const scmp_filter_ctx filter = make_filter();
  const std::string reason = refusal(filter).substr(0, kMaxMessageBytes);
  const uint64_t n_bytes = reason.size();
  // Messages of this socket are whole, so length and text are one.
  std::string message(reinterpret_cast<const char*>(&n_bytes), sizeof n_bytes);
  message += reason;
  if (::send(control, message.data(), message.size(), MSG_NOSIGNAL) < 0) ::_exit(1);
  ::signal(SIGCHLD, SIG_IGN);  // workers leave nothing behind
  while (true) {
    const int socket = receive_descriptor(control);
    if (socket < 0) ::_exit(0);
    const pid_t worker = ::fork();
    if (worker == 0) {
      ::close(control);
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM})
        ::signal(number, SIG_DFL);
      run_worker(socket, reason.empty() ? filter : nullptr);
    }
    if (worker < 0)
      answer(socket, Outcome::kError, Fault::kInvalid,
             std::string("no process for a worker: ") + strerror(errno));
    ::close(socket);
  }
}

[[noreturn]] void died() {
  throw ImageError(Fault::kInvalid,
                   "image: its decoding was ended by the system, expected a picture "
                   "that decodes within bounds");
}

}  // namespace

ImageHelper::ImageHelper(uint32_t max_workers, unsigned seconds)
    : seconds_(seconds), n_free_(max_workers) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Code::kInternal, "image helper: no socket: {}", errno_text());
  Descriptor ours(ends[0]), theirs(ends[1]);
  process_ = ::fork();
  if (process_ < 0) throw Error(Code::kInternal, "image helper: no process: {}", errno_text());
  if (process_ == 0) {
    // Nothing of the server's stays open but the socket and the standard streams.
    if (theirs.get() > 3) ::close_range(3, static_cast<unsigned>(theirs.get() - 1), 0);
    ::close_range(static_cast<unsigned>(theirs.get() + 1), ~0u, 0);
    run_helper(theirs.get());
  }
  theirs.close();
  char message[sizeof(uint64_t) + kMaxMessageBytes];
  ssize_t n;
  do n = ::recv(ours.get(), message, sizeof message, 0);
  while (n < 0 && errno == EINTR);
  control_ = ours.release();
  if (n < static_cast<ssize_t>(sizeof(uint64_t))) {
    unconfined_because_ = "the helper ended at its start";
    return;
  }
  unconfined_because_.assign(message + sizeof(uint64_t), message + n);
}

ImageHelper::~ImageHelper() {
  ::close(control_);  // its end
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Image ImageHelper::decode(Bytes file, const ImageLimits& limits) const {
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return n_free_ > 0; });
    --n_free_;
  }
  struct Place {
    const ImageHelper& helper;
    ~Place() {
      const std::lock_guard lock(helper.mutex_);
      ++helper.n_free_;
      helper.freed_.notify_one();
    }
  } const place{*this};
  return decode_now(file, limits);
}

Image ImageHelper::decode_now(Bytes file, const ImageLimits& limits) const {
  if (file.size() > limits.max_bytes)
    throw ImageError(Fault::kTooLarge, "image: {} bytes, expected at most {}", file.size(),
                     limits.max_bytes);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(Code::kInternal, "image helper: no socket: {}", errno_text());
  Descriptor ours(ends[0]), theirs(ends[1]);
  if (!send_descriptor(control_, theirs.get()))
    throw Error(Code::kInternal, "image helper: it is gone: {}", errno_text());
  theirs.close();
  // Longer than the worker has: a helper that is stopped must not stop the server.
  const timeval patience{static_cast<time_t>(seconds_) + 1, 0};
  for (const int direction : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(ours.get(), SOL_SOCKET, direction, &patience, sizeof patience);
  const RequestHeader request{limits, file.size(), seconds_};
  AnswerHeader header;
  // Who does not read on may have said why.
  if (server_write(ours.get(), &request, sizeof request))
    server_write(ours.get(), file.data(), file.size());
  if (!read_all(ours.get(), &header, sizeof header)) died();
  if (header.outcome == Outcome::kImage) {
    // A worker that was taken over may say anything: only what the limits allow is believed.
    const uint64_t n_pixels = uint64_t{header.width} * header.height;
    if (header.width == 0 || header.height == 0 || header.width > limits.max_side ||
        header.height > limits.max_side || n_pixels > limits.max_pixels ||
        header.n_bytes != n_pixels * 3)
      died();
    Image image{header.width, header.height, std::vector<uint8_t>(header.n_bytes)};
    if (!read_all(ours.get(), image.rgb.data(), image.rgb.size())) died();
    return image;
  }
  if (header.n_bytes > kMaxMessageBytes) died();
  std::string message(header.n_bytes, '\0');
  if (!read_all(ours.get(), message.data(), message.size())) died();
  if (header.outcome != Outcome::kFault || header.fault > Fault::kRemote)
    throw Error(Code::kInternal, "image helper: {}", quote(message));
  throw ImageError(header.fault, "{}", message);
}

}  // namespace flare::server
