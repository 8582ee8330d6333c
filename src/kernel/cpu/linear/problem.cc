// What every level of linear shares: operands, segments, quantised activations, workspace sizes.
#include "kernel/cpu/linear/problem.h"

#include <emmintrin.h>
#include <smmintrin.h>

#include <algorithm>
#include <cstring>

#include "kernel/cpu/linear/linear.h"

namespace flare::kernel {
namespace linear {
namespace {

constexpr int64_t kColumns = 128;  // rows of row-split objects are padded to multiples of this
constexpr int64_t kSmallestGroup = 32;
constexpr int64_t kLine = 64;

int64_t align_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

struct QuantisedBytes {
  int64_t scales, sums, panels, panel;  // offsets, and the size of one panel
};
QuantisedBytes quantised_bytes(int64_t n_rows, int64_t padded_k, int64_t groups) {
  QuantisedBytes bytes;
  bytes.scales = align_up(n_rows * padded_k, 64);
  bytes.sums = bytes.scales + align_up(n_rows * groups * 4, 64);
  bytes.panels = bytes.sums + align_up(n_rows * groups * 4, 64);
  bytes.panel = 2 * kMaxWidth * (padded_k + 4 * groups);  // and as much to spare
  return bytes;
}

// Largest magnitude among n values, a multiple of 4.
float absmax(const float* values, int64_t n) {
  const __m128 magnitude = _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff));
  __m128 largest = _mm_setzero_ps();
  for (int64_t i = 0; i < n; i += 4)
    largest = _mm_max_ps(largest, _mm_and_ps(_mm_loadu_ps(values + i), magnitude));
  largest = _mm_max_ps(largest, _mm_movehl_ps(largest, largest));
  largest = _mm_max_ss(largest, _mm_shuffle_ps(largest, largest, 1));
  return _mm_cvtss_f32(largest);
}

__m128i round4(const float* values, __m128 factor) {
  return _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(values), factor));
}

// One group of one row: codes go to `to`, 4 bytes every `step` bytes. Returns Σ codes.
int32_t quantise_group(const float* values, int64_t n, float factor, StepOrder order, int8_t* to,
                       int64_t step) {
  const __m128i evens_odds = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m128 by = _mm_set1_ps(factor);
  __m128i sums = _mm_setzero_si128();
  for (int64_t i = 0; i < n; i += 16) {
    const __m128i low = _mm_packs_epi32(round4(values + i, by), round4(values + i + 4, by));
    const __m128i high = _mm_packs_epi32(round4(values + i + 8, by), round4(values + i + 12, by));
    __m128i codes = _mm_packs_epi16(low, high);
    sums = _mm_add_epi32(sums, _mm_madd_epi16(_mm_add_epi16(low, high), _mm_set1_epi16(1)));
    if (order == StepOrder::kEvensOdds) codes = _mm_shuffle_epi8(codes, evens_odds);
    const int32_t words[4] = {_mm_extract_epi32(codes, 0), _mm_extract_epi32(codes, 1),
                              _mm_extract_epi32(codes, 2), _mm_extract_epi32(codes, 3)};
    for (const int32_t& word : words) {
      std::memcpy(to, &word, 4);
      to += step;
    }
  }
  sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xb1)));
}

}  // namespace

Range share_of(const Member& member, int64_t n, int64_t grain) {
  const auto [begin, end] = member.share(n, grain);
  return {begin, end};
}

Problem problem_of(const LaunchArgs& args) {
  const OperandView& x = args.operands[0];
  const codec::Matrix& weight = *args.operands[1].weight;
  const OperandView& bias = args.operands[2];
  const OperandView& y = args.operands[3];
  Problem problem;
  problem.n_rows = x.rows;
  problem.n_outputs = static_cast<int64_t>(weight.rows);
  problem.k = static_cast<int64_t>(weight.cols);
  problem.x = x.f32();
  problem.x_stride = x.stride;
  problem.y = y.f32_out();
  problem.y_stride = y.stride;
  if (bias.space != graph::Space::kNone) problem.bias = bias.f32();
  problem.segments = weight.segments.data();
  problem.workspace = args.workspace.data();
  const OperandView& norm = args.operands[4];
  const OperandView& gate = args.operands[5];
  const OperandView& residual = args.operands[6];
  problem.input = static_cast<LinearInput>(args.immediates[1].i);
  problem.output = static_cast<LinearOutput>(args.immediates[2].i);
  problem.eps = static_cast<float>(args.immediates[3].r);
  problem.norm_offset = static_cast<float>(args.immediates[4].i);
  if (norm.space != graph::Space::kNone) problem.norm = norm.f32();
  problem.norm_width = norm.cols;
  if (gate.space != graph::Space::kNone) problem.gate = gate.f32();
  problem.gate_stride = gate.stride;
  if (residual.space != graph::Space::kNone) problem.residual = residual.f32();
  problem.residual_stride = residual.stride;
  return problem;
}

Room room_of(const Problem& problem, uint64_t own_bytes, int n_members) {
  Room room;
  int64_t at = align_up(static_cast<int64_t>(own_bytes), kLine);
  if (problem.input != LinearInput::kPlain) {
    room.rows = reinterpret_cast<float*>(problem.workspace + at);
    room.rows_stride = align_up(problem.k, kLine / 4);
    at += std::max<int64_t>(problem.n_rows, n_members) * room.rows_stride * 4;
  }
  if (!problem.is_stored_at_once()) {
    room.product = reinterpret_cast<float*>(problem.workspace + at);
    at += align_up(problem.n_rows * problem.n_outputs * 4, kLine);
  }
  room.bytes = static_cast<uint64_t>(at);
  return room;
}

uint64_t tile_bytes(int n_members) {
  return static_cast<uint64_t>(n_members) * kTileRows * kTileStride * sizeof(float);
}

uint64_t bf16_bytes(const Problem& problem, int n_members) {
  // Level bf16 keeps x as bf16 words; the others convert tiles of weights as generic does.
  const int64_t words = align_up(problem.n_rows * align_up(problem.k, 32) * 2, kLine);
  return std::max(static_cast<uint64_t>(words), tile_bytes(n_members));
}

uint64_t int8_bytes(const Problem& problem, int n_members) {
  const int64_t padded_k = align_up(problem.k, kColumns);
  const QuantisedBytes at = quantised_bytes(problem.n_rows, padded_k, padded_k / kSmallestGroup);
  return static_cast<uint64_t>(at.panels + at.panel * n_members);
}

Pieces::Pieces(const Problem& problem, Range outputs, int64_t longest)
    : segment_(problem.segments),
      in_segment_(outputs.begin),
      output_(outputs.begin),
      end_(outputs.end),
      longest_(longest) {}

bool Pieces::next(Piece* piece) {
  if (output_ >= end_) return false;
  while (in_segment_ >= static_cast<int64_t>(segment_->rows())) {
    in_segment_ -= static_cast<int64_t>(segment_->rows());
    ++segment_;
  }
  const int64_t left = static_cast<int64_t>(segment_->rows()) - in_segment_;
  piece->segment = segment_;
  piece->row = static_cast<int64_t>(segment_->row_begin) + in_segment_;
  piece->output = output_;
  piece->rows = std::min({left, end_ - output_, longest_});
  output_ += piece->rows;
  in_segment_ += piece->rows;
  return true;
}

RowPlanes panel_rows(const Piece& piece, int64_t width, std::byte* spare) {
  const codec::Segment& segment = *piece.segment;
  const codec::Planes planes = codec::format(segment.format).planes(segment.geometry);
  const std::byte* first[codec::kMaxPlanes] = {};
  int64_t stride[codec::kMaxPlanes] = {};
  for (int i = 0; i < planes.count; ++i) {
    stride[i] = static_cast<int64_t>(planes.plane[i].row_bytes);
    first[i] = segment.object + planes.plane[i].offset + piece.row * stride[i];
    if (piece.rows == width) continue;
    std::memcpy(spare, first[i], static_cast<size_t>(piece.rows * stride[i]));
    std::memset(spare + piece.rows * stride[i], 0,
                static_cast<size_t>((width - piece.rows) * stride[i]));
    first[i] = spare;
    spare += width * stride[i];
  }
  const int scale = planes.count - 1;
  RowPlanes out;
  out.base = first[0];
  out.base_stride = stride[0];
  if (scale == 2) {
    out.high = first[1];
    out.high_stride = stride[1];
  }
  out.scale = first[scale];
  out.scale_stride = stride[scale];
  return out;
}

const std::byte* contiguous_row(const codec::Segment& segment, int64_t row) {
  const uint64_t word_bytes = codec::format(segment.format).word_bytes;
  return segment.object + static_cast<uint64_t>(row) * segment.geometry.cols * word_bytes;
}

void decode_tile(const Piece& piece, int64_t col, int64_t n_cols, float* tile, int64_t stride) {
  const codec::Format& format = codec::format(piece.segment->format);
  for (int64_t i = 0; i < piece.rows; ++i)
    format.decode(piece.segment->object, piece.segment->geometry,
                  static_cast<uint64_t>(piece.row + i), static_cast<uint64_t>(col),
                  static_cast<uint64_t>(n_cols), tile + i * stride);
}

Quantised quantised_in(const Problem& problem, int64_t group, int64_t block) {
  Quantised out;
  out.padded_k = align_up(problem.k, kColumns);
  out.groups = out.padded_k / group;
  out.block = block;
  const QuantisedBytes at = quantised_bytes(problem.n_rows, out.padded_k, out.groups);
  out.codes = reinterpret_cast<int8_t*>(problem.workspace);
  out.scales = reinterpret_cast<float*>(problem.workspace + at.scales);
  out.sums = reinterpret_cast<int32_t*>(problem.workspace + at.sums);
  return out;
}

std::byte* panel_of(const Problem& problem, const Quantised& quantised, const Member& member) {
  const QuantisedBytes at = quantised_bytes(problem.n_rows, quantised.padded_k, quantised.groups);
  return problem.workspace + at.panels + at.panel * member.index();
}

std::byte* spare_of(const Problem& problem, const Quantised& quantised, const Member& member) {
  return panel_of(problem, quantised, member) +
         kMaxWidth * (quantised.padded_k + 4 * quantised.groups);
}

void quantise(const Problem& problem, const Quantised& to, int64_t group, StepOrder order,
              int32_t offset, const Member& member) {
  const Range items = share_of(member, problem.n_rows * to.groups, 1);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t t = item / to.groups, g = item % to.groups;
    const int64_t t0 = t / to.block * to.block, r = t - t0;
    const int64_t block_rows = std::min(to.block, problem.n_rows - t0);
    const int64_t begin = std::min(g * group, problem.k);
    const int64_t n_real = std::min(group, problem.k - begin);
    const float* values = problem.x + t * problem.x_stride + begin;
    float padded[64];
    if (n_real < group) {
      std::fill(std::copy_n(values, n_real, padded), padded + group, 0.0f);
      values = padded;
    }
    const float largest = absmax(values, group);
    // Below this 127/largest overflows; such a group adds nothing a binary32 sum could show.
    const bool is_zero = largest < 0x1p-100f;
    int8_t* codes = to.codes + t0 * to.padded_k + (g * group / 4 * block_rows + r) * 4;
    const int32_t sum = quantise_group(values, group, is_zero ? 0.0f : 127.0f / largest, order,
                                       codes, block_rows * 4);
    const int64_t at = t0 * to.groups + g * block_rows + r;
    to.scales[at] = is_zero ? 0.0f : largest / 127.0f;
    to.sums[at] = -offset * sum;
  }
}

}  // namespace linear

uint64_t linear_generic_workspace(const LaunchArgs& at_capacity, int n_members) {
  const linear::Problem problem = linear::problem_of(at_capacity);
  return linear::room_of(problem, linear::tile_bytes(n_members), n_members).bytes;
}

uint64_t linear_bf16_workspace(const LaunchArgs& at_capacity, int n_members) {
  const linear::Problem problem = linear::problem_of(at_capacity);
  return linear::room_of(problem, linear::bf16_bytes(problem, n_members), n_members).bytes;
}

uint64_t linear_int8_workspace(const LaunchArgs& at_capacity, int n_members) {
  const linear::Problem problem = linear::problem_of(at_capacity);
  return linear::room_of(problem, linear::int8_bytes(problem, n_members), n_members).bytes;
}

}  // namespace flare::kernel
