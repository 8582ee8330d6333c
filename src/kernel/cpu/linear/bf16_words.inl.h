// Binary32 numbers rounded to bf16 words. Needs simd_v4.inl.h.

// bf16 words of n <= 32 floats, and zeros up to 32.
inline void round_words(const float* from, int64_t n, uint16_t* words) {
  const uint32_t mask = n == 32 ? ~0u : (1u << n) - 1;
  const F low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const F high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16);
  _mm512_storeu_si512(words, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
}
