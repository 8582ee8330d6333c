// The format table and what follows from it: sizes, look-up by name, gaps between planes.
#include "codec/format.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "codec/formats.h"

namespace flare::codec {
namespace {

constexpr size_t kMaxRank = 16;  // of contiguous_le_v1

// In the order of FormatId.
const std::array<Format, kFormats>& table() {
  static const std::array<Format, kFormats> rows = {
      bf16_format(),          fp32_format(),           int32_format(),
      fp16_format(),          q4_g64_format(),         q5_g64_format(),
      q6_g64_format(),        q8_g32_format(),         gguf_q4_0_format(),
      gguf_q8_0_format(),     gguf_q4_k_format(),      gguf_q6_k_format(),
      gguf_q4_1_format(),     gguf_q5_0_format(),      gguf_q5_1_format(),
      gguf_q2_0_format(),     gguf_q2_k_format(),      gguf_q3_k_format(),
      gguf_q5_k_format(),     gguf_iq4_nl_format(),    gguf_iq4_xs_format(),
      q2_g64_format(),        t2_g128_format(),        fp8_row_bf16_format(),
      fp8_row_fp16_format(),  nvfp4_format(),          gguf_iq2_xxs_format(),
      gguf_iq2_xs_format(),   gguf_iq3_xxs_format(),   gguf_iq1_s_format(),
      gguf_iq3_s_format(),    gguf_iq2_s_format(),     gguf_iq1_m_format(),
      mxfp4_format(),         mxfp8_format(),          fp8_g32_format(),
      fp8_g128_format(),      nvfp4_rows_format(),     q4_g32_bf16_format(),
      q4_g64_bf16_format(),   q4_g128_bf16_format(),   u4z4_g32_bf16_format(),
      u4z4_g64_bf16_format(), u4z4_g128_bf16_format(), u4z4_g32_fp16_format(),
      u4z4_g64_fp16_format(), u4z4_g128_fp16_format(), i8_g32_bf16_format(),
      i8_row_fp32_format(),   u8z8_g32_bf16_format(),  u8z8_g32_fp16_format(),
  };
  return rows;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const uint64_t dimension : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(dimension);
  }
  text += ']';
  return text;
}

void check_shape(const Format& format, const Shape& shape) {
  if (format.quantised && shape.size() != 2)
    throw Error(Code::kEncoding, "{}: shape {} has rank {}, 2 expected", format.name,
                shape_text(shape), shape.size());
  if (shape.size() > kMaxRank)
    throw Error(Code::kEncoding, "{}: shape has rank {}, at most {} expected", format.name,
                shape.size(), kMaxRank);
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end())
    throw Error(Code::kEncoding, "{}: shape {} has a zero, positive dimensions expected",
                format.name, shape_text(shape));
}

}  // namespace

Geometry geometry_of(const Shape& shape, uint64_t divisors) {
  if (shape.empty()) return {1, 1, divisors};
  const Shape leading(shape.begin(), shape.end() - 1);
  return {element_count(leading), shape.back(), divisors};
}

uint64_t element_count(const Shape& shape) {
  uint64_t count = 1;
  for (const uint64_t dimension : shape) count = checked_mul(count, dimension, "element count");
  return count;
}

std::span<const Format> all_formats() { return table(); }

const Format& format(FormatId id) {
  const auto index = static_cast<size_t>(id);
  FLARE_ASSERT(index < kFormats);
  return table()[index];
}

const Format* find_format(std::string_view name) {
  for (const Format& row : table())
    if (row.name == name) return &row;
  return nullptr;
}

const Format* find_format(std::string_view name, std::string_view layout_name) {
  for (const Format& row : table())
    if (row.name == name && row.layout_name == layout_name) return &row;
  return find_format(name);
}

uint64_t encoded_bytes(const Format& format, std::string_view layout_name, const Shape& shape,
                       uint64_t divisors) {
  if (layout_name != format.layout_name)
    throw Error(Code::kEncoding, "{}: layout {}, {} expected", format.name, quote(layout_name),
                format.layout_name);
  if (divisors != 1 && format.layout != LayoutId::kBlockScale)
    throw Error(Code::kEncoding, "{}: divisors {}, 1 expected", format.name, divisors);
  check_shape(format, shape);
  return format.planes(geometry_of(shape, divisors)).total_bytes;
}

void validate_gaps(const Format& format, Geometry g, Bytes object) {
  const Planes planes = format.planes(g);
  if (object.size() != planes.total_bytes)
    throw Error(Code::kEncoding, "{}: object has {} bytes, {} expected", format.name, object.size(),
                planes.total_bytes);
  for (int i = 0; i + 1 < planes.count; ++i) {
    const uint64_t end = planes.plane[i].offset + g.rows * planes.plane[i].row_bytes;
    for (uint64_t at = end; at < planes.plane[i + 1].offset; ++at)
      if (object[at] != std::byte{0})
        throw Error(Code::kValue, "offset {}: byte 0x{:02X} between planes, 0x00 expected", at,
                    std::to_integer<unsigned>(object[at]));
  }
}

}  // namespace flare::codec
