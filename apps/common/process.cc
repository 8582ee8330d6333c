// POSIX behind process.h.
#include "common/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/file_registry.h"

namespace flare::app {
namespace {

// open() gives the lowest free number, so the streams are taken in order. Input and
// results get an end that refuses them, messages one that swallows them.
void fill(int stream, int flags) {
  if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) return;
  [[maybe_unused]] const int opened = ::open("/dev/null", flags);
}

std::atomic<void (*)()> sudden_exit_action{nullptr};

void write_text(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Calls async-signal-safe functions alone. Any thread may be the one that reads.
void on_bus_error(int signal, siginfo_t* info, void*) {
  static constexpr int kDamaged = 4;  // exit_code(Code::kRead)
  static std::atomic_flag reported;
  const char* path = info->si_code > 0 ? path_of_mapping_at(info->si_addr) : nullptr;
  if (path == nullptr) {  // no file of ours: the default action, when this returns
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  while (reported.test_and_set()) ::pause();  // another thread is about to end the process
  if (const auto action = sudden_exit_action.load()) action();
  write_text("error: ");
  write_text(path);
  write_text(
      ": its bytes are gone (the file was truncated or replaced while in use), an unchanged file "
      "expected\nhint: leave the files of a model alone while it runs; complete it and start "
      "again\n");
  unlink_temporaries();
  ::_exit(kDamaged);
}

}  // namespace

void prepare_process() {
  fill(STDIN_FILENO, O_WRONLY);
  fill(STDOUT_FILENO, O_RDONLY);
  fill(STDERR_FILENO, O_WRONLY);
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void set_sudden_exit_action(void (*action)()) { sudden_exit_action = action; }

void check_standard_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const int why = errno == 0 ? EIO : errno;
  throw Error(Code::kWrite, "standard output: results could not be written: {}",
              std::system_category().message(why));
}

}  // namespace flare::app
