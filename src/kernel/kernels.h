// The kernel table: every kernel by id, its op, its workspace and its functions per ISA level.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/team.h"
#include "codec/matrix.h"
#include "graph/plan.h"
#include "kernel/step_inputs.h"

namespace flare::kernel {

// Ids are part of written plans: append, never renumber.
enum class KernelId : uint16_t {
  kEmbed,
  kLinearGeneric,  // any codec format: decodes tiles, f32 activations (also --exact)
  kLinearBf16,
  kLinearFp16,
  kLinearPanels,       // quantised formats in panels, int8 activations
  kLinearPanelFloats,  // the same formats, binary32 activations
  kRmsNorm,
  kAdd,
  kSwiglu,
  kGateMul,
  kRope,
  kKvWrite,
  kAttention,
  kConvCausal,
  kGatedDelta,
  kGatedNorm,
  kGatherRows,
  kTap,
  kSample,
  kAttentionInput,
  kGatedDeltaVerify,
  kGatedDeltaCommit,
  kGatherColumns,
  kGeglu,
  kNormAdd,
};
inline constexpr int kKernels = 25;

// A resolved operand of the running step. Element (r, c) is at data + (r·stride + c)·sizeof(dtype).
// Space::kPage and kRow: `offset` inside each page or row, data is null. Space::kWeight: `weight`.
// Space::kConst: rows × cols f32 or i32. An absent optional operand has space kNone.
struct OperandView {
  graph::Space space = graph::Space::kNone;
  graph::DType dtype = graph::DType::kF32;
  std::byte* data = nullptr;
  int64_t rows = 0;  // live rows
  int64_t cols = 0;
  int64_t stride = 0;
  uint64_t offset = 0;
  const codec::Matrix* weight = nullptr;

  const float* f32(int64_t row = 0) const {
    return reinterpret_cast<const float*>(data) + row * stride;
  }
  float* f32_out(int64_t row = 0) const { return reinterpret_cast<float*>(data) + row * stride; }
  const int32_t* i32() const { return reinterpret_cast<const int32_t*>(data); }
};

struct LaunchArgs {
  std::span<const OperandView> operands;
  std::span<const graph::Immediate> immediates;
  const StepInputs* step = nullptr;
  MutableBytes workspace;  // shared by the team, alignment 64, contents undefined at entry
};

// Runs this member's part of the launch. The back end puts a barrier after every launch; a kernel
// with several phases calls member.barrier() itself (the same number of times on every member).
// Kernels do not allocate, do not throw, and split output rows (or heads), never a reduction, over
// members: bits do not depend on the team size.
using KernelFn = void (*)(const LaunchArgs& args, Member& member);

struct KernelInfo {
  KernelId id;
  std::string_view name;  // unique, stable: written into plans' text
  graph::Op op;
  // Bytes of workspace for operands at full capacity (rows = capacity). May be null: none.
  uint64_t (*workspace_bytes)(const LaunchArgs& at_capacity, int n_members);
  // By Isa level; a null entry means the next lower one. Level kV2 is never null.
  KernelFn fn[kIsaLevels];
};

const KernelInfo& kernel_info(KernelId id);
// "?" for an unknown id.
std::string_view kernel_name(uint16_t id);
KernelFn kernel_function(KernelId id, Isa isa);

// Row segments that the panel kernels take in one weight.
inline constexpr size_t kMaxPanelSegments = 16;

// The route table of linear: which kernel runs a weight of these formats under this policy,
// whatever layout it is in now. Total: what has no fast kernel goes to kLinearGeneric, which reads
// every layout; the panel kernels want every segment in codec::LayoutId::kPanels16.
KernelId route_linear(const codec::Matrix& weight, graph::Policy policy);
// kLinearPanels and kLinearPanelFloats.
bool reads_panels(KernelId kernel);

}  // namespace flare::kernel
