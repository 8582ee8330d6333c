// A plan: the lowered, replayable form of a graph. Plain data, no pointers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "graph/types.h"

namespace flare::graph {

// Where an operand's bytes live.
enum class Space : uint8_t {
  kNone,    // an optional operand that is absent
  kArena,   // step-local memory; offset in bytes
  kWeight,  // index into the rank's weights (codec::Matrix)
  kConst,   // index into the rank's constants (f32 or i32 vectors and tables)
  kPage,    // offset of a region inside every page of a sequence
  kRow,     // offset of a field inside a sequence's continuation row
  kIo,      // index = Io
};
std::string_view space_name(Space space);

// Step inputs and outputs, by index of Space::kIo.
enum class Io : uint32_t {
  kTokenIds,    // i32 [T]
  kPositions,   // i32 [3, T]: temporal, height, width
  kLogitsRows,  // i32 [L]: rows whose logits are wanted
  kLogits,      // f32 [L, V] out
  kSampling,    // sampling parameters [L], see kernel/sample.h
  kSampled,     // i32 [L] out
  kAccepted,    // i32 [B]: rows of each sequence that enter its states
  kTaps,        // f32 [T, cols] out, the k-th tap is kTaps + k
};

// Rows × cols elements, `stride` elements from row to row.
struct Operand {
  Space space = Space::kNone;
  DType dtype = DType::kF32;
  Extent extent = Extent::kOne;
  uint32_t index = 0;
  uint64_t offset = 0;
  uint32_t cols = 0;
  uint32_t stride = 0;
  bool operator==(const Operand&) const = default;
};

// One kernel call. `kernel` is a kernel::KernelId.
struct Launch {
  uint16_t kernel = 0;
  uint32_t first_operand = 0;
  uint32_t n_operands = 0;
  uint32_t first_immediate = 0;
  uint32_t n_immediates = 0;
};

// The most live rows, sequences and logits rows a plan can take.
struct PlanCapacity {
  int32_t rows = 0;
  int32_t sequences = 0;
  int32_t logits = 0;
  bool operator==(const PlanCapacity&) const = default;
};

struct Plan {
  std::string role;  // "text.step", "text.sample"
  PlanCapacity capacity;
  uint64_t arena_bytes = 0;  // alignment 64; offsets fixed by liveness
  std::vector<Operand> operands;
  std::vector<Immediate> immediates;
  std::vector<Launch> launches;
  std::vector<std::string> taps;  // name of the k-th tap
};

// Text a person reads: one launch a line. `kernel_name` maps Launch::kernel to a name.
std::string plan_text(const Plan& plan, std::string_view (*kernel_name)(uint16_t));

// Written out and read back without loss (immediates bit for bit). Errors of plan_from_json:
// kDirectory naming the field; counts and index ranges are checked.
Json plan_to_json(const Plan& plan, std::string_view (*kernel_name)(uint16_t));
Plan plan_from_json(const Json& json, std::string_view where,
                    std::string_view (*kernel_name)(uint16_t));

}  // namespace flare::graph
