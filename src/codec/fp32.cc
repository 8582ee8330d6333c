// fp32: IEEE binary32 words.
#include "codec/contiguous.h"
#include "codec/formats.h"

namespace flare::codec {
namespace {

struct Fp32 {
  using Word = uint32_t;
  static constexpr FormatId kId = FormatId::kFp32;
  static constexpr std::string_view kName = "fp32";
  static constexpr std::string_view kExpectation = "a finite value";
  static float widen(Word word) { return std::bit_cast<float>(word); }
  static bool narrow(float value, Word* word) {
    *word = std::bit_cast<uint32_t>(value);
    return (*word & 0x7f800000u) != 0x7f800000u;
  }
};

}  // namespace

Format fp32_format() { return Contiguous<Fp32>::format(); }

}  // namespace flare::codec
