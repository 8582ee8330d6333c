// POSIX behind process.h.
#include "common/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "base/error.h"

namespace flare::app {
namespace {

// open() gives the lowest free number, so the streams are taken in order. Input and
// results get an end that refuses them, messages one that swallows them.
void fill(int stream, int flags) {
  if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) return;
  [[maybe_unused]] const int opened = ::open("/dev/null", flags);
}

}  // namespace

void prepare_process() {
  fill(STDIN_FILENO, O_WRONLY);
  fill(STDOUT_FILENO, O_RDONLY);
  fill(STDERR_FILENO, O_WRONLY);
  std::signal(SIGXFSZ, SIG_IGN);
}

void check_standard_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const int why = errno == 0 ? EIO : errno;
  throw Error(Code::kWrite, "standard output: results could not be written: {}",
              std::system_category().message(why));
}

}  // namespace flare::app
