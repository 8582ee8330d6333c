// The first thing a program does: on a CPU below x86-64-v2 it says so and leaves with exit code 6,
// before any code that needs more can run. Compiled for plain x86-64.
#include "common/cpu_floor.h"

#include <cpuid.h>
#include <unistd.h>

namespace flare::app {

extern const int kCpuFloorLinked = 1;

namespace {

// SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2 and POPCNT: bits of CPUID leaf 1, register C.
constexpr unsigned kNeeded = 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23;

// Priority 101 is the earliest a program may use: before every static initialiser of ours.
__attribute__((constructor(101))) void check_cpu_floor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & kNeeded) == kNeeded) return;
  static constexpr char kLine[] =
      "error: this CPU lacks x86-64-v2 (SSE4.2, POPCNT), which is the least this program runs on\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine, sizeof kLine - 1);
  _exit(6);
}

}  // namespace
}  // namespace flare::app
