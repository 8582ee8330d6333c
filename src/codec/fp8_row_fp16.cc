// fp8_e4m3fn_row_fp16: fp8 codes, an fp16 scale a row, which stands behind the row's codes.
#include "codec/formats.h"
#include "codec/fp8_row.h"

namespace flare::codec {
namespace {

struct Fp8RowFp16 {
  static constexpr FormatId kId = FormatId::kFp8RowFp16;
  static constexpr std::string_view kName = "fp8_e4m3fn_row_fp16";
  static constexpr LayoutId kLayout = LayoutId::kRowInterleaved;
  static constexpr std::string_view kLayoutName = "row_interleaved_v1";
  static float widen(uint16_t word) { return fp16_to_f32(word); }
  static uint16_t narrow(float value) { return f32_to_fp16(value); }

  static Planes planes(Geometry g) {
    Planes out;
    out.count = 1;
    out.plane[0] = {0, checked_add(g.cols, 2, "row size")};
    out.total_bytes = checked_mul(g.rows, out.plane[0].row_bytes, "object size");
    return out;
  }
  static uint64_t scale_offset(const Planes& p, Geometry g, uint64_t row) {
    return row * p.plane[0].row_bytes + g.cols;
  }
  static std::byte* scale_place(const Planes& p, Geometry g, std::byte* const* dst, uint64_t row) {
    return dst[0] + row * p.plane[0].row_bytes + g.cols;
  }
};

}  // namespace

Format fp8_row_fp16_format() { return Fp8Row<Fp8RowFp16>::format(); }

}  // namespace flare::codec
