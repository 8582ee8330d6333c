// Conversion of source rows, shared out to a team.
#include "prepare/recipe/encode.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/float_types.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;

// Values that one worker converts at a time: small enough for its cache.
constexpr uint64_t kValuesAtOnce = 1 << 16;

uint64_t word_bytes(const checkpoint::Tensor& tensor) {
  return static_cast<uint64_t>(checkpoint::dtype_bits(tensor.dtype)) / 8;
}

float value_at(DType dtype, const std::byte* word) {
  switch (dtype) {
    case DType::kBf16:
      return bf16_to_f32(load_le<uint16_t>(word));
    case DType::kF16:
      return fp16_to_f32(load_le<uint16_t>(word));
    case DType::kF64:
      return static_cast<float>(load_le<double>(word));
    default:
      return load_le<float>(word);
  }
}

// The loop is inside the switch so that it is compiled once per type.
void widen(DType dtype, const std::byte* from, uint64_t n, float* out) {
  switch (dtype) {
    case DType::kBf16:
      for (uint64_t i = 0; i < n; ++i) out[i] = bf16_to_f32(load_le<uint16_t>(from + 2 * i));
      break;
    case DType::kF32:
      std::memcpy(out, from, n * sizeof(float));
      break;
    default: {
      const uint64_t step = dtype == DType::kF16 ? 2 : 8;
      for (uint64_t i = 0; i < n; ++i) out[i] = value_at(dtype, from + step * i);
    }
  }
}

// Calls body(tensor bytes of the first row, tensor, n) for each run of rows [row, row+n_rows) that
// lies in one piece. Not for transposed parameters.
template <typename Body>
void for_each_run(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, Body body) {
  const uint64_t cols = geometry_of(parameter).cols;
  for (const Piece& piece : parameter.pieces) {
    const uint64_t rows = piece.row_end - piece.row_begin;
    if (row >= rows) {
      row -= rows;
      continue;
    }
    const uint64_t n = std::min(n_rows, rows - row);
    if (n == 0) return;
    const uint64_t row_bytes = cols * word_bytes(*piece.tensor);
    body(piece.tensor->bytes.data() + (piece.row_begin + row) * row_bytes, *piece.tensor, n);
    n_rows -= n;
    row = 0;
  }
  FLARE_ASSERT(n_rows == 0);
}

// Parameter [T,C] of a source [C,1,T]: calls body(word, index) for each element of the rows.
template <typename Body>
void for_each_tap(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, Body body) {
  const checkpoint::Tensor& tensor = *parameter.pieces.front().tensor;
  const uint64_t taps = parameter.shape[0], channels = parameter.shape[1];
  const uint64_t word = word_bytes(tensor);
  uint64_t index = 0;
  for (uint64_t t = row; t < row + n_rows; ++t)
    for (uint64_t c = 0; c < channels; ++c)
      body(tensor.bytes.data() + (c * taps + t) * word, index++);
}

void copy_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, std::byte* out) {
  if (parameter.transform == Transform::kTransposeTaps) {
    const uint64_t word = word_bytes(*parameter.pieces.front().tensor);
    for_each_tap(parameter, row, n_rows, [&](const std::byte* from, uint64_t i) {
      std::memcpy(out + i * word, from, word);
    });
    return;
  }
  const uint64_t cols = geometry_of(parameter).cols;
  for_each_run(parameter, row, n_rows,
               [&](const std::byte* from, const checkpoint::Tensor& tensor, uint64_t n) {
                 const uint64_t bytes = n * cols * word_bytes(tensor);
                 std::memcpy(out, from, bytes);
                 out += bytes;
               });
}

// Every piece already holds words of this format.
bool same_words(const ImportedParameter& parameter, const codec::Format& format) {
  return std::ranges::all_of(parameter.pieces, [&](const Piece& piece) {
    return direct_format_of(piece.tensor->dtype) == format.id;
  });
}

}  // namespace

codec::Geometry geometry_of(const ImportedParameter& parameter) {
  return codec::geometry_of(parameter.shape);
}

void read_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, float* out) {
  if (parameter.transform == Transform::kTransposeTaps) {
    const DType dtype = parameter.pieces.front().tensor->dtype;
    for_each_tap(parameter, row, n_rows,
                 [&](const std::byte* from, uint64_t i) { out[i] = value_at(dtype, from); });
    return;
  }
  const uint64_t cols = geometry_of(parameter).cols;
  for_each_run(parameter, row, n_rows,
               [&](const std::byte* from, const checkpoint::Tensor& tensor, uint64_t n) {
                 widen(tensor.dtype, from, n * cols, out);
                 out += n * cols;
               });
}

void encode_rows(const ImportedParameter& parameter, const codec::Format& format, uint64_t row,
                 uint64_t n_rows, const PlaneRows& dst, Team& team) {
  const codec::Geometry geometry = geometry_of(parameter);
  const codec::Planes planes = format.planes(geometry);
  const bool copy = same_words(parameter, format);
  const uint64_t at_once = std::max<uint64_t>(1, kValuesAtOnce / geometry.cols);
  team.for_range(static_cast<int64_t>(n_rows), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values;
    for (auto r = static_cast<uint64_t>(begin); r < static_cast<uint64_t>(end); r += at_once) {
      const uint64_t n = std::min(at_once, static_cast<uint64_t>(end) - r);
      std::byte* to[codec::kMaxPlanes] = {};
      for (int p = 0; p < planes.count; ++p) to[p] = dst.plane[p] + r * planes.plane[p].row_bytes;
      if (copy) {
        copy_rows(parameter, row + r, n, to[0]);
        continue;
      }
      values.resize(n * geometry.cols);
      read_rows(parameter, row + r, n, values.data());
      try {
        format.encode(values.data(), n, geometry, to);
      } catch (Error& error) {
        error.add_context(fmt::format("parameter '{}' from row {}", parameter.name, row + r));
        throw;
      }
    }
  });
}

}  // namespace flare::prepare
