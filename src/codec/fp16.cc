// fp16: IEEE binary16 words, subnormals included (artifact.md §6.2).
#include "base/float_types.h"
#include "codec/contiguous.h"
#include "codec/formats.h"

namespace flare::codec {
namespace {

struct Fp16 {
  using Word = uint16_t;
  static constexpr FormatId kId = FormatId::kFp16;
  static constexpr std::string_view kName = "fp16";
  static constexpr std::string_view kExpectation = "a magnitude below 65520";
  static float widen(Word word) { return fp16_to_f32(word); }
  static bool narrow(float value, Word* word) {
    *word = f32_to_fp16(value);
    return (*word & 0x7c00u) != 0x7c00u;
  }
};

}  // namespace

Format fp16_format() { return Contiguous<Fp16>::format(); }

}  // namespace flare::codec
