// Scales, minima and codes of ggml's K blocks of 256 values, found by search.
//
// ggml fixes how a block decodes (artifact.md §6.4), not how it is made. Here every small group is
// first fitted by itself over a line of candidate steps, each refined by least squares; then the
// shared fp16 numbers are chosen so that all groups' integers fit, and integers and shared numbers
// are refined in turn against the error that will really be made.
#pragma once

#include <cstdint>

namespace flare::codec {

inline constexpr int kKValues = 256;

// q4_k, q5_k: value of code c in group u of 32: d·scale[u]·c − dmin·least[u].
struct AffineBlock {
  uint16_t d = 0, dmin = 0;              // fp16 words, not negative
  uint8_t scale[8] = {}, least[8] = {};  // 0..63
  int8_t codes[kKValues] = {};           // 0..max_code
};
// w: weights of the values' squared errors, >= 0. False: a value is not finite, or d is not.
bool search_affine(const float* x, const float* w, int max_code, AffineBlock& out);

// q6_k: value of code c in group s of 16: d·scale[s]·c.
struct SignedBlock {
  uint16_t d = 0;
  int8_t scale[16] = {};
  int8_t codes[kKValues] = {};  // −32..31
};
bool search_signed(const float* x, const float* w, SignedBlock& out);

}  // namespace flare::codec
