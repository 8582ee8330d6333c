// Every colour type, depth and order of a PNG, written here without a library, against the rules.
#include <gtest/gtest.h>

#include <random>

#include "frontend/media/media_golden.h"

namespace flare::media {
namespace {

constexpr int kGrey = 0, kRgb = 2, kPalette = 3, kGreyAlpha = 4, kRgba = 6;

struct Kind {
  int type;
  int depth;
  bool interlaced;
  bool transparent;  // has a tRNS chunk
};

int channels(int type) { return type == kRgb ? 3 : type == kGreyAlpha ? 2 : type == kRgba ? 4 : 1; }

// A picture as samples of its kind, with the chunks that belong to it.
struct Samples {
  Kind kind;
  uint32_t width, height;
  std::vector<uint32_t> values;                 // [height][width][channels]
  std::vector<std::array<uint8_t, 4>> palette;  // with alpha
  std::array<uint32_t, 3> key = {};             // the transparent colour

  const uint32_t* at(uint32_t x, uint32_t y) const {
    return values.data() + (size_t{y} * width + x) * channels(kind.type);
  }
};

Samples random_samples(const Kind& kind, uint32_t width, uint32_t height, std::mt19937& random) {
  Samples out{kind, width, height};
  const uint32_t n_values = 1u << kind.depth;
  if (kind.type == kPalette)
    for (uint32_t i = 0; i < n_values; ++i) {
      const auto byte = [&] { return static_cast<uint8_t>(random()); };
      out.palette.push_back({byte(), byte(), byte(), kind.transparent ? byte() : uint8_t{255}});
    }
  for (uint32_t i = 0; i < width * height * channels(kind.type); ++i)
    out.values.push_back(random() % n_values);
  // A colour that occurs is the transparent one; one more differs in the low bits alone.
  for (int c = 0; c < channels(kind.type) && c < 3; ++c) {
    out.key[c] = out.values[c];
    if (width > 1 && kind.depth == 16 && channels(kind.type) != 2)
      out.values[channels(kind.type) + c] = out.values[c] ^ 1;
  }
  return out;
}

// Rows of the pixels x0, x0 + dx, … of rows y0, y0 + dy, …, each behind its filter byte 0.
std::string packed(const Samples& samples, uint32_t x0, uint32_t y0, uint32_t dx, uint32_t dy) {
  std::string out;
  for (uint32_t y = y0; y < samples.height && x0 < samples.width; y += dy) {
    out += '\0';
    int n_bits = 0;
    for (uint32_t x = x0; x < samples.width; x += dx)
      for (int c = 0; c < channels(samples.kind.type); ++c)
        for (int bit = samples.kind.depth - 1; bit >= 0; --bit, ++n_bits) {
          if (n_bits % 8 == 0) out += '\0';
          const uint32_t set = samples.at(x, y)[c] >> bit & 1;
          out.back() = static_cast<char>(out.back() | set << (7 - n_bits % 8));
        }
  }
  return out;
}

// RFC 1950 and 1951: one stored block.
std::string stored_zlib(const std::string& data) {
  uint32_t a = 1, b = 0;
  for (const char c : data) {
    a = (a + static_cast<uint8_t>(c)) % 65521;
    b = (b + a) % 65521;
  }
  const auto n = static_cast<uint16_t>(data.size());
  std::string out("\x78\x01\x01", 3);
  for (const uint32_t word : {uint32_t{n}, uint32_t{n} ^ 0xffff})
    out += {static_cast<char>(word), static_cast<char>(word >> 8)};
  return out + data + golden::big_endian(b << 16 | a);
}

std::string png_of(const Samples& samples) {
  const Kind& kind = samples.kind;
  std::string out = std::string(kPngSignature);
  std::string header = golden::big_endian(samples.width) + golden::big_endian(samples.height);
  header += {static_cast<char>(kind.depth), static_cast<char>(kind.type), '\0', '\0',
             static_cast<char>(kind.interlaced)};
  out += golden::png_chunk("IHDR", header);
  std::string colours, alphas;
  for (const auto& colour : samples.palette) {
    for (int c = 0; c < 3; ++c) colours += static_cast<char>(colour[c]);
    alphas += static_cast<char>(colour[3]);
  }
  if (kind.type == kPalette) out += golden::png_chunk("PLTE", colours);
  if (kind.transparent) {
    for (int c = 0; kind.type != kPalette && c < channels(kind.type); ++c)
      alphas += golden::big_endian(samples.key[c]).substr(2);
    out += golden::png_chunk("tRNS", alphas);
  }
  std::string data;
  if (kind.interlaced) {
    // Adam7 (PNG 1.2 §2.6).
    constexpr uint32_t passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                       {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
    for (const auto& [x0, y0, dx, dy] : passes) data += packed(samples, x0, y0, dx, dy);
  } else {
    data = packed(samples, 0, 0, 1, 1);
  }
  return out + golden::png_chunk("IDAT", stored_zlib(data)) + golden::png_chunk("IEND", "");
}

// Red, green, blue, alpha of one pixel by serving.md S11.4, then over white. The transparent colour
// is a stored sample, of any depth (PNG 1.2 §4.2.1.1), unlike in Pillow.
std::array<uint8_t, 3> expected(const Samples& samples, const uint32_t* pixel) {
  const Kind& kind = samples.kind;
  const auto byte = [&](uint32_t value) {
    return kind.depth == 16 ? value >> 8 : value * 255 / ((1u << kind.depth) - 1);
  };
  std::array<uint32_t, 4> rgba;
  const bool is_grey = kind.type == kGrey || kind.type == kGreyAlpha;
  for (int c = 0; c < 3; ++c)
    rgba[c] = kind.type == kPalette ? samples.palette[pixel[0]][c] : byte(pixel[is_grey ? 0 : c]);
  rgba[3] = 255;
  if (kind.type == kPalette) rgba[3] = samples.palette[pixel[0]][3];
  if (kind.type == kGreyAlpha) rgba[3] = byte(pixel[1]);
  if (kind.type == kRgba) rgba[3] = byte(pixel[3]);
  if (kind.transparent && kind.type != kPalette &&
      std::equal(pixel, pixel + channels(kind.type), samples.key.begin()))
    rgba[3] = 0;
  std::array<uint8_t, 3> out;
  for (int c = 0; c < 3; ++c)
    out[c] = static_cast<uint8_t>((rgba[c] * rgba[3] + 255 * (255 - rgba[3])) / 255.0 + 0.5);
  return out;
}

TEST(PngKinds, EveryColourTypeDepthAndOrderFollowsTheRules) {
  std::mt19937 random(5);
  int n_kinds = 0;
  for (const int type : {kGrey, kRgb, kPalette, kGreyAlpha, kRgba})
    for (const int depth : {1, 2, 4, 8, 16}) {
      const bool is_legal = type == kGrey || (type == kPalette ? depth <= 8 : depth >= 8);
      if (!is_legal) continue;
      for (int variant = 0; variant < 4; ++variant) {
        const Kind kind{type, depth, (variant & 1) != 0, (variant & 2) != 0};
        if (kind.transparent && (type == kGreyAlpha || type == kRgba)) continue;
        ++n_kinds;
        for (const auto& [width, height] :
             {std::pair{1u, 1u}, {3u, 2u}, {8u, 8u}, {13u, 11u}, {1u, 9u}, {17u, 1u}}) {
          const Samples samples = random_samples(kind, width, height, random);
          std::vector<uint8_t> want;
          for (uint32_t y = 0; y < height; ++y)
            for (uint32_t x = 0; x < width; ++x)
              for (const uint8_t value : expected(samples, samples.at(x, y))) want.push_back(value);
          const Image got = decode_image(as_bytes(png_of(samples)));
          EXPECT_EQ(got.rgb, want) << "type " << type << ", depth " << depth << ", variant "
                                   << variant << ", " << width << " × " << height;
        }
      }
    }
  EXPECT_EQ(n_kinds, 52);
}

}  // namespace
}  // namespace flare::media
