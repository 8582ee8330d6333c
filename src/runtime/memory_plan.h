// How much memory an engine will use, decided and printed before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "package/prepared.h"

namespace flare::runtime {

// package.md §11.5: at most so much, so much less than there is, or a part of the machine's memory.
struct MemoryLimit {
  enum class Kind { kBytes, kReserve, kShare };
  Kind kind = Kind::kBytes;
  uint64_t bytes = 0;
  double share = 1;  // of all memory
};

// Pages for keys and values, those of the prefix tree included, within the memory (package.md
// §11.5): as many as all requests at once can fill, as one can, all there is room for, or so many
// bytes.
struct PageLimit {
  enum class Kind { kConcurrency, kContext, kMemory, kBytes };
  Kind kind = Kind::kConcurrency;
  uint64_t bytes = 0;
};

// What the user fixed; absent values are chosen, and lowered where they do not fit.
struct MemoryWishes {
  bool context_given = false;        // capacity.max_context is the user's, not a default
  bool concurrency_given = false;    // capacity.max_concurrency likewise
  std::optional<MemoryLimit> limit;  // of everything below
  PageLimit pages;
  uint32_t snapshots = 0;  // copies of rows for the prefix tree, if they fit
  bool disk_tier = false;  // prefixes are written to disk, by way of a buffer
  bool serves = false;     // over HTTP, to many at once
};

struct MemoryPlan {
  uint64_t program = 0;  // code, tokenizer, tables: what is no model
  uint64_t weights = 0;  // as kernels read them, mapped ones included
  uint64_t scratch = 0;  // arena and workspace
  uint64_t io = 0;       // step inputs, logits
  uint64_t row_bytes = 0, page_bytes = 0;
  uint32_t page_tokens = 128;
  graph::DType kv_dtype = graph::DType::kF32;  // of the pages' first region
  uint32_t rows = 0;                           // continuation rows, the null row included
  uint32_t snapshots = 0;                      // rows beside them for the prefix tree
  uint32_t pages = 0;                          // pool pages
  uint32_t max_context = 0;
  uint32_t max_concurrency = 0;
  uint64_t budget = 0;  // what may be used at most
  std::string note;     // what was lowered and why; empty if nothing

  uint64_t total() const {
    return program + weights + scratch + io + (uint64_t{rows} + snapshots) * row_bytes +
           pages * page_bytes;
  }
  uint32_t pages_for(uint64_t tokens) const {
    return static_cast<uint32_t>((tokens + page_tokens - 1) / page_tokens);
  }
};

// Budget: package.md §11.5 (`available`, what the model may take from nothing on, less an
// allowance), capped by the limit. Pages cover max_concurrency full contexts if they fit, at least
// one. Errors: kDoesNotFit with the shortfall and the largest setting that fits.
MemoryPlan plan_memory(const package::PreparedModel& model, uint64_t scratch_bytes,
                       const MemoryWishes& wishes, uint64_t total_memory, uint64_t available);

// A few lines for people.
std::string memory_plan_text(const MemoryPlan& plan);

}  // namespace flare::runtime
