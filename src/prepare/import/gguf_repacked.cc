// Values of MXFP4 and PQ2_0 blocks, and their words in our formats, written once for both.
//
// A block type supplies kFormat, kScheme, kValues and kBytes of a block, kCodeBytes and kScaleBytes
// of it in the format's two planes, and
//   static void check(block, refuse);          refuse(column in the block, text) does not return
//   static void decode(block, out);            kValues values
//   static void copy(block, codes, scale);     its bytes in the planes
#include "prepare/import/gguf_repacked.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/float_types.h"
#include "codec/float4.h"
#include "codec/gguf_blocks.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;
using codec::FormatId;

// An E8M0 scale, then 16 bytes of E2M1 codes: value j in the low half of byte j, value 16 + j in
// the high one. The format has neighbours in a byte. Scale 0 is 2^-127; 255, which is no number of
// E8M0, readers of ggml take for 2^128.
struct Mxfp4Block {
  static constexpr FormatId kFormat = FormatId::kMxfp4;
  static constexpr const char* kScheme = "GGUF MXFP4";
  static constexpr uint64_t kValues = 32, kBytes = 17, kCodeBytes = 16, kScaleBytes = 1;

  static float scale_of(const std::byte* block) {
    return e8m0_to_f32(std::to_integer<uint8_t>(block[0]));
  }
  static float value_at(const std::byte* block, int j) {
    return codec::kE2m1Values[codec::nibble_at(block + 1, j)] * scale_of(block);
  }

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    constexpr auto kSafe = std::byte{252};  // 6·2^125 is finite
    if (block[0] == std::byte{255}) refuse(0, "scale 255 is no number, 0..254 expected");
    if (block[0] <= kSafe) return;
    for (int j = 0; j < 32; ++j)
      if (!std::isfinite(value_at(block, j)))
        refuse(j, fmt::format("code {} under scale {} exceeds binary32",
                              codec::nibble_at(block + 1, j), codec::byte_at(block, 0)));
  }
  static void decode(const std::byte* block, float* out) {
    for (int j = 0; j < 32; ++j) out[j] = value_at(block, j);
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scale) {
    for (int i = 0; i < 16; ++i)
      codes[i] = static_cast<std::byte>(codec::nibble_at(block + 1, 2 * i) |
                                        codec::nibble_at(block + 1, 2 * i + 1) << 4);
    *scale = block[0];
  }
};

// An fp16 scale, then bit pairs c of the values d·(c − 1), four a byte; the format has them as
// two's complement.
struct Pq2Block {
  static constexpr FormatId kFormat = FormatId::kT2G128;
  static constexpr const char* kScheme = "GGUF PQ2_0";
  static constexpr uint64_t kValues = 128, kBytes = 34, kCodeBytes = 32, kScaleBytes = 2;

  static int pair_at(const std::byte* block, int j) {
    return codec::byte_at(block, 2 + j / 4) >> 2 * (j % 4) & 3;
  }

  template <typename Refuse>
  static void check(const std::byte* block, Refuse refuse) {
    const auto word = load_le<uint16_t>(block);
    if ((word & 0x7c00u) == 0x7c00u || word == 0x8000)
      refuse(0, fmt::format("scale 0x{:04X}, a finite one that is not -0 expected", word));
    for (int j = 0; j < 128; ++j) {
      const int pair = pair_at(block, j);
      if (pair == 3) refuse(j, "code 3, 0..2 expected");
      if (word == 0 && pair != 1) refuse(j, fmt::format("code {} under scale 0, 1 expected", pair));
    }
  }
  static void decode(const std::byte* block, float* out) {
    const float scale = codec::half_at(block);
    for (int j = 0; j < 128; ++j) out[j] = scale * static_cast<float>(pair_at(block, j) - 1);
  }
  static void copy(const std::byte* block, std::byte* codes, std::byte* scale) {
    for (int i = 0; i < 32; ++i) {
      int four = 0;
      for (int j = 0; j < 4; ++j) four |= ((pair_at(block, 4 * i + j) + 3) & 3) << 2 * j;
      codes[i] = static_cast<std::byte>(four);
    }
    std::memcpy(scale, block, kScaleBytes);
  }
};

// What both have in common for whoever puts columns into another order.
class RepackedSource : public EncodedSource {
 public:
  using EncodedSource::EncodedSource;
  virtual std::shared_ptr<const EncodedSource> reordered(
      const std::vector<Columns>& columns) const = 0;
};

template <typename Block>
class BlockSource final : public RepackedSource {
 public:
  // Block b of a row is stored as block order[b]; empty: as it is.
  BlockSource(EncodedFacts facts, std::string place, std::vector<uint64_t> order)
      : RepackedSource(std::move(facts)),
        place_(std::move(place)),
        blocks_(this->facts().geometry.cols / Block::kValues),
        order_(std::move(order)) {}

  void read_rows(uint64_t row, uint64_t n_rows, float* out) const override {
    const uint64_t cols = facts().geometry.cols;
    const std::vector<int32_t>& place = facts().input_columns;
    std::vector<float> kept(place.size());
    for (uint64_t r = row; r < row + n_rows; ++r, out += cols) {
      float* values = place.empty() ? out : kept.data();
      for (uint64_t b = 0; b < blocks_; ++b)
        Block::decode(checked_block(r, b), values + b * Block::kValues);
      for (uint64_t c = 0; c < place.size(); ++c) out[place[c]] = values[c];
    }
  }

  void copy_rows(FormatId format, uint64_t row, uint64_t n_rows,
                 const PlaneRows& dst) const override {
    FLARE_ASSERT(format == Block::kFormat);
    const codec::Planes planes = codec::format(format).planes({n_rows, facts().geometry.cols});
    for (uint64_t i = 0; i < n_rows; ++i) {
      std::byte* codes = dst.plane[0] + i * planes.plane[0].row_bytes;
      std::byte* scales = dst.plane[1] + i * planes.plane[1].row_bytes;
      for (uint64_t b = 0; b < blocks_; ++b)
        Block::copy(checked_block(row + i, b), codes + b * Block::kCodeBytes,
                    scales + b * Block::kScaleBytes);
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
      return std::make_shared<BlockSource>(facts(), place_, std::move(order));
    }
    EncodedFacts moved = facts();
    moved.input_columns.resize(moved.geometry.cols);
    int32_t at = 0;
    for (const Columns& range : columns)
      for (uint64_t c = range.begin; c < range.end; ++c) moved.input_columns[c] = at++;
    return std::make_shared<BlockSource>(std::move(moved), place_, std::vector<uint64_t>{});
  }

 private:
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
  uint64_t blocks_;
  std::vector<uint64_t> order_;
};

template <typename Block>
std::shared_ptr<const EncodedSource> open(const checkpoint::Tensor& tensor,
                                          const std::string& place, codec::Geometry geometry) {
  if (geometry.cols % Block::kValues != 0)
    throw Error(Code::kBinding, "{}: rows of {} columns, a multiple of {} expected for {}", place,
                geometry.cols, Block::kValues, Block::kScheme);
  EncodedFacts facts{.name = tensor.name,
                     .scheme = Block::kScheme,
                     .geometry = geometry,
                     .formats = {Block::kFormat},
                     .policy = graph::Policy::kAllowA8,  // as of every block of these files
                     .tensors = {&tensor}};
  return std::make_shared<BlockSource<Block>>(std::move(facts), place, std::vector<uint64_t>{});
}

}  // namespace

bool is_repacked(DType dtype) { return dtype == DType::kMxfp4 || dtype == DType::kPq2_0; }

std::shared_ptr<const EncodedSource> open_repacked(const checkpoint::Tensor& tensor,
                                                   const std::string& place,
                                                   codec::Geometry geometry) {
  FLARE_ASSERT(is_repacked(tensor.dtype));
  if (tensor.dtype == DType::kMxfp4) return open<Mxfp4Block>(tensor, place, geometry);
  return open<Pq2Block>(tensor, place, geometry);
}

std::shared_ptr<const EncodedSource> reorder_repacked(const EncodedSource& source,
                                                      const std::vector<Columns>& columns) {
  const auto* repacked = dynamic_cast<const RepackedSource*>(&source);
  return repacked == nullptr ? nullptr : repacked->reordered(columns);
}

}  // namespace flare::prepare
