// What every level of linear shares: operands, segments, workspace sizes.
#include "kernel/cpu/linear/problem.h"

#include <algorithm>
#include <cstring>

#include "kernel/cpu/linear/linear.h"

namespace flare::kernel {
namespace linear {

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
    room.rows_stride = rows_apart(problem.k, kLine / 4);
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
  // Levels bf16 and amx keep x as bf16 words; the others convert tiles of weights as generic does.
  const int64_t words = problem.n_rows * rows_apart(problem.k, kLine / 2) * 2;
  return std::max(static_cast<uint64_t>(words), tile_bytes(n_members));
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

const std::byte* contiguous_row(const codec::Segment& segment, int64_t row) {
  const uint64_t word_bytes = codec::format(segment.format).word_bytes;
  return segment.object + static_cast<uint64_t>(row) * segment.geometry.cols * word_bytes;
}

void decode_tile(const Piece& piece, int64_t col, int64_t n_cols, float* tile, int64_t stride) {
  for (int64_t i = 0; i < piece.rows; ++i)
    codec::decode_columns(*piece.segment, static_cast<uint64_t>(piece.row + i),
                          static_cast<uint64_t>(col), static_cast<uint64_t>(n_cols),
                          tile + i * stride);
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

}  // namespace flare::kernel
