// The clock of work: what other processes do does not make it longer.
#pragma once

#include <ctime>

namespace flare {

// Of the calling thread so far.
inline double thread_processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

}  // namespace flare
