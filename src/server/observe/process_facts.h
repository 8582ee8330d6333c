// What the system says of this process: times, memory, descriptors.
#pragma once

#include <cstdint>

namespace flare::server::observe {

struct ProcessFacts {
  double cpu_seconds = 0;
  double start_unix_seconds = 0;
  uint64_t resident_bytes = 0, virtual_bytes = 0;
  uint64_t open_fds = 0, max_fds = 0;
  uint64_t threads = 0;
};

// What cannot be read is 0.
ProcessFacts read_process_facts();

}  // namespace flare::server::observe
