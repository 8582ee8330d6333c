// The route table of linear: which kernel runs a weight format under a policy.
#include "codec/panels.h"
#include "kernel/kernels.h"

namespace flare::kernel {
namespace {

constexpr int kPolicies = 4;

// Columns kExact, kA16Only, kAllowA8, kAllowA4. Quantised formats take int8 activations wherever
// they may: the peak is 4 times that of f32 at level vnni (472 to 118 GOP/s a thread), 2 times at
// v2 and v3, 3 times there with 4-bit codes (bench/README.md, Measured). Formats that are not here
// have no kernel of their own.
constexpr KernelId kGeneric = KernelId::kLinearGeneric;
constexpr KernelId kBf16 = KernelId::kLinearBf16;
constexpr KernelId kFp16 = KernelId::kLinearFp16;
constexpr KernelId kPanels = KernelId::kLinearPanels;
constexpr KernelId kFloats = KernelId::kLinearPanelFloats;
struct Route {
  codec::FormatId format;
  KernelId kernels[kPolicies];
};
constexpr Route kRoutes[] = {
    {codec::FormatId::kBf16, {kGeneric, kBf16, kBf16, kBf16}},
    {codec::FormatId::kFp16, {kGeneric, kFp16, kFp16, kFp16}},
    {codec::FormatId::kQ4G64, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ5G64, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ6G64, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ8G32, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ4_0, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ8_0, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ4_1, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ5_0, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ5_1, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ4K, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ5K, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ2G64, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kT2G128, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ2_0, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ2K, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ3K, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufIq4Nl, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufIq4Xs, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kGgufQ6K, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kMxfp4, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ4G32Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ4G64Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kQ4G128Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU4G32Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU4G64Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU4G128Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU4G32Fp16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU4G64Fp16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU4G128Fp16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kI8G32Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU8G32Bf16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kU8G32Fp16, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kI8RowFp32, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kFp8RowBf16, {kGeneric, kFloats, kFloats, kFloats}},
    {codec::FormatId::kFp8RowFp16, {kGeneric, kFloats, kFloats, kFloats}},
    {codec::FormatId::kFp8G32, {kGeneric, kFloats, kFloats, kFloats}},
    {codec::FormatId::kFp8G128, {kGeneric, kFloats, kFloats, kFloats}},
    {codec::FormatId::kMxfp8, {kGeneric, kFloats, kFloats, kFloats}},
    {codec::FormatId::kNvfp4, {kGeneric, kFloats, kPanels, kPanels}},
    {codec::FormatId::kNvfp4Rows, {kGeneric, kFloats, kPanels, kPanels}},
};
static_assert(static_cast<int>(graph::Policy::kExact) == 0);
static_assert(static_cast<int>(graph::Policy::kAllowA4) == kPolicies - 1);

KernelId kernel_of(codec::FormatId format, graph::Policy policy) {
  for (const Route& route : kRoutes)
    if (route.format == format) return route.kernels[static_cast<int>(policy)];
  return kGeneric;
}

// Rows that begin and end at panels of their tensors.
bool is_aligned(const codec::Segment& s) {
  return s.row_begin % codec::kPanelRows == 0 &&
         (s.row_end % codec::kPanelRows == 0 || s.row_end == s.geometry.rows);
}

}  // namespace

bool reads_panels(KernelId kernel) { return kernel == kPanels || kernel == kFloats; }

KernelId route_linear(const codec::Matrix& weight, graph::Policy policy) {
  if (weight.segments.empty()) return kGeneric;
  const KernelId first = kernel_of(weight.segments.front().format, policy);
  for (const codec::Segment& s : weight.segments)
    if (kernel_of(s.format, policy) != first || (reads_panels(first) && !is_aligned(s)))
      return kGeneric;
  if (reads_panels(first) && weight.segments.size() > kMaxPanelSegments) return kGeneric;
  return first;
}

}  // namespace flare::kernel
