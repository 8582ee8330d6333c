// bf16: the upper half of a binary32 word (artifact.md §6.2).
#include "base/float_types.h"
#include "codec/contiguous.h"
#include "codec/formats.h"

namespace flare::codec {
namespace {

struct Bf16 {
  using Word = uint16_t;
  static constexpr FormatId kId = FormatId::kBf16;
  static constexpr std::string_view kName = "bf16";
  static constexpr std::string_view kExpectation = "a magnitude that rounds to a finite bf16";
  static float widen(Word word) { return bf16_to_f32(word); }
  static bool narrow(float value, Word* word) {
    *word = f32_to_bf16(value);
    return (*word & 0x7f80u) != 0x7f80u;
  }
};

}  // namespace

Format bf16_format() { return Contiguous<Bf16>::format(); }

}  // namespace flare::codec
