// Base64 and data URLs: RFC 4648, loose and broken texts.
#include <gtest/gtest.h>

#include <random>

#include "frontend/media/media.h"
#include "frontend/media/media_golden.h"

namespace flare::media {
namespace {

using golden::message_of;
using golden::outcome;

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// RFC 4648 §4, bit by bit.
std::string encoded(std::string_view bytes) {
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<uint8_t>(c);
    n_bits += 8;
    for (; n_bits >= 6; n_bits -= 6) out += kAlphabet[bits >> (n_bits - 6) & 63];
  }
  if (n_bits > 0) out += kAlphabet[bits << (6 - n_bits) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

std::string decoded(std::string_view text, uint64_t max_bytes = 1 << 20) {
  const std::vector<std::byte> bytes = decode_base64(text, max_bytes);
  return std::string(as_text(bytes));
}

std::string random_bytes(size_t n, std::mt19937& random) {
  std::string out(n, 0);
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

TEST(Base64, DecodesTheVectorsOfTheStandard) {
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(decoded("Zm9vYmE="), "fooba");
  EXPECT_EQ(decoded("Zm9vYmFy"), "foobar");
}

TEST(Base64, DecodesEveryLengthWithAndWithoutPaddingAndWhiteSpace) {
  std::mt19937 random(1);
  for (size_t n = 1; n < 200; ++n) {
    const std::string bytes = random_bytes(n, random);
    const std::string text = encoded(bytes);
    EXPECT_EQ(decoded(text), bytes) << n;
    const std::string bare = text.substr(0, text.find('='));
    EXPECT_EQ(decoded(bare), bytes) << n;
    std::string spaced;
    for (const char c : text) {
      while (random() % 4 == 0) spaced += " \t\r\n\f\v"[random() % 6];
      spaced += c;
    }
    EXPECT_EQ(decoded(spaced + "\n"), bytes) << n;
    std::string lines;
    for (size_t at = 0; at < text.size(); at += 76) lines += text.substr(at, 76) + "\r\n";
    EXPECT_EQ(decoded(lines), bytes) << n;
  }
}

TEST(Base64, JudgesEveryCharacterAtEveryPlaceOfABlock) {
  const std::string front(32, 'A');
  for (int c = 0; c < 256; ++c) {
    const auto character = static_cast<char>(c);
    const bool is_legal = kAlphabet.find(character) != std::string_view::npos;
    const bool is_space = std::string_view(" \t\r\n\f\v").find(character) != std::string_view::npos;
    for (size_t place = 0; place < 16; ++place) {
      std::string text = front;
      text[place] = character;
      const bool is_good = is_legal || is_space;
      EXPECT_EQ(outcome([&] { decode_base64(text); }), is_good ? "ok" : "invalid_image")
          << c << " at " << place;
      if (is_legal) {
        EXPECT_EQ(encoded(decoded(text)).substr(0, 32), text);
      }
    }
  }
}

TEST(Base64, RefusesJunkAndCutTexts) {
  for (const char* text : {"", "   ", "=", "====", "A", "AAAAA", "AAAA=", "AA===", "AAA==", "AA=A",
                           "AA==AA==", "AAA*", "Zm9v%3D", "Zm-_", "caf\xc3\xa9"})
    EXPECT_EQ(outcome([&] { decode_base64(text); }), "invalid_image") << text;
  EXPECT_EQ(message_of([] { decode_base64("AAAA\nA%AA"); }),
            "base64: byte 6 is 0x25, expected A-Z a-z 0-9 + / =");
}

TEST(Base64, StopsAtTheLimit) {
  std::mt19937 random(2);
  for (const uint64_t limit : {1, 11, 12, 13, 24, 100}) {
    const std::string fits = random_bytes(limit, random), over = random_bytes(limit + 1, random);
    EXPECT_EQ(decoded(encoded(fits), limit), fits);
    EXPECT_EQ(outcome([&] { decode_base64(encoded(over), limit); }), "image_too_large");
    EXPECT_EQ(outcome([&] { decode_base64(std::string(1 << 16, 'A'), limit); }), "image_too_large");
    EXPECT_EQ(decoded(encoded(fits), UINT64_MAX), fits);
  }
}

TEST(DataUrl, TakesWhatClientsWrite) {
  for (const std::string front :
       {"data:image/png;base64,", "data:;base64,", "DATA:image/jpeg;BASE64,",
        "  data:image/png;base64,", "data:image/svg+xml;charset=utf-8;base64,",
        "data:image/png; base64 ,", ""}) {
    const auto bytes = parse_data_url(front + "Zm9v YmFy\n");
    EXPECT_EQ(as_text(bytes), "foobar") << front;
  }
}

TEST(DataUrl, NamesWhatIsWrong) {
  for (const char* url :
       {"http://127.0.0.1/a.png", "https://example.com/a.png?key=secret", "file:///etc/passwd",
        "ftp://h/x", "//example.com/a.png", "blob:x", "s3+x://b"}) {
    EXPECT_EQ(outcome([&] { parse_data_url(url); }), "remote_image_not_allowed") << url;
    EXPECT_EQ(message_of([&] { parse_data_url(url); }).find("secret"), std::string::npos);
  }
  for (const char* url : {"", "data:", "data:image/png;base64", "data:image/png,Zm9v",
                          "data:image/png;base64,", "data:base64,Zm9v", "data:;base64,%41%41"})
    EXPECT_EQ(outcome([&] { parse_data_url(url); }), "invalid_image") << url;
}

}  // namespace
}  // namespace flare::media
