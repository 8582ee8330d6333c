// panels16: the layout that CPU kernels read quantised weights in, made from a stored tensor once.
//
// Sixteen neighbouring rows are a panel; a vector lane is a row, so that a kernel needs no
// transposition. Four columns are a *step*. A panel is block after block of 128 columns (256 where
// a ggml block has so many), each read from its first byte to its last, in lines of 64 bytes:
//
//   scales of row r, before the codes
//     one of fp16 (q2/q4/q5/q6_g64, t2_g128, q8_g32, gguf_q2_0, q4_0, q5_0, q8_0, iq4_nl): that of
//       group g at 32·g + 2·r; groups of 64 where stored ones are larger
//     gguf_q4_1, q5_1: the same at 64·g + 2·r; at 32 behind it the minimum, its sign turned
//     gguf_q4_k, q5_k: the 12 bytes of 6-bit fields, word w at 64·w + 4·r; then d | dmin at
//       192 + 4·r
//     gguf_q6_k, q3_k, iq4_xs: 16 or 8 signed scales of a byte, word w at 64·w + 4·r; then d in a
//       line of its own at 2·r
//     gguf_q2_k: 16 bytes of scale | minimum, word w at 64·w + 4·r; then d | dmin at 256 + 4·r
//     FP8, mxfp8: binary32 scale of group g at 64·g + 4·r; groups of 64 where stored ones are
//       larger
//     mxfp4, nvfp4: the same, half of the stored one: codes count halves
//     integers of row_blocks_v1: binary32 scale and low of group g (Format::groups) at
//       128·g + 4·r and 64 behind it; groups of 32, or of 64 where stored ones are larger
//
//   codes, byte 4·r + b of a line for column b of row r
//     8 bits: a line a step
//     4 bits: a line a pair of steps, the even one in the low half of a byte, the odd in the high
//     2 bits: a line for four steps, those of step i at 2·i
//     4 + n bits: a line with bits 4 and up of 8/n steps, those of step i at n·i, before the lines
//       with their low halves
//
// Codes are as Format::codes gives them, those of gguf_q3_k with a fourth bit, those of −1 and up
// raised by one (q2, t2). Columns behind the last are codes of the stored padding or zero bytes,
// under scales of zero; rows behind the last are zero bytes.
#pragma once

#include <cstdint>

#include "codec/format.h"

namespace flare::codec {

inline constexpr uint64_t kPanelRows = 16;

// How a format's panels look. Sizes in bytes.
struct PanelShape {
  uint64_t block_cols = 0;                   // columns of a block
  uint64_t blocks = 0;                       // of a row; the last may be padded
  uint64_t group_cols = 0;                   // under one scale: 16, 32 or 64
  int low_bits = 0;                          // 2, 4 or 8
  int high_bits = 0;                         // 0, 1 or 2
  uint64_t scale_bytes = 0, code_bytes = 0;  // of a block of 16 rows, in order
  uint64_t block_bytes = 0;                  // their sum
  uint64_t bytes = 0;                        // of a panel, a multiple of 64
};

// Whether matrices of this format have this layout; the functions below ask for one that has.
bool has_panels(FormatId format);
PanelShape panel_shape(FormatId format, uint64_t cols);
uint64_t n_panels(uint64_t rows);
// Size of a whole matrix; alignment 64. Errors: kRange on overflow.
uint64_t panels_bytes(FormatId format, Geometry g);

// Panels [begin, end) of the matrix whose stored form is `object`, to `out` (the place of panel
// `begin`). Writes every byte.
void pack_panels(FormatId format, const std::byte* object, Geometry g, uint64_t begin, uint64_t end,
                 std::byte* out);
// out[0..n_cols) = values as Format::decode gives them for the stored form, those of nvfp4 up to
// one rounding; col is a multiple of the format's group.
void decode_panels(FormatId format, const std::byte* panels, Geometry g, uint64_t row, uint64_t col,
                   uint64_t n_cols, float* out);

}  // namespace flare::codec
