// The functions of the CPU ops at every vector level, except linear and embed.
#pragma once

#include "kernel/kernels.h"

namespace flare::kernel {

namespace v2 {
void rms_norm(const LaunchArgs& args, Member& member);
void norm_add(const LaunchArgs& args, Member& member);
void add(const LaunchArgs& args, Member& member);
void swiglu(const LaunchArgs& args, Member& member);
void geglu(const LaunchArgs& args, Member& member);
void gate_mul(const LaunchArgs& args, Member& member);
void rope(const LaunchArgs& args, Member& member);
void kv_write(const LaunchArgs& args, Member& member);
void attention_input(const LaunchArgs& args, Member& member);
void attention(const LaunchArgs& args, Member& member);
void conv_causal(const LaunchArgs& args, Member& member);
void gated_delta(const LaunchArgs& args, Member& member);
void gated_delta_verify(const LaunchArgs& args, Member& member);
void gated_delta_commit(const LaunchArgs& args, Member& member);
void gated_norm(const LaunchArgs& args, Member& member);
void gather_rows(const LaunchArgs& args, Member& member);
void gather_columns(const LaunchArgs& args, Member& member);
void tap(const LaunchArgs& args, Member& member);
void sample(const LaunchArgs& args, Member& member);
}  // namespace v2

namespace v3 {
void rms_norm(const LaunchArgs& args, Member& member);
void norm_add(const LaunchArgs& args, Member& member);
void add(const LaunchArgs& args, Member& member);
void swiglu(const LaunchArgs& args, Member& member);
void geglu(const LaunchArgs& args, Member& member);
void gate_mul(const LaunchArgs& args, Member& member);
void rope(const LaunchArgs& args, Member& member);
void kv_write(const LaunchArgs& args, Member& member);
void attention_input(const LaunchArgs& args, Member& member);
void attention(const LaunchArgs& args, Member& member);
void conv_causal(const LaunchArgs& args, Member& member);
void gated_delta(const LaunchArgs& args, Member& member);
void gated_delta_verify(const LaunchArgs& args, Member& member);
void gated_delta_commit(const LaunchArgs& args, Member& member);
void gated_norm(const LaunchArgs& args, Member& member);
void gather_rows(const LaunchArgs& args, Member& member);
void gather_columns(const LaunchArgs& args, Member& member);
void tap(const LaunchArgs& args, Member& member);
void sample(const LaunchArgs& args, Member& member);
}  // namespace v3

namespace v4 {
void rms_norm(const LaunchArgs& args, Member& member);
void norm_add(const LaunchArgs& args, Member& member);
void add(const LaunchArgs& args, Member& member);
void swiglu(const LaunchArgs& args, Member& member);
void geglu(const LaunchArgs& args, Member& member);
void gate_mul(const LaunchArgs& args, Member& member);
void rope(const LaunchArgs& args, Member& member);
void kv_write(const LaunchArgs& args, Member& member);
void attention_input(const LaunchArgs& args, Member& member);
void attention(const LaunchArgs& args, Member& member);
void conv_causal(const LaunchArgs& args, Member& member);
void gated_delta(const LaunchArgs& args, Member& member);
void gated_delta_verify(const LaunchArgs& args, Member& member);
void gated_delta_commit(const LaunchArgs& args, Member& member);
void gated_norm(const LaunchArgs& args, Member& member);
void gather_rows(const LaunchArgs& args, Member& member);
void gather_columns(const LaunchArgs& args, Member& member);
void tap(const LaunchArgs& args, Member& member);
void sample(const LaunchArgs& args, Member& member);
}  // namespace v4

namespace bf16 {
void attention(const LaunchArgs& args, Member& member);
}  // namespace bf16

namespace amx {
void attention(const LaunchArgs& args, Member& member);
}  // namespace amx

uint64_t attention_input_workspace_bytes(const LaunchArgs& at_capacity, int n_members);
uint64_t attention_workspace_bytes(const LaunchArgs& at_capacity, int n_members);
uint64_t gated_delta_workspace_bytes(const LaunchArgs& at_capacity, int n_members);
uint64_t sample_workspace_bytes(const LaunchArgs& at_capacity, int n_members);

}  // namespace flare::kernel
