// Decoding against Pillow, limits, hostile files, and the public cases of images.
#include "frontend/media/media.h"

#include <gtest/gtest.h>

#include <random>

#include "base/case_sample_fixture.h"
#include "frontend/media/media_golden.h"

namespace flare::media {
namespace {

using golden::image_file;
using golden::message_of;
using golden::outcome;
using golden::png_front;

std::string bytes_of(std::string_view base64) {
  const auto bytes = decode_base64(base64);
  return std::string(as_text(bytes));
}
std::string hex_of(const Image& image) { return to_hex(std::as_bytes(std::span(image.rgb))); }
Image decode(const std::string& file, const ImageLimits& limits = {}) {
  return decode_image(as_bytes(file), limits);
}
ImageHeader header_of(const std::string& file, const ImageLimits& limits = {}) {
  return read_image_header(as_bytes(file), limits);
}

// Made by Pillow 12.3.0: a red and a blue pixel (JPEG, 4:4:4), read back as fe0000 and 0000fe.
constexpr std::string_view kRedBlueJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
    "AQEBAQEBAQEBAQEBAQEBAQEBAQH/2wBDAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
    "AQEBAQEBAQEBAQEBAQEBAQEBAQH/wAARCAABAAIDAREAAhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAACv/EABoQAAEF"
    "AQAAAAAAAAAAAAAAAAYABAc2drX/xAAVAQEBAAAAAAAAAAAAAAAAAAAFCv/EABoRAAEFAQAAAAAAAAAAAAAAAAgABjh4"
    "twf/2gAMAwEAAhEDEQA/ACLSDfjfXkvaeq04E4QhvVUecjaCLM2YJXWU7pqDpX//2Q==";
// Three by two pixels with orientation 1 in an EXIF block behind "MM" whose value is at the mark.
constexpr std::string_view kExifPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZNTQAqAAAACAABARIAAwAAAAEABgAAAAAAANZnS2"
    "kA"
    "AAAYSURBVHicY2T4z6Bxg0vjBhdLRYcchAUAP1QGS+eHiIcAAAAASUVORK5CYII=";
constexpr std::string_view kExifWebp =
    "UklGRmYAAABXRUJQVlA4WAoAAAAIAAAAAgAAAQAAVlA4TCUAAAAvAkAAAC+"
    "gkG0EyN9wNrtHYlBGYf5TskNN2wZsqPMvp0b0"
    "P6YXAEVYSUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAA=";
constexpr std::string_view kAnimatedPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAACGFjVEwAAAACAAAAAPONk3AAAAAaZmNUTAAAAAAAAAACAA"
    "AA"
    "AgAAAAAAAAAAAAEACgAA6FTcAAAAABZJREFUeJxj/M/"
    "AwMDAwMTAwMDAwAAADR0BA2rCm+kAAAAaZmNUTAAAAAEAAAACAAAA"
    "AgAAAAAAAAAAAAEACgAAcyc21AAAABpmZEFUAAAAAnicY2Rg+M/AwMDEwMDAwMAAAAsfAQM5oA0PAAAAAElFTkSuQmCC";

// The JPEG with this EXIF block in front of everything else.
std::string with_exif(const std::string& jpeg, const std::string& block) {
  const std::string payload = std::string("Exif\0\0", 6) + block;
  std::string out = jpeg;
  const std::string length = golden::big_endian(static_cast<uint32_t>(payload.size() + 2));
  return out.insert(2, "\xff\xe1" + length.substr(2) + payload);
}

TEST(Decode, EqualsPillowOrRefusesByTheRightCode) {
  SKIP_WITHOUT_GOLDENS();
  int n_files = 0;
  for (const Json& row : golden::rows("decode.jsonl")) {
    const std::string& name = row.at("file").as_string();
    const std::string file = image_file(name);
    ++n_files;
    EXPECT_EQ(outcome([&] { decode(file); }), row.at("policy").as_string()) << name;
    if (row.at("policy").as_string() != "ok") continue;
    const Image image = decode(file);
    const ImageHeader header = header_of(file);
    EXPECT_EQ(image.width, row.at("width").as_u64()) << name;
    EXPECT_EQ(image.height, row.at("height").as_u64()) << name;
    EXPECT_EQ(header.width, image.width) << name;
    EXPECT_EQ(header.height, image.height) << name;
    EXPECT_EQ(golden::digest(image), row.at("rgb_sha256").as_string()) << name;
  }
  EXPECT_EQ(n_files, 58);
}

TEST(Decode, ReadsTheOrientationOfPngAndWebpToo) {
  // Pillow's exif_transpose of the same files.
  constexpr std::string_view want = "78871e00ff00a05f2828d70ac8373250af14";
  for (const std::string_view text : {kExifPng, kExifWebp}) {
    const Image image = decode(bytes_of(text));
    EXPECT_EQ(image.width, 2u);
    EXPECT_EQ(image.height, 3u);
    EXPECT_EQ(hex_of(image), want);
  }
}

TEST(Decode, NamesForeignFormats) {
  const std::string heic(
      "\0\0\0\x18"
      "ftypheic\0\0\0\0mif1heic",
      24);
  const std::string heif_of_avif(
      "\0\0\0\x1c"
      "ftypmif1\0\0\0\0mif1avifmiaf",
      28);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"GIF89a....", "GIF"},
      {"BM......", "BMP"},
      {std::string("II*\0....", 8), "TIFF"},
      {std::string("MM\0*....", 8), "TIFF"},
      {"%PDF-1.7 ", "PDF"},
      {heic, "HEIC"},
      {heif_of_avif, "AVIF"},
      {std::string("\0\0\0\x14"
                   "ftypmif1\0\0\0\0mif1",
                   20),
       "HEIF"},
      {std::string("\0\0\0\x14"
                   "ftypisom\0\0\0\0isom",
                   20),
       "ISO media"},
      {std::string("\0\0\0\x0cJXL \r\n\x87\n", 12), "JPEG XL"},
      {"\xff\x0a..", "JPEG XL"},
      {std::string("\0\0\0\x0cjP  \r\n\x87\n", 12), "JPEG 2000"},
      {"8BPS....", "PSD"},
      {"<svg width='1'/>", "SVG"},
      {"\xef\xbb\xbf <?xml version='1.0'?>\n<!-- > --><!DOCTYPE svg>\n<svg/>", "SVG"}};
  for (const auto& [file, name] : files) {
    EXPECT_EQ(outcome([&] { decode(file); }), "unsupported_image_format") << name;
    EXPECT_EQ(message_of([&] { decode(file); }),
              "image: format " + name + ", expected PNG, JPEG or static WebP");
  }
  for (const char* file : {"", "x", "\xff\xd8", "RIFF....WAVE", "<html></html>", "<?xml <a>",
                           "<!--", "RIFF\1\0\0\0WEBP"})
    EXPECT_EQ(outcome([&] { decode(file); }), "invalid_image") << file;
}

TEST(ImageLimits, AreJudgedFromTheHeaderAtTheirEdges) {
  const auto judged = [](uint32_t width, uint32_t height, double ratio = 0) {
    return outcome([&] { header_of(png_front(width, height), {.max_aspect_ratio = ratio}); });
  };
  EXPECT_EQ(judged(16384, 1), "ok");
  EXPECT_EQ(judged(16385, 1), "image_too_large");
  EXPECT_EQ(judged(1, 16385), "image_too_large");
  EXPECT_EQ(judged(8000, 8000), "ok");
  EXPECT_EQ(judged(8001, 8000), "image_too_large");
  EXPECT_EQ(judged(0, 5), "invalid_image");
  EXPECT_EQ(judged(5, 0), "invalid_image");
  EXPECT_EQ(judged(0xffffffff, 0xffffffff), "image_too_large");
  EXPECT_EQ(judged(200, 1, 200), "ok");
  EXPECT_EQ(judged(1, 201, 200), "image_too_large");
  EXPECT_EQ(message_of([] { header_of(png_front(20000, 20000)); }),
            "image: 20000 × 20000 pixels, expected sides of at most 16384");
  EXPECT_EQ(message_of([] { header_of(png_front(9000, 9000)); }),
            "image: 9000 × 9000 = 81000000 pixels, expected at most 64000000");
  EXPECT_EQ(message_of([] { header_of(png_front(603, 2), {.max_aspect_ratio = 200}); }),
            "image: 603 × 2 pixels, aspect ratio 301.5, expected at most 200");
  const std::string file = png_front(1, 1);
  EXPECT_EQ(outcome([&] { header_of(file, {.max_bytes = file.size()}); }), "ok");
  EXPECT_EQ(message_of([&] { header_of(file, {.max_bytes = file.size() - 1}); }),
            "image: 33 bytes, expected at most 32");
}

TEST(ImageLimits, OrientationTurnsTheHeaderToo) {
  const ImageHeader header = header_of(bytes_of(kExifPng));
  EXPECT_EQ(header.orientation, 6);
  EXPECT_EQ(header.width, 2u);
  EXPECT_EQ(header.stored_width(), 3u);
}

TEST(HostilePng, ForeignChunksNeverReachTheDecoder) {
  const std::string plain = bytes_of(kExifPng);
  const std::string want = hex_of(decode(plain));
  // No legal deflate stream, wrong lengths, a megabyte of text.
  for (const char* type : {"iCCP", "zTXt", "iTXt", "tEXt", "gAMA", "sBIT", "hIST", "fooo"})
    EXPECT_EQ(hex_of(decode(golden::with_chunk(plain, type, std::string(1 << 20, '\0')))), want);
  EXPECT_EQ(outcome([&] { decode(golden::with_chunk(plain, "FOOO", "x")); }), "invalid_image");
}

TEST(HostilePng, ManyEmptyChunksTakeLinearTime) {
  std::string empty;
  for (int i = 0; i < 200'000; ++i) empty += golden::png_chunk("IDAT", "");
  std::string file = bytes_of(kExifPng);
  file.insert(file.find("IDAT") - 4, empty);
  EXPECT_EQ(hex_of(decode(file)), hex_of(decode(bytes_of(kExifPng))));
}

TEST(HostileJpeg, ManyScansAreRefused) {
  SKIP_WITHOUT_GOLDENS();
  const std::string file = image_file("progressive.jpg");
  // The first scan, which needs no other, over and over.
  const size_t first = file.find("\xff\xda"), next = file.find("\xff\xc4", first);
  ASSERT_LT(first, next);
  const std::string scan = file.substr(first, next - first);
  const auto repeated = [&](int n) {
    std::string out = file.substr(0, first);
    for (int i = 0; i < n; ++i) out += scan;
    return out + "\xff\xd9";
  };
  EXPECT_EQ(outcome([&] { decode(repeated(100)); }), "ok");
  EXPECT_EQ(message_of([&] { decode(repeated(101)); }),
            "JPEG: more than 100 scans, expected at most that many");
}

// A progressive arithmetic-coded file whose scans hold nothing: zeros stand for what is missing.
std::string empty_scans(uint16_t height, uint16_t width, int n) {
  const std::string size = golden::big_endian(uint32_t{height} << 16 | width);
  std::string out("\xff\xd8\xff\xdb\0\x43\0", 7);
  out += std::string(64, '\1') + std::string("\xff\xca\0\x11\x08", 5) + size;
  out += std::string("\3\1\x11\0\2\x11\0\3\x11\0", 10);
  out += std::string("\xff\xda\0\x0c\3\1\0\2\0\3\0\0\0\0\0", 15);
  for (int i = 1; i < n; ++i) out += std::string("\xff\xda\0\x08\1\1\0\1\x3f\0\0\0", 12);
  return out + "\xff\xd9";
}

TEST(HostileJpeg, LargePicturesMayHaveFewerScans) {
  EXPECT_EQ(outcome([] { decode(empty_scans(400, 500, 51)); }), "ok");
  EXPECT_EQ(message_of([] { decode(empty_scans(4000, 5000, 51)); }),
            "JPEG: more than 50 scans, expected at most that many");
}

TEST(HostileJpeg, UnusualKindsAreNamed) {
  const std::string file = bytes_of(kRedBlueJpeg);
  const size_t frame = file.find("\xff\xc0");
  for (const auto& [at, value] :
       {std::pair{frame + 4, '\x0c'}, {frame + 1, '\xc3'}, {frame + 1, '\xc5'}}) {
    std::string bad = file;
    bad[at] = value;  // 12 bits; lossless; differential
    EXPECT_EQ(outcome([&] { decode(bad); }), "unsupported_image_format") << at;
    EXPECT_TRUE(message_of([&] { decode(bad); }).starts_with("image: JPEG of an unusual kind"));
  }
}

TEST(HostileJpeg, ThousandsOfEmptySegmentsTakeLinearTime) {
  std::string file = bytes_of(kRedBlueJpeg), filler;
  for (int i = 0; i < 300'000; ++i) filler += std::string("\xff\xe1\0\2\xff\xff\0z", 8);
  file.insert(2, filler);
  EXPECT_EQ(hex_of(decode(file)), "fe00000000fe");
}

// Files small enough to try many variants of.
constexpr const char* kSmallFiles[] = {"rgb8.png",         "rgba16.png",     "adam7.png",
                                       "palette_trns.png", "cmyk.jpg",       "progressive.jpg",
                                       "restart.jpg",      "arithmetic.jpg", "lossy.webp",
                                       "lossy_alpha.webp", "lossless.webp",  "exif_o6.jpg"};

TEST(HostileImage, EveryCutIsInvalidAndNothingElse) {
  SKIP_WITHOUT_GOLDENS();
  SampledCases cases(16);
  for (const char* name : kSmallFiles) {
    const std::string file = image_file(name);
    for (size_t n = 0; n < file.size(); ++n) {
      if (!cases.next()) continue;
      // RIFF pads to even lengths; a file without that last byte is whole.
      const std::string got = outcome([&] { decode(file.substr(0, n)); });
      EXPECT_EQ(got, "invalid_image") << name << " cut to " << n;
    }
  }
}

TEST(HostileImage, EveryFlippedByteEndsInAPictureOrAFault) {
  SKIP_WITHOUT_GOLDENS();
  SampledCases cases(24);
  for (const char* name : kSmallFiles) {
    const std::string file = image_file(name);
    for (size_t at = 0; at < file.size(); ++at) {
      if (!cases.next()) continue;
      std::mt19937 random(cases.number());
      std::string bad = file;
      bad[at] = static_cast<char>(random());
      bad[random() % bad.size()] = static_cast<char>(random());
      const ImageLimits limits{.max_pixels = 1 << 17, .max_side = 4096};
      const std::string got = outcome([&] {
        const Image image = decode(bad, limits);
        EXPECT_EQ(image.rgb.size(), size_t{image.width} * image.height * 3);
      });
      EXPECT_NE(got, "remote_image_not_allowed") << name << " " << at;
    }
  }
}

TEST(PublicCase, B050_FormatsAreToldByContent) {
  SKIP_WITHOUT_GOLDENS();
  for (const char* name : {"lossy.webp", "lossless.webp", "lossy_alpha.webp", "jpg_named.png"})
    EXPECT_EQ(outcome([&] { decode(image_file(name)); }), "ok") << name;
  EXPECT_EQ(message_of([] { decode(image_file("animated.webp")); }),
            "image: animated WebP, expected a still picture");
  EXPECT_EQ(message_of([] { decode(bytes_of(kAnimatedPng)); }),
            "image: animated PNG, expected a still picture");
  EXPECT_EQ(outcome([] { decode(bytes_of(kAnimatedPng)); }), "unsupported_image_format");
  const auto labelled = parse_data_url("data:image/heic;base64," + std::string(kExifWebp));
  EXPECT_EQ(decode_image(labelled).height, 3u);
  const std::string heic(
      "\0\0\0\x18"
      "ftypheic\0\0\0\0mif1heic",
      24);
  EXPECT_EQ(message_of([&] { decode(heic); }),
            "image: format HEIC, expected PNG, JPEG or static WebP");
}

TEST(PublicCase, B081_LimitsComeFromTheHeaderAndBase64IsLoose) {
  EXPECT_EQ(outcome([] { decode(png_front(20000, 20000)); }), "image_too_large");
  EXPECT_EQ(outcome([] { parse_data_url("data:image/png;base64," + std::string(100 << 20, 'A')); }),
            "image_too_large");
  const std::string file = bytes_of(kExifPng);
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_EQ(outcome([&] { decode(file.substr(0, n)); }), "invalid_image") << n;
  std::string loose;
  for (const char c : kExifPng.substr(0, kExifPng.find('='))) loose += std::string(1, c) + " \n";
  EXPECT_EQ(as_text(parse_data_url("data:image/png;base64,\n" + loose)), file);
  // Whatever the fault, its message holds no part of the image.
  const std::string secret = "data:image/png;base64,c2VjcmV0c2VjcmV0!";
  EXPECT_EQ(message_of([&] { parse_data_url(secret); }).find("c2Vj"), std::string::npos);
}

TEST(PublicCase, B082_RemoteImagesAreNeverFetched) {
  EXPECT_EQ(outcome([] { parse_data_url("https://example.com/cat.png"); }),
            "remote_image_not_allowed");
  EXPECT_EQ(message_of([] { parse_data_url("https://example.com/cat.png"); }),
            "image: URL of scheme 'https', expected data: (pictures are never fetched)");
}

TEST(PublicCase, B109_OrientationIsAppliedAndABrokenBlockCountsAsOne) {
  const std::string jpeg = bytes_of(kRedBlueJpeg);
  const std::string red_blue = "fe00000000fe", blue_red = "0000fefe0000";
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image image = decode(with_exif(jpeg, golden::exif_block(orientation)));
    const bool is_reversed =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    EXPECT_EQ(hex_of(image), is_reversed ? blue_red : red_blue) << orientation;
    EXPECT_EQ(image.width, orientation > 4 ? 1u : 2u) << orientation;
  }
  std::string far = golden::exif_block(6), wrong_type = far, two = far, endless = far;
  far[4] = '\xf0';
  wrong_type[12] = 2;
  two[14] = 2;
  endless[8] = endless[9] = '\xff';
  endless[10] = 0;
  for (const std::string& block :
       {std::string(), std::string("II"), std::string("junk of some length"), far, wrong_type, two,
        endless, golden::exif_block(6).substr(0, 16), golden::exif_block(0), golden::exif_block(9),
        golden::exif_block(255)})
    EXPECT_EQ(hex_of(decode(with_exif(jpeg, block))), red_blue);
}

TEST(PublicCase, B110_OddSizesAndColoursAreDecoded) {
  SKIP_WITHOUT_GOLDENS();
  for (const char* name : {"1x1.png", "1x1.jpg", "1x4000.png", "4000x1.png", "cmyk.jpg",
                           "gray16.png", "ga8.png", "rgb16.png"})
    EXPECT_EQ(outcome([&] { decode(image_file(name)); }), "ok") << name;
  // A processor with a bound refuses before decoding.
  EXPECT_EQ(outcome([] { decode(image_file("1x4000.png"), {.max_aspect_ratio = 200}); }),
            "image_too_large");
}

}  // namespace
}  // namespace flare::media
