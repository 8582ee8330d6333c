// The route table of linear: which kernel runs a weight format under a policy.
#include "kernel/kernels.h"

namespace flare::kernel {
namespace {

constexpr int kPolicies = 4;

// Rows in the order of codec::FormatId, columns kExact, kA16Only, kAllowA8, kAllowA4.
// The int8 kernels reach several times the operations of the binary32 ones (bench/kernel), so they
// run wherever the policy allows 8-bit activations. Quantised weights with 16-bit activations, and
// kExact always, keep binary32 products.
constexpr KernelId kGeneric = KernelId::kLinearGeneric;
constexpr KernelId kRoutes[codec::kFormats][kPolicies] = {
    /* bf16   */ {kGeneric, KernelId::kLinearBf16, KernelId::kLinearBf16, KernelId::kLinearBf16},
    /* fp32   */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* int32  */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* fp16   */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* q4_g64 */ {kGeneric, kGeneric, KernelId::kLinearQ4G64, KernelId::kLinearQ4G64},
    /* q5_g64 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* q6_g64 */ {kGeneric, kGeneric, KernelId::kLinearQ6G64, KernelId::kLinearQ6G64},
    /* q8_g32 */ {kGeneric, kGeneric, KernelId::kLinearQ8G32, KernelId::kLinearQ8G32},
    /* gguf_q4_0 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q8_0 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q4_k */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q6_k */ {kGeneric, kGeneric, kGeneric, kGeneric},
};
static_assert(static_cast<int>(codec::FormatId::kBf16) == 0);
static_assert(static_cast<int>(codec::FormatId::kGgufQ6K) == codec::kFormats - 1);
static_assert(static_cast<int>(graph::Policy::kExact) == 0);
static_assert(static_cast<int>(graph::Policy::kAllowA4) == kPolicies - 1);

}  // namespace

KernelId route_linear(const codec::Matrix& weight, graph::Policy policy) {
  if (weight.segments.empty()) return kGeneric;
  const codec::FormatId format = weight.segments.front().format;
  for (const codec::Segment& segment : weight.segments)
    if (segment.format != format) return kGeneric;
  return kRoutes[static_cast<int>(format)][static_cast<int>(policy)];
}

}  // namespace flare::kernel
