// int32: two's complement words, encoded from integers only (artifact.md §8.1).
#include <cmath>

#include "codec/contiguous.h"
#include "codec/formats.h"

namespace flare::codec {
namespace {

struct Int32 {
  using Word = int32_t;
  static constexpr FormatId kId = FormatId::kInt32;
  static constexpr std::string_view kName = "int32";
  static constexpr std::string_view kExpectation = "an integer in [−2^31, 2^31)";
  static float widen(Word word) { return static_cast<float>(word); }
  static bool narrow(float value, Word* word) {
    const bool fits = value >= -0x1p31f && value < 0x1p31f && std::trunc(value) == value;
    *word = fits ? static_cast<int32_t>(value) : 0;
    return fits;
  }
};

}  // namespace

Format int32_format() { return Contiguous<Int32>::format(); }

}  // namespace flare::codec
