// Words shared by graphs and plans: element types, symbolic extents, ops, immediates.
#pragma once

#include <cstdint>
#include <string_view>

namespace flare::graph {

// Numbers are part of written plans. kF8E4M3: OCP E4M3FN, of pages only.
enum class DType : uint8_t { kF32, kBf16, kI32, kU8, kF8E4M3 };
inline constexpr int kDTypes = 5;
std::string_view dtype_name(DType dtype);
uint32_t dtype_bytes(DType dtype);

// How many rows a value has in a step. Live counts are step inputs; a plan knows capacities.
enum class Extent : uint8_t {
  kRows,    // T token rows
  kLogits,  // L selected rows
  kOne,
};
std::string_view extent_name(Extent extent);

// The node kinds. Formulas, operands and immediates: kernel/<op>.h.
enum class Op : uint8_t {
  kEmbed,
  kLinear,
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
inline constexpr int kOps = 21;
std::string_view op_name(Op op);

// What activations a weight's use allows (artifact.md §10.2). kExact is not a use's policy but the
// --exact mode: binary32 activations and exactly decoded weights.
enum class Policy : uint8_t { kExact, kA16Only, kAllowA8, kAllowA4 };
std::string_view policy_name(Policy policy);

// One scalar argument of a launch: an integer or a real; which one, its op's header says.
union Immediate {
  int64_t i;
  double r;
};
static_assert(sizeof(Immediate) == 8);
inline Immediate integer(int64_t v) { return Immediate{.i = v}; }
inline Immediate real(double v) { return Immediate{.r = v}; }

}  // namespace flare::graph
