// Conversion of source rows, shared out to a team.
#include "prepare/recipe/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/float_types.h"
#include "codec/search.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {
namespace {

using checkpoint::DType;

// Values that one worker converts at a time: small enough for its cache.
constexpr uint64_t kValuesAtOnce = 1 << 16;

uint64_t word_bytes(const checkpoint::Tensor& tensor) {
  return static_cast<uint64_t>(checkpoint::dtype_bits(tensor.dtype)) / 8;
}

bool has_blocks(const checkpoint::Tensor& tensor) { return is_block(tensor.dtype); }

// Stored bytes of n neighbouring columns of a row; whole blocks where there are blocks.
uint64_t column_bytes(const checkpoint::Tensor& tensor, uint64_t n) {
  if (!has_blocks(tensor)) return n * word_bytes(tensor);
  return codec::format(*direct_format_of(tensor.dtype)).planes({1, n}).plane[0].row_bytes;
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

// Calls body(piece, first row of its source, n) for each run of rows [row, row+n_rows) that lies in
// one piece. Not for transposed parameters.
template <typename Body>
void for_each_run(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, Body body) {
  for (const Piece& piece : parameter.pieces) {
    const uint64_t rows = piece.row_end - piece.row_begin;
    if (row >= rows) {
      row -= rows;
      continue;
    }
    const uint64_t n = std::min(n_rows, rows - row);
    if (n == 0) return;
    body(piece, piece.row_begin + row, n);
    n_rows -= n;
    row = 0;
  }
  FLARE_ASSERT(n_rows == 0);
}

// Source columns in the order of the parameter's.
template <typename Body>
void for_each_column(const ImportedParameter& parameter, Body body) {
  const uint64_t cols = geometry_of(parameter).cols;
  if (parameter.columns.empty())
    for (uint64_t c = 0; c < cols; ++c) body(c);
  for (const Columns& range : parameter.columns)
    for (uint64_t c = range.begin; c < range.end; ++c) body(c);
}

// Parameter [T,C] of a source [C,1,T]: calls body(word, index) for each element of the rows.
template <typename Body>
void for_each_tap(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, Body body) {
  const checkpoint::Tensor& tensor = *parameter.pieces.front().tensor;
  const uint64_t taps = parameter.shape[0];
  const uint64_t word = word_bytes(tensor);
  uint64_t index = 0;
  for (uint64_t t = row; t < row + n_rows; ++t)
    for_each_column(
        parameter, [&](uint64_t c) { body(tensor.bytes.data() + (c * taps + t) * word, index++); });
}

void copy_rows(const ImportedParameter& parameter, bool in_source_order, uint64_t row,
               uint64_t n_rows, std::byte* out) {
  if (parameter.transform == Transform::kTransposeTaps) {
    const uint64_t word = word_bytes(*parameter.pieces.front().tensor);
    for_each_tap(parameter, row, n_rows, [&](const std::byte* from, uint64_t i) {
      std::memcpy(out + i * word, from, word);
    });
    return;
  }
  const uint64_t cols = geometry_of(parameter).cols;
  for_each_run(parameter, row, n_rows, [&](const Piece& piece, uint64_t first, uint64_t n) {
    const checkpoint::Tensor& tensor = *piece.tensor;
    const uint64_t row_bytes = column_bytes(tensor, cols);
    const std::byte* from = tensor.bytes.data() + first * row_bytes;
    if (in_source_order) {
      std::memcpy(out, from, n * row_bytes);
      out += n * row_bytes;
      return;
    }
    for (uint64_t r = 0; r < n; ++r, from += row_bytes)
      for (const Columns& range : parameter.columns) {
        const uint64_t bytes = column_bytes(tensor, range.end - range.begin);
        std::memcpy(out, from + column_bytes(tensor, range.begin), bytes);
        out += bytes;
      }
  });
}

// The same of encoded weights. A tile of rows that two pieces share comes to pass in no checkpoint
// seen, and kept_format refuses it.
void copy_encoded_rows(const ImportedParameter& parameter, codec::FormatId format,
                       const codec::Planes& planes, uint64_t row, uint64_t n_rows, PlaneRows dst) {
  for_each_run(parameter, row, n_rows, [&](const Piece& piece, uint64_t first, uint64_t n) {
    piece.encoded->copy_rows(format, first, n, dst);
    for (int p = 0; p < planes.count; ++p) dst.plane[p] += n * planes.plane[p].row_bytes;
  });
}

// Rows [first, first + n) of `cols` columns as numbers.
void widen_rows(const Piece& piece, uint64_t first, uint64_t n, uint64_t cols, float* out) {
  if (piece.encoded != nullptr) return piece.encoded->read_rows(first, n, out);
  const checkpoint::Tensor& tensor = *piece.tensor;
  const std::byte* from = tensor.bytes.data() + first * column_bytes(tensor, cols);
  if (!has_blocks(tensor)) return widen(tensor.dtype, from, n * cols, out);
  const codec::Format& format = codec::format(*direct_format_of(tensor.dtype));
  for (uint64_t r = 0; r < n; ++r) format.decode(from, {n, cols}, r, 0, cols, out + r * cols);
}

void reorder_columns(const ImportedParameter& parameter, uint64_t n, uint64_t cols, float* values) {
  std::vector<float> row(cols);
  for (uint64_t r = 0; r < n; ++r, values += cols) {
    std::copy_n(values, cols, row.data());
    uint64_t i = 0;
    for_each_column(parameter, [&](uint64_t c) { values[i++] = row[c]; });
  }
}

void transform_values(Transform transform, uint64_t n, float* values) {
  if (transform == Transform::kMinusOne)
    for (uint64_t i = 0; i < n; ++i) values[i] -= 1;
  if (transform == Transform::kLogNegated)
    for (uint64_t i = 0; i < n; ++i)
      values[i] = static_cast<float>(std::log(-static_cast<double>(values[i])));
}

bool is_encoded(const ImportedParameter& parameter) {
  return std::ranges::any_of(parameter.pieces,
                             [](const Piece& piece) { return piece.encoded != nullptr; });
}

bool holds(const codec::Format& format, const codec::Geometry& geometry) {
  try {
    format.planes(geometry);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Of encoded weights: every piece has these words, every tile of rows lies within one piece, and
// all agree in the order of columns and, where there is one for the object, in the divisor.
bool keeps(const ImportedParameter& parameter, const codec::Format& format) {
  const auto& front = parameter.pieces.front().encoded;
  if (front == nullptr || !parameter.columns.empty() || parameter.transform != Transform::kNone)
    return false;
  const EncodedFacts& first = front->facts();
  const uint64_t step = row_step(format);
  return holds(format, geometry_of(parameter)) &&
         std::ranges::all_of(parameter.pieces, [&](const Piece& piece) {
           if (piece.encoded == nullptr) return false;
           const EncodedFacts& facts = piece.encoded->facts();
           return std::ranges::find(facts.formats, format.id) != facts.formats.end() &&
                  (piece.row_end - piece.row_begin) % step == 0 &&
                  (step == 1 || facts.divisor == first.divisor) &&
                  facts.input_columns == first.input_columns;
         });
}

// Every piece already holds words of this format.
bool same_words(const ImportedParameter& parameter, const codec::Format& format) {
  return is_encoded(parameter) ? keeps(parameter, format) : kept_format(parameter) == format.id;
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
  for_each_run(parameter, row, n_rows, [&](const Piece& piece, uint64_t first, uint64_t n) {
    widen_rows(piece, first, n, cols, out);
    if (!parameter.columns.empty()) reorder_columns(parameter, n, cols, out);
    transform_values(parameter.transform, n * cols, out);
    out += n * cols;
  });
}

std::optional<codec::FormatId> kept_format(const ImportedParameter& parameter) {
  if (changes_values(parameter.transform)) return std::nullopt;
  if (!is_encoded(parameter)) {
    const auto first = direct_format_of(parameter.pieces.front().tensor->dtype);
    for (const Piece& piece : parameter.pieces)
      if (direct_format_of(piece.tensor->dtype) != first) return std::nullopt;
    return first;
  }
  const auto& first = parameter.pieces.front().encoded;
  if (first == nullptr) return std::nullopt;
  for (const codec::FormatId id : first->facts().formats)
    if (keeps(parameter, codec::format(id))) return id;
  return std::nullopt;
}

std::optional<codec::FormatId> unreadable_format(const ImportedParameter& parameter) {
  for (const Piece& piece : parameter.pieces) {
    std::optional<codec::FormatId> format;
    if (piece.encoded == nullptr)
      format = direct_format_of(piece.tensor->dtype);
    else if (!piece.encoded->facts().formats.empty())
      format = piece.encoded->facts().formats.front();
    if (format && codec::format(*format).stored_only) return format;
  }
  return std::nullopt;
}

uint64_t row_step(const codec::Format& format) {
  constexpr uint64_t kScaleTile = 128;  // §7.3
  return format.layout == codec::LayoutId::kBlockScale ? kScaleTile : 1;
}

std::optional<float> weight_divisor(const ImportedParameter& parameter,
                                    const codec::Format& format) {
  if (format.layout != codec::LayoutId::kBlockScale || !is_encoded(parameter) ||
      !same_words(parameter, format))
    return std::nullopt;
  return parameter.pieces.front().encoded->facts().divisor;
}

std::vector<std::byte> tail_of(const ImportedParameter& parameter, const codec::Format& format) {
  const std::optional<float> divisor = weight_divisor(parameter, format);
  std::vector<std::byte> tail;
  if (!divisor) return tail;
  tail.resize(sizeof(float));
  store_le(tail.data(), *divisor);
  return tail;
}

std::optional<float> activation_divisor(const ImportedParameter& parameter,
                                        const codec::Format& format) {
  if (!is_encoded(parameter) || !same_words(parameter, format)) return std::nullopt;
  std::optional<float> least;
  for (const Piece& piece : parameter.pieces) {
    const EncodedFacts& facts = piece.encoded->facts();
    if (facts.policy != graph::Policy::kAllowA4 || !facts.activation_divisor) return std::nullopt;
    least = std::min(least.value_or(*facts.activation_divisor), *facts.activation_divisor);
  }
  return least;
}

bool keeps_source_columns(const ImportedParameter& parameter, const codec::Format& format) {
  if (format.group == 0 || !same_words(parameter, format)) return false;
  return std::ranges::any_of(parameter.columns, [&](const Columns& range) {
    return range.begin % format.group != 0 || range.end % format.group != 0;
  });
}

std::vector<int32_t> input_columns(const ImportedParameter& parameter,
                                   const codec::Format& format) {
  if (is_encoded(parameter))
    return same_words(parameter, format) ? parameter.pieces.front().encoded->facts().input_columns
                                         : std::vector<int32_t>{};
  if (!keeps_source_columns(parameter, format)) return {};
  std::vector<int32_t> columns(geometry_of(parameter).cols);
  int32_t at = 0;
  for_each_column(parameter, [&](uint64_t stored) { columns[stored] = at++; });
  return columns;
}

bool copies_words(const ImportedParameter& parameter, const codec::Format& format) {
  return same_words(parameter, format);
}

void encode_rows(const ImportedParameter& parameter, const codec::Format& format, uint64_t row,
                 uint64_t n_rows, const PlaneRows& dst, Team& team, const RowEncoder& encoder) {
  const codec::Geometry geometry = geometry_of(parameter);
  const codec::Planes planes = format.planes(geometry);
  const bool copy = same_words(parameter, format);
  const bool encoded = is_encoded(parameter);
  const codec::Search search =
      encoder.encoder == Encoder::kSearch ? codec::search_of(format.id) : nullptr;
  const bool in_source_order = parameter.columns.empty() || keeps_source_columns(parameter, format);
  const uint64_t step = row_step(format);
  const uint64_t at_once = std::max<uint64_t>(1, kValuesAtOnce / geometry.cols / step) * step;
  team.for_range(
      static_cast<int64_t>(n_rows), static_cast<int64_t>(step), [&](int64_t begin, int64_t end) {
        std::vector<float> values;
        for (auto r = static_cast<uint64_t>(begin); r < static_cast<uint64_t>(end); r += at_once) {
          const uint64_t n = std::min(at_once, static_cast<uint64_t>(end) - r);
          std::byte* to[codec::kMaxPlanes] = {};
          for (int p = 0; p < planes.count; ++p)
            to[p] = dst.plane[p] + r * planes.plane[p].row_bytes;
          try {
            if (copy && encoded) {
              PlaneRows at;
              std::copy_n(to, codec::kMaxPlanes, at.plane);
              copy_encoded_rows(parameter, format.id, planes, row + r, n, at);
              continue;
            }
            if (copy) {
              copy_rows(parameter, in_source_order, row + r, n, to[0]);
              // Words of direct formats are all legal; blocks come with scales.
              if (format.quantised) format.validate(to[0], {n, geometry.cols}, 0, n);
              continue;
            }
            values.resize(n * geometry.cols);
            read_rows(parameter, row + r, n, values.data());
            if (search != nullptr)
              search(values.data(), n, geometry,
                     encoder.importance.empty() ? nullptr : encoder.importance.data(), to);
            else
              format.encode(values.data(), n, geometry, to);
          } catch (Error& error) {
            error.add_context(fmt::format("parameter '{}' from row {}", parameter.name, row + r));
            throw;
          }
        }
      });
}

void release_rows(const checkpoint::Checkpoint& checkpoint, const ImportedParameter& parameter,
                  uint64_t begin, uint64_t end) {
  if (parameter.transform == Transform::kTransposeTaps) return;  // rows are columns of the source
  for_each_run(parameter, begin, end - begin, [&](const Piece& piece, uint64_t first, uint64_t n) {
    if (piece.encoded != nullptr && piece.encoded->release_rows(first, n)) return;
    // Whole rows of the codes are given back; where they have another shape, all at the end.
    const uint64_t rows = codec::geometry_of(piece.tensor->shape).rows;
    if (piece.encoded != nullptr && piece.encoded->facts().geometry.rows != rows) return;
    const uint64_t row_bytes = piece.tensor->bytes.size() / rows;
    checkpoint.release(*piece.tensor, first * row_bytes, n * row_bytes);
  });
}

void release_sources(const checkpoint::Checkpoint& checkpoint, const ImportedParameter& parameter) {
  for (const Piece& piece : parameter.pieces) {
    if (piece.encoded == nullptr)
      checkpoint.release(*piece.tensor);
    else
      for (const checkpoint::Tensor* tensor : piece.encoded->facts().tensors)
        checkpoint.release(*tensor);
  }
}

}  // namespace flare::prepare
