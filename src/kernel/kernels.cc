// The kernel table.
#include "kernel/kernels.h"

#include "kernel/cpu/embed/embed.h"
#include "kernel/cpu/linear/linear.h"
#include "kernel/cpu/ops.h"

namespace flare::kernel {
namespace {

using graph::Op;

// Columns: v2, v3, v4, vnni, bf16, amx.
constexpr KernelInfo kTable[] = {
    {KernelId::kEmbed, "embed", Op::kEmbed, nullptr, {v2::embed}},
    {KernelId::kLinearGeneric,
     "linear_generic",
     Op::kLinear,
     linear_generic_workspace,
     {v2::linear_generic, v3::linear_generic, v4::linear_generic}},
    {KernelId::kLinearBf16,
     "linear_bf16",
     Op::kLinear,
     linear_bf16_workspace,
     {v2::linear_bf16, v3::linear_bf16, v4::linear_bf16, nullptr, bf16::linear_bf16,
      amx::linear_bf16}},
    {KernelId::kLinearFp16,
     "linear_fp16",
     Op::kLinear,
     linear_generic_workspace,
     {v2::linear_fp16, v3::linear_fp16, v4::linear_fp16}},
    {KernelId::kLinearPanels,
     "linear_panels",
     Op::kLinear,
     linear_panels_workspace,
     {v2::linear_panels, v3::linear_panels, v4::linear_panels, vnni::linear_panels, nullptr,
      amx::linear_panels}},
    {KernelId::kLinearPanelFloats,
     "linear_panel_floats",
     Op::kLinear,
     linear_panel_floats_workspace,
     {v2::linear_panel_floats, v3::linear_panel_floats, v4::linear_panel_floats}},
    {KernelId::kRmsNorm,
     "rms_norm",
     Op::kRmsNorm,
     nullptr,
     {v2::rms_norm, v3::rms_norm, v4::rms_norm}},
    {KernelId::kAdd, "add", Op::kAdd, nullptr, {v2::add, v3::add, v4::add}},
    {KernelId::kSwiglu, "swiglu", Op::kSwiglu, nullptr, {v2::swiglu, v3::swiglu, v4::swiglu}},
    {KernelId::kGateMul,
     "gate_mul",
     Op::kGateMul,
     nullptr,
     {v2::gate_mul, v3::gate_mul, v4::gate_mul}},
    {KernelId::kRope, "rope", Op::kRope, nullptr, {v2::rope, v3::rope, v4::rope}},
    {KernelId::kKvWrite,
     "kv_write",
     Op::kKvWrite,
     nullptr,
     {v2::kv_write, v3::kv_write, v4::kv_write}},
    {KernelId::kAttention,
     "attention",
     Op::kAttention,
     attention_workspace_bytes,
     {v2::attention, v3::attention, v4::attention, nullptr, bf16::attention, amx::attention}},
    {KernelId::kConvCausal,
     "conv_causal",
     Op::kConvCausal,
     nullptr,
     {v2::conv_causal, v3::conv_causal, v4::conv_causal}},
    {KernelId::kGatedDelta,
     "gated_delta",
     Op::kGatedDelta,
     gated_delta_workspace_bytes,
     {v2::gated_delta, v3::gated_delta, v4::gated_delta}},
    {KernelId::kGatedNorm,
     "gated_norm",
     Op::kGatedNorm,
     nullptr,
     {v2::gated_norm, v3::gated_norm, v4::gated_norm}},
    {KernelId::kGatherRows,
     "gather_rows",
     Op::kGatherRows,
     nullptr,
     {v2::gather_rows, v3::gather_rows, v4::gather_rows}},
    {KernelId::kTap, "tap", Op::kTap, nullptr, {v2::tap, v3::tap, v4::tap}},
    {KernelId::kSample,
     "sample",
     Op::kSample,
     sample_workspace_bytes,
     {v2::sample, v3::sample, v4::sample}},
    {KernelId::kAttentionInput,
     "attention_input",
     Op::kAttentionInput,
     attention_input_workspace_bytes,
     {v2::attention_input, v3::attention_input, v4::attention_input}},
    {KernelId::kGatedDeltaVerify,
     "gated_delta_verify",
     Op::kGatedDeltaVerify,
     gated_delta_workspace_bytes,
     {v2::gated_delta_verify, v3::gated_delta_verify, v4::gated_delta_verify}},
    {KernelId::kGatedDeltaCommit,
     "gated_delta_commit",
     Op::kGatedDeltaCommit,
     nullptr,
     {v2::gated_delta_commit, v3::gated_delta_commit, v4::gated_delta_commit}},
    {KernelId::kGatherColumns,
     "gather_columns",
     Op::kGatherColumns,
     nullptr,
     {v2::gather_columns, v3::gather_columns, v4::gather_columns}},
    {KernelId::kGeglu, "geglu", Op::kGeglu, nullptr, {v2::geglu, v3::geglu, v4::geglu}},
    {KernelId::kNormAdd,
     "norm_add",
     Op::kNormAdd,
     nullptr,
     {v2::norm_add, v3::norm_add, v4::norm_add}},
};

// An id is an index: the table holds every kernel, in the order of ids. That each has its lowest
// level is a test: under UBSan g++ 12 takes no address for a constant.
constexpr bool table_is_whole() {
  if (std::size(kTable) != kKernels) return false;
  for (int i = 0; i < kKernels; ++i)
    if (static_cast<int>(kTable[i].id) != i) return false;
  return true;
}
static_assert(table_is_whole());

}  // namespace

const KernelInfo& kernel_info(KernelId id) { return kTable[static_cast<int>(id)]; }

std::string_view kernel_name(uint16_t id) { return id < kKernels ? kTable[id].name : "?"; }

KernelFn kernel_function(KernelId id, Isa isa) {
  int level = static_cast<int>(isa);
  while (kTable[static_cast<int>(id)].fn[level] == nullptr) --level;
  return kTable[static_cast<int>(id)].fn[level];
}

}  // namespace flare::kernel
