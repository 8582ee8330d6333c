// What pages and rows depend on besides tokens and salt: the model as it runs here.
#pragma once

#include <string_view>

#include "package/prepared.h"
#include "runtime/cache/disk_entry.h"

namespace flare::runtime {

// SHA-256 over the program itself, the back end with its ISA, the layouts of pages and rows, the
// kernels and settings of the largest step, and XXH3-128 of every weight and table as kernels read
// them: two runs with one identity give the same pages and rows for the same tokens. Reads all
// weights once, with `threads` threads. Errors: kRead (the program cannot be read).
EntryKey model_identity(const package::PreparedModel& model, std::string_view backend, int threads);

}  // namespace flare::runtime
