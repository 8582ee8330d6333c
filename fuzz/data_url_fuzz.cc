// Fuzz target of data URLs: base64 decodes as the standard's bit by bit reading, or is refused.
#include <cstdint>
#include <string>
#include <string_view>

#include "frontend/media/media.h"
#include "require.h"

namespace {

using namespace flare::media;

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Bytes of the characters of the alphabet up to the first '=', everything else left out.
std::string plainly_decoded(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) continue;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits >= 8) out += static_cast<char>(bits >> (n_bits -= 8));
  }
  return out;
}

bool is_loose_base64(std::string_view text) {
  return text.find_first_not_of(std::string(kAlphabet) + "= \t\r\n\f\v") == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const uint64_t limit = size == 0 ? 1 : 1 + data[0] * 4;
  try {
    const auto bytes = decode_base64(text, limit);
    require(bytes.size() <= limit && is_loose_base64(text));
    require(flare::as_text(bytes) == plainly_decoded(text));
  } catch (const ImageError& error) {
    require(error.fault() == Fault::kInvalid || error.fault() == Fault::kTooLarge);
  }
  try {
    parse_data_url(text, limit);
  } catch (const ImageError& error) {
    require(error.fault() != Fault::kUnsupported);
  }
  return 0;
}
