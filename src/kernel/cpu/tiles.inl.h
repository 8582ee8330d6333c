// The words of AMX: eight registers, each a "tile" of up to 16 rows of 64 bytes. They are written
// as assembly, since g++ 12 moves stores past the loads of its own functions.

// The shapes of the eight tiles, as ldtilecfg reads them.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t reserved[15] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void set(int tile, int64_t n_rows, int64_t n_bytes) {
    rows[tile] = static_cast<uint8_t>(n_rows);
    row_bytes[tile] = static_cast<uint16_t>(n_bytes);
  }
};

// Makes all tiles zero.
FLARE_ALWAYS_INLINE inline void tile_configure(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}
// Tiles are of no use until the next tile_configure, and the system need not save them.
FLARE_ALWAYS_INLINE inline void tile_release() { asm volatile("tilerelease"); }

template <int kTile>
FLARE_ALWAYS_INLINE inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// Rows `stride` bytes apart.
template <int kTile>
FLARE_ALWAYS_INLINE inline void tile_load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
FLARE_ALWAYS_INLINE inline void tile_store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
// sums[m][n] += Σ a[m][4k+i]·b[k][4n+i] over k and i < 4: int8 by int8 into int32.
template <int kSums, int kA, int kB>
FLARE_ALWAYS_INLINE inline void tile_add_bytes() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}
// sums[m][n] += Σ a[m][2k]·b[k][2n] + Σ a[m][2k+1]·b[k][2n+1]: bf16 by bf16 into binary32. Each Σ
// begins with zero and takes its products by fused additions, ascending; the two are added, and
// then to the sum. Subnormal numbers count as zero.
template <int kSums, int kA, int kB>
FLARE_ALWAYS_INLINE inline void tile_add_pairs() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}
