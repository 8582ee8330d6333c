// Base64 and data URLs, as loose as clients write them.
#include <tmmintrin.h>

#include <algorithm>

#include "frontend/media/media.h"

namespace flare::media {
namespace {

constexpr uint8_t kSpace = 64, kPad = 65, kJunk = 66;

// A character's six bits, or what else it is.
constexpr std::array<uint8_t, 256> kSextets = [] {
  std::array<uint8_t, 256> out{};
  out.fill(kJunk);
  constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < alphabet.size(); ++i)
    out[static_cast<uint8_t>(alphabet[i])] = static_cast<uint8_t>(i);
  for (const char space : {' ', '\t', '\n', '\r', '\f', '\v'})
    out[static_cast<uint8_t>(space)] = kSpace;
  out['='] = kPad;
  return out;
}();

uint8_t sextet(char c) { return kSextets[static_cast<uint8_t>(c)]; }

// 16 characters of the alphabet to 12 bytes (16 are written); false if one is no such character.
// W. Muła, D. Lemire, "Faster Base64 Encoding and Decoding Using AVX2 Instructions" (2018): two
// tables by the nibbles of a character have a common bit where it is illegal, a third holds what to
// add to it.
bool decode_16(const char* in, std::byte* out) {
  const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
  const __m128i slash = _mm_set1_epi8(0x2f);
  const __m128i high = _mm_and_si128(_mm_srli_epi32(text, 4), slash);
  const __m128i low = _mm_and_si128(text, slash);
  const __m128i illegal_low =
      _mm_shuffle_epi8(_mm_setr_epi8(0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
                                     0x13, 0x1a, 0x1b, 0x1b, 0x1b, 0x1a),
                       low);
  const __m128i illegal_high =
      _mm_shuffle_epi8(_mm_setr_epi8(0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10,
                                     0x10, 0x10, 0x10, 0x10, 0x10, 0x10),
                       high);
  const __m128i illegal =
      _mm_cmpgt_epi8(_mm_and_si128(illegal_low, illegal_high), _mm_setzero_si128());
  if (_mm_movemask_epi8(illegal) != 0) return false;
  const __m128i offset =
      _mm_shuffle_epi8(_mm_setr_epi8(0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0),
                       _mm_add_epi8(_mm_cmpeq_epi8(text, slash), high));
  const __m128i pairs = _mm_maddubs_epi16(_mm_add_epi8(text, offset), _mm_set1_epi32(0x01400140));
  const __m128i words = _mm_madd_epi16(pairs, _mm_set1_epi32(0x00011000));
  const __m128i bytes = _mm_shuffle_epi8(
      words, _mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
  return true;
}

// What follows the first '=' at `at`, behind `n_sextets` characters of a group of four.
void check_padding(std::string_view text, size_t at, int n_sextets) {
  int n_pads = 0;
  for (; at < text.size(); ++at) {
    const uint8_t kind = sextet(text[at]);
    if (kind == kSpace) continue;
    if (kind != kPad)
      throw ImageError(Fault::kInvalid, "base64: byte {} follows the padding, expected the end",
                       at);
    ++n_pads;
  }
  const int allowed = n_sextets < 2 ? 0 : 4 - n_sextets;
  if (n_pads > allowed)
    throw ImageError(Fault::kInvalid, "base64: {} padding characters where at most {} may stand",
                     n_pads, allowed);
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(
      text, lower, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && sextet(text.front()) == kSpace) text.remove_prefix(1);
  while (!text.empty() && sextet(text.back()) == kSpace) text.remove_suffix(1);
  return text;
}

// The scheme in front of a ':' (RFC 3986 §3.1), or nothing.
std::string_view scheme_of(std::string_view url) {
  const auto is_letter = [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; };
  size_t at = 0;
  while (at < url.size() &&
         (is_letter(url[at]) ||
          (at > 0 && std::string_view("0123456789+-.").find(url[at]) != std::string_view::npos)))
    ++at;
  return at > 0 && at < url.size() && url[at] == ':' ? url.substr(0, at) : std::string_view();
}

}  // namespace

std::vector<std::byte> decode_base64(std::string_view text, uint64_t max_bytes) {
  // Room for what may come, one block that begins within the limit, and the ends of its store.
  std::vector<std::byte> out(std::min<uint64_t>(text.size() / 4 * 3 + 3, max_bytes) + 12 + 16);
  size_t at = 0, written = 0;
  uint32_t bits = 0;
  int n_sextets = 0;
  const auto check_limit = [&] {
    if (written > max_bytes)
      throw ImageError(Fault::kTooLarge, "image: more than {} bytes, expected at most that many",
                       max_bytes);
  };
  for (; at < text.size(); ++at) {
    if (n_sextets == 0) {
      while (text.size() - at >= 16 && decode_16(text.data() + at, out.data() + written)) {
        at += 16;
        written += 12;
        check_limit();
      }
      if (at == text.size()) break;
    }
    const uint8_t value = sextet(text[at]);
    if (value == kSpace) continue;
    if (value == kPad) break;
    if (value == kJunk)
      throw ImageError(Fault::kInvalid,
                       "base64: byte {} is 0x{:02x}, expected A-Z a-z 0-9 + / =", at,
                       static_cast<uint8_t>(text[at]));
    bits = bits << 6 | value;
    if (++n_sextets < 4) continue;
    for (const int shift : {16, 8, 0}) out[written++] = static_cast<std::byte>(bits >> shift);
    n_sextets = 0;
    check_limit();
  }
  check_padding(text, at, n_sextets);
  if (n_sextets == 1)
    throw ImageError(Fault::kInvalid, "base64: cut off, its last character is half a byte");
  if (n_sextets >= 2) out[written++] = static_cast<std::byte>(bits >> (n_sextets * 6 - 8));
  if (n_sextets == 3) out[written++] = static_cast<std::byte>(bits >> 2);
  check_limit();
  if (written == 0) throw ImageError(Fault::kInvalid, "image: no bytes, expected a picture");
  out.resize(written);
  return out;
}

std::vector<std::byte> parse_data_url(std::string_view url, uint64_t max_bytes) {
  url = trimmed(url);
  const std::string_view scheme = scheme_of(url);
  if (scheme.empty() && !url.starts_with("//")) return decode_base64(url, max_bytes);
  if (!equals_ignoring_case(scheme, "data"))
    throw ImageError(Fault::kRemote,
                     "image: URL of scheme {}, expected data: (pictures are never fetched)",
                     quote(scheme));
  url.remove_prefix(scheme.size() + 1);
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos)
    throw ImageError(Fault::kInvalid, "data URL: no comma, expected data:image/…;base64,…");
  const std::string_view media_type = url.substr(0, comma);
  const size_t last = media_type.rfind(';');
  if (last == std::string_view::npos ||
      !equals_ignoring_case(trimmed(media_type.substr(last + 1)), "base64"))
    throw ImageError(Fault::kInvalid,
                     "data URL: not base64, expected ;base64 in front of the comma");
  return decode_base64(url.substr(comma + 1), max_bytes);
}

}  // namespace flare::media
