// The CPU kernels of linear, by ISA level, and their workspace.
//
// Row classes. Every kernel computes an output from its own row of x and its own row of W by one
// sequence of operations that depends on K and the level alone, never on T, on the position in a
// block or on the team: each kernel is a single class. The sequences:
//   generic, fp16, bf16 (v2 … v4)  columns in chunks of kF32Chunk; inside a chunk one binary32
//                               partial sum per vector lane, added pairwise at the chunk's end;
//                               chunks added ascending
//   bf16 (level bf16)           the same with chunks of kBf16Chunk and x rounded to bf16
//   bf16 (level amx)            x rounded to bf16; 32 columns at a time, those of even index and
//                               those of odd each by fused additions from zero, the two added,
//                               then added to the sum
//   panel_floats                two binary32 sums, of even and odd columns, ascending, added last
//   panels                      int32 sum of a group, times scale(x)·scale(w), groups ascending
#pragma once

#include "kernel/linear.h"

namespace flare::kernel {

inline constexpr int64_t kF32Chunk = 512;
inline constexpr int64_t kBf16Chunk = 1024;
inline constexpr int64_t kTileRows = 64;  // weight rows decoded at a time
// Floats from row to row of a decoded tile: a power of two would put rows into the same cache sets.
inline constexpr int64_t kTileStride = kF32Chunk + 16;

uint64_t linear_generic_workspace(const LaunchArgs& at_capacity, int n_members);
uint64_t linear_bf16_workspace(const LaunchArgs& at_capacity, int n_members);
// Every quantised format in the layout of codec/panels.h, AllowA8.
uint64_t linear_panels_workspace(const LaunchArgs& at_capacity, int n_members);
// The same with binary32 activations.
uint64_t linear_panel_floats_workspace(const LaunchArgs& at_capacity, int n_members);

namespace v2 {
void linear_generic(const LaunchArgs& args, Member& member);
void linear_bf16(const LaunchArgs& args, Member& member);
void linear_fp16(const LaunchArgs& args, Member& member);
void linear_panels(const LaunchArgs& args, Member& member);
void linear_panel_floats(const LaunchArgs& args, Member& member);
}  // namespace v2

namespace v3 {
void linear_generic(const LaunchArgs& args, Member& member);
void linear_bf16(const LaunchArgs& args, Member& member);
void linear_fp16(const LaunchArgs& args, Member& member);
void linear_panels(const LaunchArgs& args, Member& member);
void linear_panel_floats(const LaunchArgs& args, Member& member);
}  // namespace v3

namespace v4 {
void linear_generic(const LaunchArgs& args, Member& member);
void linear_bf16(const LaunchArgs& args, Member& member);
void linear_fp16(const LaunchArgs& args, Member& member);
void linear_panels(const LaunchArgs& args, Member& member);
void linear_panel_floats(const LaunchArgs& args, Member& member);
}  // namespace v4

namespace vnni {
void linear_panels(const LaunchArgs& args, Member& member);
}  // namespace vnni

namespace amx {
void linear_bf16(const LaunchArgs& args, Member& member);
void linear_panels(const LaunchArgs& args, Member& member);
}  // namespace amx

namespace bf16 {
void linear_bf16(const LaunchArgs& args, Member& member);
}  // namespace bf16

}  // namespace flare::kernel
