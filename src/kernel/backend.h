// A back end: memory for weights, pages and rows, and the replay of plans on one rank's device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/cpu.h"
#include "codec/matrix.h"
#include "graph/plan.h"
#include "kernel/step_inputs.h"

namespace flare::kernel {

// A small table owned by the prepared model: norm weights, biases, rope frequencies as f32, or
// column numbers as i32. One of the two vectors is empty.
struct Constant {
  int64_t rows = 1;
  int64_t cols = 0;
  std::vector<float> values = {};     // rows × cols
  std::vector<int32_t> indices = {};  // rows × cols

  graph::DType dtype() const { return indices.empty() ? graph::DType::kF32 : graph::DType::kI32; }
  uint64_t elements() const { return values.size() + indices.size(); }
};

// A reserved range of address space, backed on demand (package.md §11.1). Confined to one thread.
class Range {
 public:
  virtual ~Range() = default;
  virtual std::byte* base() const = 0;
  virtual uint64_t bytes() const = 0;
  // Makes [offset, offset+length) usable; its bytes are zero the first time. Errors: kDoesNotFit.
  virtual void back(uint64_t offset, uint64_t length) = 0;
  // Gives the memory of whole granules inside the range back; backing again reads as zero.
  virtual void release(uint64_t offset, uint64_t length) = 0;
};

// What a plan's operands refer to. The referenced data outlives every instance.
struct PlanBindings {
  std::span<const codec::Matrix> weights;
  std::span<const Constant> constants;
};

// A plan with its operands resolved to addresses. Made by one back end, replayed by it alone.
class PlanInstance {
 public:
  virtual ~PlanInstance() = default;
  virtual const graph::Plan& plan() const = 0;
};

// One rank's device. Thread rule: every call from the engine thread, which is member 0 of the
// back end's worker team.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "cpu v4"
  virtual int n_members() const = 0;
  // Gives each member a core to stay on where that helps (Team::pin), the calling thread for good:
  // the engine thread asks for it once, before it replays.
  virtual void pin_members() = 0;
  virtual std::unique_ptr<Range> reserve(uint64_t bytes) = 0;
  // Arena plus workspace that replaying `plan` needs; instances of one back end share one buffer,
  // so its size is the largest of these.
  virtual uint64_t scratch_bytes(const graph::Plan& plan, const PlanBindings& bindings) = 0;
  // Checks every operand (ranges, kinds, kernel ids): kInvalid. Grows the shared scratch buffer.
  virtual std::unique_ptr<PlanInstance> instantiate(graph::Plan plan,
                                                    const PlanBindings& bindings) = 0;
  // Runs the plan on live counts within its capacity. Does not allocate. Errors: none; the caller
  // guarantees the inputs.
  virtual void replay(PlanInstance& instance, const StepInputs& inputs) = 0;
  // The same, and `seconds` tells how long each launch of the plan took, the wait for its slowest
  // member included: one number a launch.
  virtual void replay_timed(PlanInstance& instance, const StepInputs& inputs,
                            std::span<double> seconds) = 0;
};

struct CpuOptions {
  int threads = 0;  // 0: every usable core
  Isa isa = Isa::kV2;
};
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace flare::kernel
