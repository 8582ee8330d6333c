// Rows of repacked blocks as numbers and as words, written once for every block type.
#include "prepare/import/gguf_repacked.h"

#include <algorithm>

#include "base/error.h"
#include "codec/nvfp4.h"
#include "prepare/import/gguf_repacked_blocks.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using codec::FormatId;

// What all have in common for whoever puts columns into another order.
class RepackedSource : public EncodedSource {
 public:
  using EncodedSource::EncodedSource;
  virtual std::shared_ptr<const EncodedSource> reordered(
      const std::vector<Columns>& columns) const = 0;
};

// The divisors of nvfp4: one for the object, or one of each row where matrices differ.
void take_factors(const std::vector<float>& factors, EncodedFacts& facts) {
  const auto differs = [&](float factor) { return factor != factors.front(); };
  if (std::ranges::any_of(factors, differs))
    facts.formats = {FormatId::kNvfp4Rows};
  else
    facts.divisor = factors.empty() ? 1 : 1 / factors.front();
  const auto is_power = [](float factor) {
    int exponent = 0;
    return std::frexp(factor, &exponent) == 0.5f;
  };
  if (!std::ranges::all_of(factors, is_power))
    facts.rounded = "values are divided by the rounded reciprocal of the global scale";
}

template <typename Block>
class BlockSource final : public RepackedSource {
 public:
  // Block b of a row is stored as block order[b]; empty: as it is.
  BlockSource(EncodedFacts facts, std::string place, std::vector<float> factors,
              std::vector<uint64_t> order)
      : RepackedSource(std::move(facts)),
        place_(std::move(place)),
        factors_(std::move(factors)),
        blocks_(this->facts().geometry.cols / Block::kValues),
        order_(std::move(order)) {}

  void read_rows(uint64_t row, uint64_t n_rows, float* out) const override {
    const uint64_t cols = facts().geometry.cols;
    const std::vector<int32_t>& columns = facts().input_columns;
    std::vector<float> kept(columns.size());
    for (uint64_t r = row; r < row + n_rows; ++r, out += cols) {
      float* values = columns.empty() ? out : kept.data();
      for (uint64_t b = 0; b < blocks_; ++b)
        Block::decode(checked_block(r, b), values + b * Block::kValues);
      if (!factors_.empty())
        for (uint64_t c = 0; c < cols; ++c) values[c] *= factor_of(r);
      for (uint64_t c = 0; c < columns.size(); ++c) out[columns[c]] = values[c];
    }
  }

  void copy_rows(FormatId format, uint64_t row, uint64_t n_rows,
                 const PlaneRows& dst) const override {
    const codec::Geometry geometry{n_rows, facts().geometry.cols};
    const codec::Planes planes = codec::format(format).planes(geometry);
    for (uint64_t i = 0; i < n_rows; ++i) {
      std::byte* codes = dst.plane[0] + i * planes.plane[0].row_bytes;
      std::byte* scales = dst.plane[1] + i * planes.plane[1].row_bytes;
      pad(planes, codes, scales);
      for (uint64_t b = 0; b < blocks_; ++b) {
        std::array<std::byte, Block::kScaleBytes> words;
        Block::copy(checked_block(row + i, b), codes + b * Block::kCodeBytes, words.data());
        if (format == FormatId::kNvfp4)
          for (uint64_t g = 0; g < words.size(); ++g)
            dst.plane[1][codec::nvfp4_scale_offset(geometry, i, b * words.size() + g)] = words[g];
        else
          std::ranges::copy(words, scales + b * words.size());
      }
      if (format == FormatId::kNvfp4Rows)
        store_le(dst.plane[2] + i * sizeof(float), 1 / factor_of(row + i));
    }
  }

  std::shared_ptr<const EncodedSource> reordered(
      const std::vector<Columns>& columns) const override {
    FLARE_ASSERT(order_.empty() && facts().input_columns.empty());
    if (std::ranges::all_of(columns, [](const Columns& range) {
          return range.begin % Block::kValues == 0 && range.end % Block::kValues == 0;
        })) {
      std::vector<uint64_t> order;
      for (const Columns& range : columns)
        for (uint64_t c = range.begin; c < range.end; c += Block::kValues)
          order.push_back(c / Block::kValues);
      FLARE_ASSERT(order.size() == blocks_);
      return std::make_shared<BlockSource>(facts(), place_, factors_, std::move(order));
    }
    EncodedFacts moved = facts();
    moved.input_columns.resize(moved.geometry.cols);
    int32_t at = 0;
    for (const Columns& range : columns)
      for (uint64_t c = range.begin; c < range.end; ++c) moved.input_columns[c] = at++;
    return std::make_shared<BlockSource>(std::move(moved), place_, factors_,
                                         std::vector<uint64_t>{});
  }

 private:
  // Behind the last block of a row up to the width of the format's rows.
  void pad(const codec::Planes& planes, std::byte* codes, std::byte* scales) const {
    const uint64_t code_bytes = blocks_ * Block::kCodeBytes,
                   scale_bytes = blocks_ * Block::kScaleBytes;
    if (code_bytes == planes.plane[0].row_bytes) return;
    std::fill_n(codes + code_bytes, planes.plane[0].row_bytes - code_bytes, Block::kPadding);
    std::fill_n(scales + scale_bytes, planes.plane[1].row_bytes - scale_bytes, std::byte{0});
  }
  float factor_of(uint64_t row) const {
    const uint64_t n = factors_.size();
    return n == 0 ? 1 : factors_[row / (facts().geometry.rows / n)];
  }
  const std::byte* checked_block(uint64_t row, uint64_t b) const {
    const uint64_t stored = order_.empty() ? b : order_[b];
    const std::byte* block =
        facts().tensors.front()->bytes.data() + (row * blocks_ + stored) * Block::kBytes;
    Block::check(block, [&](uint64_t column, const std::string& problem) {
      throw Error(Code::kValue, "{}: row {} column {}: {}", place_, row,
                  stored * Block::kValues + column, problem);
    });
    return block;
  }

  std::string place_;
  std::vector<float> factors_;
  uint64_t blocks_;
  std::vector<uint64_t> order_;
};

template <typename Block>
std::shared_ptr<const EncodedSource> open(const checkpoint::Tensor& tensor,
                                          const std::string& place, codec::Geometry geometry,
                                          std::vector<float> factors) {
  if (geometry.cols % Block::kValues != 0)
    throw Error(Code::kBinding, "{}: rows of {} columns, a multiple of {} expected for {}", place,
                geometry.cols, Block::kValues, Block::kScheme);
  EncodedFacts facts{.name = tensor.name,
                     .scheme = Block::kScheme,
                     .geometry = geometry,
                     .formats = {Block::kFormats.begin(), Block::kFormats.end()},
                     .policy = graph::Policy::kAllowA8,  // as of every block of these files
                     .tensors = {&tensor}};
  if (facts.formats.front() == FormatId::kNvfp4) take_factors(factors, facts);
  return std::make_shared<BlockSource<Block>>(std::move(facts), place, std::move(factors),
                                              std::vector<uint64_t>{});
}

}  // namespace

bool is_repacked(DType dtype) {
  using enum DType;
  return dtype == kMxfp4 || dtype == kNvfp4 || dtype == kPq2_0 || dtype == kTq1_0 ||
         dtype == kTq2_0 || dtype == kQ1_0;
}

std::shared_ptr<const EncodedSource> open_repacked(const checkpoint::Tensor& tensor,
                                                   const std::string& place,
                                                   codec::Geometry geometry,
                                                   std::vector<float> factors) {
  switch (tensor.dtype) {
    case DType::kMxfp4:
      return open<Mxfp4Block>(tensor, place, geometry, std::move(factors));
    case DType::kNvfp4:
      return open<Nvfp4Block>(tensor, place, geometry, std::move(factors));
    case DType::kPq2_0:
      return open<Pq2Block>(tensor, place, geometry, std::move(factors));
    case DType::kTq1_0:
      return open<Tq1Block>(tensor, place, geometry, std::move(factors));
    case DType::kTq2_0:
      return open<Tq2Block>(tensor, place, geometry, std::move(factors));
    case DType::kQ2_0:
      return open<Q2Block>(tensor, place, geometry, std::move(factors));
    case DType::kQ8_0:
      return open<Q8Block>(tensor, place, geometry, std::move(factors));
    default:
      FLARE_ASSERT(tensor.dtype == DType::kQ1_0);
      return open<Q1Block>(tensor, place, geometry, std::move(factors));
  }
}

bool take_over_blocks(const checkpoint::Checkpoint& checkpoint, FormatId format,
                      ImportedParameter& parameter) {
  const DType wanted = format == FormatId::kQ2G64 ? DType::kQ2_0 : DType::kQ8_0;
  if (format != FormatId::kQ2G64 && format != FormatId::kQ8G32) return false;
  for (const Piece& piece : parameter.pieces)
    if (piece.encoded != nullptr || piece.tensor->dtype != wanted) return false;
  const checkpoint::Tensor* last = nullptr;
  std::shared_ptr<const EncodedSource> source;
  for (Piece& piece : parameter.pieces) {
    if (piece.tensor != last) {
      last = piece.tensor;
      source = open_repacked(
          *last,
          fmt::format("{}: tensor '{}'", checkpoint.mapping(*last).path().string(), last->name),
          codec::geometry_of(last->shape));
      if (!parameter.columns.empty()) source = reorder_repacked(*source, parameter.columns);
    }
    piece.encoded = source;
  }
  parameter.columns.clear();
  return true;
}

std::shared_ptr<const EncodedSource> reorder_repacked(const EncodedSource& source,
                                                      const std::vector<Columns>& columns) {
  const auto* repacked = dynamic_cast<const RepackedSource*>(&source);
  return repacked == nullptr ? nullptr : repacked->reordered(columns);
}

}  // namespace flare::prepare
