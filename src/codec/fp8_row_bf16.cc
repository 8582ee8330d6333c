// fp8_e4m3fn_row_bf16: fp8 codes, a bf16 scale a row, the scales behind all codes.
#include "codec/formats.h"
#include "codec/fp8_row.h"

namespace flare::codec {
namespace {

constexpr uint64_t kPlaneAlignment = 256;

struct Fp8RowBf16 {
  static constexpr FormatId kId = FormatId::kFp8RowBf16;
  static constexpr std::string_view kName = "fp8_e4m3fn_row_bf16";
  static constexpr LayoutId kLayout = LayoutId::kRowScale;
  static constexpr std::string_view kLayoutName = "row_scale_v1";
  static float widen(uint16_t word) { return bf16_to_f32(word); }
  static uint16_t narrow(float value) { return f32_to_bf16(value); }

  static Planes planes(Geometry g) {
    Planes out;
    out.count = 2;
    out.plane[0] = {0, g.cols};
    const uint64_t codes = checked_mul(g.rows, g.cols, "object size");
    out.plane[1] = {checked_align_up(codes, kPlaneAlignment, "object size"), 2};
    out.total_bytes =
        checked_add(out.plane[1].offset, checked_mul(g.rows, 2, "plane size"), "object size");
    return out;
  }
  static uint64_t scale_offset(const Planes& p, Geometry, uint64_t row) {
    return p.plane[1].offset + 2 * row;
  }
  static std::byte* scale_place(const Planes&, Geometry, std::byte* const* dst, uint64_t row) {
    return dst[1] + 2 * row;
  }
};

}  // namespace

Format fp8_row_bf16_format() { return Fp8Row<Fp8RowBf16>::format(); }

}  // namespace flare::codec
