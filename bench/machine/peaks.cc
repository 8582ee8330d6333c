// Loops that do nothing but read, or nothing but multiply and add.
#include "machine/peaks.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "base/isa_region.h"

namespace flare::bench {
namespace {
constexpr int64_t kSteps = 100000;
constexpr int kChains = 12;
constexpr int kPairsIn16Bits = 8;
constexpr int64_t kReadItem = 2 << 20;
constexpr int64_t kReadTurn = 256;  // bytes of a stream before the next one's turn
}  // namespace

namespace v2 {
using Vector = __m128i;
inline Vector splat8(int x) { return _mm_set1_epi8(static_cast<char>(x)); }
inline Vector splat16(int x) { return _mm_set1_epi16(static_cast<short>(x)); }
inline Vector maddubs(Vector a, Vector b) { return _mm_maddubs_epi16(a, b); }
inline Vector madd(Vector a, Vector b) { return _mm_madd_epi16(a, b); }
inline Vector add16(Vector a, Vector b) { return _mm_add_epi16(a, b); }
inline Vector add32(Vector a, Vector b) { return _mm_add_epi32(a, b); }
inline int low_word(Vector a) { return _mm_cvtsi128_si32(a); }
#include "machine/chains.inl.h"
#include "machine/int8_loops.inl.h"
int f32(int seed, int64_t n_steps) {
  __m128 a = _mm_set1_ps(static_cast<float>(seed) * 1e-3f);
  return _mm_cvttss_si32(chains(_mm_set1_ps(1), n_steps, [&](__m128& sum) {
    renew(a);
    sum = _mm_add_ps(sum, _mm_mul_ps(a, a));
  }));
}
inline Vector load(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline Vector exclusive_or(Vector a, Vector b) { return _mm_xor_si128(a, b); }
#include "machine/read_loop.inl.h"
}  // namespace v2

FLARE_TARGET_BEGIN(FLARE_TARGET_V3)
namespace v3 {
using Vector = __m256i;
inline Vector splat8(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
inline Vector splat16(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
inline Vector maddubs(Vector a, Vector b) { return _mm256_maddubs_epi16(a, b); }
inline Vector madd(Vector a, Vector b) { return _mm256_madd_epi16(a, b); }
inline Vector add16(Vector a, Vector b) { return _mm256_add_epi16(a, b); }
inline Vector add32(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
inline int low_word(Vector a) { return _mm_cvtsi128_si32(_mm256_castsi256_si128(a)); }
#include "machine/chains.inl.h"
#include "machine/int8_loops.inl.h"
int f32(int seed, int64_t n_steps) {
  const __m256 a = _mm256_set1_ps(static_cast<float>(seed) * 1e-3f);
  return _mm_cvttss_si32(_mm256_castps256_ps128(
      chains(_mm256_set1_ps(1), n_steps, [&](__m256& sum) { sum = _mm256_fmadd_ps(a, a, sum); })));
}
}  // namespace v3
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_V4)
namespace v4 {
using Vector = __m512i;
inline Vector splat8(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
inline Vector splat16(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
inline Vector maddubs(Vector a, Vector b) { return _mm512_maddubs_epi16(a, b); }
inline Vector madd(Vector a, Vector b) { return _mm512_madd_epi16(a, b); }
inline Vector add16(Vector a, Vector b) { return _mm512_add_epi16(a, b); }
inline Vector add32(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
inline int low_word(Vector a) { return _mm_cvtsi128_si32(_mm512_castsi512_si128(a)); }
#include "machine/chains.inl.h"
#include "machine/int8_loops.inl.h"
int f32(int seed, int64_t n_steps) {
  const __m512 a = _mm512_set1_ps(static_cast<float>(seed) * 1e-3f);
  return _mm_cvttss_si32(_mm512_castps512_ps128(
      chains(_mm512_set1_ps(1), n_steps, [&](__m512& sum) { sum = _mm512_fmadd_ps(a, a, sum); })));
}
inline Vector load(const std::byte* p) { return _mm512_loadu_si512(p); }
inline Vector exclusive_or(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
#include "machine/read_loop.inl.h"
}  // namespace v4
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_BF16)
namespace vnni {
#include "machine/chains.inl.h"
int int8(int seed, int64_t n_steps) {
  const __m512i a = _mm512_set1_epi8(static_cast<char>(seed));
  return _mm_cvtsi128_si32(
      _mm512_castsi512_si128(chains(_mm512_setzero_si512(), n_steps,
                                    [&](__m512i& sum) { sum = _mm512_dpbusd_epi32(sum, a, a); })));
}
int bf16(int seed, int64_t n_steps) {
  const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi16(static_cast<short>(seed)));
  return _mm_cvttss_si32(_mm512_castps512_ps128(
      chains(_mm512_set1_ps(1), n_steps, [&](__m512& sum) { sum = _mm512_dpbf16_ps(sum, a, a); })));
}
}  // namespace vnni
FLARE_TARGET_END

FLARE_TARGET_BEGIN(FLARE_TARGET_AMX)
namespace amx {
#include "kernel/cpu/tiles.inl.h"
// kChains products of full tiles a step, into four tiles in turn.
template <typename Multiply>
int products(int64_t n_steps, const Multiply& multiply) {
  TileShapes shapes;
  for (int tile = 0; tile < 6; ++tile) shapes.set(tile, 16, 64);
  tile_configure(shapes);
  for (int64_t i = 0; i < n_steps; ++i)
    for (int turn = 0; turn < kChains / 4; ++turn) multiply();
  alignas(64) int32_t sums[256];
  tile_store<0>(sums, 64);
  tile_release();
  return sums[0];
}
int int8(int, int64_t n_steps) {
  return products(n_steps, [] {
    tile_add_bytes<0, 4, 5>();
    tile_add_bytes<1, 4, 5>();
    tile_add_bytes<2, 4, 5>();
    tile_add_bytes<3, 4, 5>();
  });
}
int bf16(int, int64_t n_steps) {
  return products(n_steps, [] {
    tile_add_pairs<0, 4, 5>();
    tile_add_pairs<1, 4, 5>();
    tile_add_pairs<2, 4, 5>();
    tile_add_pairs<3, 4, 5>();
  });
}
}  // namespace amx
FLARE_TARGET_END

namespace {

std::atomic<int64_t> sink;

struct Loop {
  int (*run)(int seed, int64_t n_steps);
  int products;  // multiply-adds of one step
};

Loop loop_for(Isa isa, Arithmetic arithmetic) {
  constexpr int kBy4 = kPairsIn16Bits;
  switch (arithmetic) {
    case Arithmetic::kInt8:
      if (isa >= Isa::kAmx) return {amx::int8, 16 * 16 * 64};
      if (isa >= Isa::kVnni) return {vnni::int8, 64};
      if (isa >= Isa::kV4) return {v4::int8, 64};
      return isa >= Isa::kV3 ? Loop{v3::int8, 32} : Loop{v2::int8, 16};
    case Arithmetic::kInt8By4:
      if (isa >= Isa::kAmx) return {amx::int8, 16 * 16 * 64};
      if (isa >= Isa::kVnni) return {vnni::int8, 64};
      if (isa >= Isa::kV4) return {v4::int8_by_4, 64 * kBy4};
      return isa >= Isa::kV3 ? Loop{v3::int8_by_4, 32 * kBy4} : Loop{v2::int8_by_4, 16 * kBy4};
    case Arithmetic::kBf16:
      if (isa >= Isa::kAmx) return {amx::bf16, 16 * 16 * 32};
      if (isa >= Isa::kBf16) return {vnni::bf16, 32};
      [[fallthrough]];
    case Arithmetic::kF32:
      break;
  }
  if (isa >= Isa::kV4) return {v4::f32, 16};
  return isa >= Isa::kV3 ? Loop{v3::f32, 8} : Loop{v2::f32, 4};
}

}  // namespace

HugeMemory::HugeMemory(uint64_t bytes) : bytes_(bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    throw Error(Code::kDoesNotFit, "{} bytes for a benchmark: {}", bytes, errno_text());
  ::madvise(at, bytes, MADV_HUGEPAGE);  // refused: small pages do, a little slower
  std::memset(at, 0, bytes);
  data_ = static_cast<std::byte*>(at);
}

HugeMemory::~HugeMemory() { ::munmap(data_, bytes_); }

double team_clock(int n_members) {
  timespec t;
  clock_gettime(n_members == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double fastest_seconds(const Team& team, int n, const std::function<void()>& run) {
  double best = 1e30;
  for (int i = 0; i < n; ++i) {
    const double begin = team_clock(team.size());
    run();
    best = std::min(best, team_clock(team.size()) - begin);
  }
  return best;
}

uint64_t read_memory_bytes() {
  const uint64_t cache = static_cast<uint64_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  return std::clamp(2 * cache, uint64_t{256} << 20, uint64_t{1} << 30);
}

double read_bandwidth(Team& team, Bytes memory, const ReadLoop& loop) {
  const bool wide = machine_isa().value_or(Isa::kV2) >= Isa::kV4;
  const auto bytes = static_cast<int64_t>(memory.size());
  const double seconds = fastest_seconds(team, 2, [&] {
    team.run([&](Member& member) {
      int64_t sum = 0;
      for (int64_t at; (at = member.take() * kReadItem) < bytes;)
        sum +=
            (wide ? v4::read : v2::read)(loop, memory.data() + at, std::min(kReadItem, bytes - at));
      sink += sum;
    });
  });
  return static_cast<double>(bytes) / seconds;
}

double read_bandwidth(Team& team, Bytes memory) {
  double best = 0;
  for (const ReadLoop& loop : kReadLoops) best = std::max(best, read_bandwidth(team, memory, loop));
  return best;
}

std::string_view arithmetic_name(Arithmetic arithmetic) {
  constexpr std::string_view kNames[kArithmetics] = {"int8", "int8·4bit", "bf16", "f32"};
  return kNames[static_cast<int>(arithmetic)];
}

double peak_operations(Team& team, Isa isa, Arithmetic arithmetic) {
  const Loop loop = loop_for(isa, arithmetic);
  const double seconds = fastest_seconds(team, 7, [&] {
    team.run([&](Member& member) { sink += loop.run(member.index() + 1, kSteps); });
  });
  return 2.0 * loop.products * kChains * kSteps * team.size() / seconds;
}

double barrier_seconds(Team& team) {
  constexpr int kBarriers = 2000;
  return fastest_seconds(team, 7,
                         [&] {
                           team.run([](Member& member) {
                             for (int i = 0; i < kBarriers; ++i) member.barrier();
                           });
                         }) /
         kBarriers;
}

double run_seconds(Team& team) {
  constexpr int kRuns = 500;
  return fastest_seconds(team, 7,
                         [&] {
                           for (int i = 0; i < kRuns; ++i) team.run([](Member&) {});
                         }) /
         kRuns;
}

Peaks measure_peaks(Team& team, Isa isa, Bytes memory) {
  Peaks peaks;
  peaks.read_bytes = read_bandwidth(team, memory);
  for (int i = 0; i < kArithmetics; ++i)
    peaks.operations[i] = peak_operations(team, isa, static_cast<Arithmetic>(i));
  return peaks;
}

Peaks best_of(const Peaks& a, const Peaks& b) {
  Peaks best = a;
  best.read_bytes = std::max(a.read_bytes, b.read_bytes);
  for (int i = 0; i < kArithmetics; ++i)
    best.operations[i] = std::max(a.operations[i], b.operations[i]);
  return best;
}

std::string peaks_text(const Peaks& peaks) {
  std::string out = fmt::format("peaks: read {:.1f} GB/s", peaks.read_bytes / 1e9);
  for (int i = 0; i < kArithmetics; ++i)
    out += fmt::format(", {} {:.0f} GOP/s", arithmetic_name(static_cast<Arithmetic>(i)),
                       peaks.operations[i] / 1e9);
  return out;
}

Json peaks_json(const Peaks& peaks) {
  return Json::object({{"read_bytes_per_s", peaks.read_bytes},
                       {"int8_ops_per_s", peaks.of(Arithmetic::kInt8)},
                       {"int8_by_4bit_ops_per_s", peaks.of(Arithmetic::kInt8By4)},
                       {"bf16_ops_per_s", peaks.of(Arithmetic::kBf16)},
                       {"f32_ops_per_s", peaks.of(Arithmetic::kF32)}});
}

}  // namespace flare::bench
