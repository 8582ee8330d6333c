// linear over bf16 weights at levels bf16, by vdpbf16ps, and amx, by tdpbf16ps.
#include <immintrin.h>

#include "base/isa_region.h"
#include "kernel/cpu/linear/linear.h"
#include "kernel/cpu/linear/problem.h"

FLARE_TARGET_BEGIN(FLARE_TARGET_BF16)
namespace flare::kernel::bf16 {
namespace {

using namespace linear;

// Each body uses the words of those before it.
// clang-format off
#define FLARE_LANES 16
#include "kernel/cpu/linear/linear_ends.inl.h"
#undef FLARE_LANES
#include "kernel/cpu/linear/simd_v4.inl.h"
#include "kernel/cpu/linear/pin.inl.h"
#include "kernel/cpu/linear/linear_float.inl.h"
#include "kernel/cpu/linear/bf16_words.inl.h"
// clang-format on

// bf16 x, bf16 W: vdpbf16ps adds two products to each binary32 lane.
struct Bf16Pairs {
  using XWord = uint16_t;
  using WWord = uint16_t;
  using X = __m512i;
  static constexpr int kStep = 32;
  static constexpr int64_t kChunk = kBf16Chunk;
  static X x(const uint16_t* p) { return _mm512_loadu_si512(p); }
  static X weights(const uint16_t* p) { return _mm512_loadu_si512(p); }
  static F fold(F sum, X x, X w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
  }
};

// This member's share of x̂ as bf16 words, `stride` words a row: blocks of 32 columns, or whole
// rows where something stands before the product.
inline void round_activations(const Problem& p, const Room& room, uint16_t* words, int64_t stride,
                              const Member& member) {
  if (p.input == LinearInput::kPlain) {
    const int64_t blocks = (p.k + 31) / 32;
    const Range share = share_of(member, p.n_rows * blocks, 1);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t t = i / blocks, col = i % blocks * 32;
      round_words(p.x + t * p.x_stride + col, p.k - col < 32 ? p.k - col : 32,
                  words + t * stride + col);
    }
    return;
  }
  float* row = room.rows + member.index() * room.rows_stride;
  const Range share = share_of(member, p.n_rows, 1);
  for (int64_t t = share.begin; t < share.end; ++t) {
    ends::prepare_row(p, t, row);
    for (int64_t col = 0; col < p.k; col += 32)
      round_words(row + col, p.k - col < 32 ? p.k - col : 32, words + t * stride + col);
  }
}

inline void run_pairs(const Problem& p, Member& member) {
  auto* x = reinterpret_cast<uint16_t*>(p.workspace);
  const int64_t x_stride = rows_apart(p.k, kLine / 2);
  const Room room = room_of(p, bf16_bytes(p, member.count()), member.count());
  round_activations(p, room, x, x_stride, member);
  member.barrier();
  ends::for_outputs(p, room, member, [&](const Problem& to, Range outputs) {
    for_tiles(to, outputs, kBf16Chunk, [&](const Piece& piece, const Tile& tile) {
      const auto* words =
          reinterpret_cast<const uint16_t*>(contiguous_row(*piece.segment, piece.row)) + tile.col;
      multiply_tile<Bf16Pairs>(to, tile, words, p.k, x + tile.col, x_stride);
    });
  });
}

}  // namespace

void linear_bf16(const LaunchArgs& args, Member& member) { run_pairs(problem_of(args), member); }

}  // namespace flare::kernel::bf16
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_AMX)
namespace flare::kernel::amx {
namespace {

using namespace linear;

// clang-format off
#define FLARE_LANES 16
#include "kernel/cpu/linear/linear_ends.inl.h"
#undef FLARE_LANES
#include "kernel/cpu/tiles.inl.h"
#include "kernel/cpu/linear/simd_v4.inl.h"
#include "kernel/cpu/linear/bf16_words.inl.h"
#include "kernel/cpu/linear/bf16_tiles.inl.h"
// clang-format on

}  // namespace

void linear_bf16(const LaunchArgs& args, Member& member) { run_tiles(problem_of(args), member); }

}  // namespace flare::kernel::amx
FLARE_TARGET_END
