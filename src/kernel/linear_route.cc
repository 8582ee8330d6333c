// The route table of linear: which kernel runs a weight format under a policy.
#include "codec/panels.h"
#include "kernel/kernels.h"

namespace flare::kernel {
namespace {

constexpr int kPolicies = 4;

// Rows in the order of codec::FormatId, columns kExact, kA16Only, kAllowA8, kAllowA4. Quantised
// formats take int8 activations wherever they may: the peak is 4 times that of f32 at level vnni
// (472 to 118 GOP/s a thread), 2 times at v2 and v3, 3 times there with 4-bit codes
// (bench/README.md, Measured).
constexpr KernelId kGeneric = KernelId::kLinearGeneric;
constexpr KernelId kBf16 = KernelId::kLinearBf16;
constexpr KernelId kFp16 = KernelId::kLinearFp16;
constexpr KernelId kPanels = KernelId::kLinearPanels;
constexpr KernelId kFloats = KernelId::kLinearPanelFloats;
constexpr KernelId kRoutes[codec::kFormats][kPolicies] = {
    /* bf16   */ {kGeneric, kBf16, kBf16, kBf16},
    /* fp32   */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* int32  */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* fp16   */ {kGeneric, kFp16, kFp16, kFp16},
    /* q4_g64 */ {kGeneric, kFloats, kPanels, kPanels},
    /* q5_g64 */ {kGeneric, kFloats, kPanels, kPanels},
    /* q6_g64 */ {kGeneric, kFloats, kPanels, kPanels},
    /* q8_g32 */ {kGeneric, kFloats, kPanels, kPanels},
    /* gguf_q4_0 */ {kGeneric, kFloats, kPanels, kPanels},
    /* gguf_q8_0 */ {kGeneric, kFloats, kPanels, kPanels},
    /* gguf_q4_k */ {kGeneric, kFloats, kPanels, kPanels},
    /* gguf_q6_k */ {kGeneric, kFloats, kPanels, kPanels},
    /* gguf_q4_1 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q5_0 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q5_1 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q2_0 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q2_k */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q3_k */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_q5_k */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq4_nl */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq4_xs */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* q2_g64 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* t2_g128 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* fp8_row_bf16 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* fp8_row_fp16 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* nvfp4 */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq2_xxs */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq2_xs */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq3_xxs */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq1_s */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq3_s */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq2_s */ {kGeneric, kGeneric, kGeneric, kGeneric},
    /* gguf_iq1_m */ {kGeneric, kGeneric, kGeneric, kGeneric},
};
static_assert(static_cast<int>(codec::FormatId::kBf16) == 0);
static_assert(static_cast<int>(codec::FormatId::kGgufIq1M) == codec::kFormats - 1);
static_assert(static_cast<int>(graph::Policy::kExact) == 0);
static_assert(static_cast<int>(graph::Policy::kAllowA4) == kPolicies - 1);

// Rows that begin and end at panels of their tensors.
bool is_aligned(const codec::Segment& s) {
  return s.row_begin % codec::kPanelRows == 0 &&
         (s.row_end % codec::kPanelRows == 0 || s.row_end == s.geometry.rows);
}

}  // namespace

bool reads_panels(KernelId kernel) { return kernel == kPanels || kernel == kFloats; }

KernelId route_linear(const codec::Matrix& weight, graph::Policy policy) {
  if (weight.segments.empty()) return kGeneric;
  const auto route = [policy](const codec::Segment& s) {
    return kRoutes[static_cast<int>(s.format)][static_cast<int>(policy)];
  };
  const KernelId first = route(weight.segments.front());
  for (const codec::Segment& s : weight.segments)
    if (route(s) != first || (reads_panels(first) && !is_aligned(s))) return kGeneric;
  if (reads_panels(first) && weight.segments.size() > kMaxPanelSegments) return kGeneric;
  return first;
}

}  // namespace flare::kernel
