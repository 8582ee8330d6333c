// How a benchmark program ends: an error's message on stderr and its exit code.
#pragma once

#include <string_view>

#include "base/error.h"

namespace flare::bench {

inline int run_main(std::string_view name, int (*run)(int argc, char** argv), int argc,
                    char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    fmt::print(stderr, "{}: {}\n", name, e.message());
    return exit_code(e.code());
  }
}

}  // namespace flare::bench
