// Integer codes as AWQ, GPTQ and compressed-tensors store them: symmetric ones under bf16 and fp32
// scales, and unsigned ones around zero points.
#include "codec/formats.h"
#include "codec/row_blocks.h"

namespace flare::codec {
namespace {

template <FormatId kFormat, typename E, typename S, uint64_t kColumns>
struct Integers {
  static constexpr FormatId kId = kFormat;
  using Element = E;
  using Scale = S;
  static constexpr uint64_t kGroup = kColumns;
  static constexpr bool kRowDivisor = false;
};

using U4 = ZeroPointElement<4>;
using U8 = ZeroPointElement<8>;

struct Q4G32Bf16 : Integers<FormatId::kQ4G32Bf16, Signed4Element, Bf16Scale, 32> {
  static constexpr std::string_view kName = "q4_g32_bf16";
};
struct Q4G64Bf16 : Integers<FormatId::kQ4G64Bf16, Signed4Element, Bf16Scale, 64> {
  static constexpr std::string_view kName = "q4_g64_bf16";
};
struct Q4G128Bf16 : Integers<FormatId::kQ4G128Bf16, Signed4Element, Bf16Scale, 128> {
  static constexpr std::string_view kName = "q4_g128_bf16";
};
struct U4G32Bf16 : Integers<FormatId::kU4G32Bf16, U4, Bf16Scale, 32> {
  static constexpr std::string_view kName = "u4z4_g32_bf16";
};
struct U4G64Bf16 : Integers<FormatId::kU4G64Bf16, U4, Bf16Scale, 64> {
  static constexpr std::string_view kName = "u4z4_g64_bf16";
};
struct U4G128Bf16 : Integers<FormatId::kU4G128Bf16, U4, Bf16Scale, 128> {
  static constexpr std::string_view kName = "u4z4_g128_bf16";
};
struct U4G32Fp16 : Integers<FormatId::kU4G32Fp16, U4, Fp16Scale, 32> {
  static constexpr std::string_view kName = "u4z4_g32_fp16";
};
struct U4G64Fp16 : Integers<FormatId::kU4G64Fp16, U4, Fp16Scale, 64> {
  static constexpr std::string_view kName = "u4z4_g64_fp16";
};
struct U4G128Fp16 : Integers<FormatId::kU4G128Fp16, U4, Fp16Scale, 128> {
  static constexpr std::string_view kName = "u4z4_g128_fp16";
};
struct I8G32Bf16 : Integers<FormatId::kI8G32Bf16, Signed8Element, Bf16Scale, 32> {
  static constexpr std::string_view kName = "i8_g32_bf16";
};
struct I8RowFp32 : Integers<FormatId::kI8RowFp32, Signed8Element, Fp32Scale, 0> {
  static constexpr std::string_view kName = "i8_row_fp32";
};
struct U8G32Bf16 : Integers<FormatId::kU8G32Bf16, U8, Bf16Scale, 32> {
  static constexpr std::string_view kName = "u8z8_g32_bf16";
};
struct U8G32Fp16 : Integers<FormatId::kU8G32Fp16, U8, Fp16Scale, 32> {
  static constexpr std::string_view kName = "u8z8_g32_fp16";
};

}  // namespace

Format q4_g32_bf16_format() { return RowBlocks<Q4G32Bf16>::format(); }
Format q4_g64_bf16_format() { return RowBlocks<Q4G64Bf16>::format(); }
Format q4_g128_bf16_format() { return RowBlocks<Q4G128Bf16>::format(); }
Format u4z4_g32_bf16_format() { return RowBlocks<U4G32Bf16>::format(); }
Format u4z4_g64_bf16_format() { return RowBlocks<U4G64Bf16>::format(); }
Format u4z4_g128_bf16_format() { return RowBlocks<U4G128Bf16>::format(); }
Format u4z4_g32_fp16_format() { return RowBlocks<U4G32Fp16>::format(); }
Format u4z4_g64_fp16_format() { return RowBlocks<U4G64Fp16>::format(); }
Format u4z4_g128_fp16_format() { return RowBlocks<U4G128Fp16>::format(); }
Format i8_g32_bf16_format() { return RowBlocks<I8G32Bf16>::format(); }
Format i8_row_fp32_format() { return RowBlocks<I8RowFp32>::format(); }
Format u8z8_g32_bf16_format() { return RowBlocks<U8G32Bf16>::format(); }
Format u8z8_g32_fp16_format() { return RowBlocks<U8G32Fp16>::format(); }

}  // namespace flare::codec
