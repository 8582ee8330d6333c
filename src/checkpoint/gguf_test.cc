// GGUF files: hostile samples, every truncation, typed values, tensors in place.
#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/test_support.h"
#include "checkpoint/gguf_fixture.h"

namespace flare::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmallSamples = FLARE_SOURCE_DIR "/tests/data/malformed";
constexpr const char* kShared = FLARE_SOURCE_DIR "/../shared/data";

struct Refusal {
  Code code;
  std::vector<std::string> parts;  // of the message
};

// What each hostile sample is refused with.
const std::map<std::string, Refusal>& refusals() {
  static const std::map<std::string, Refusal> map = {
      {"gguf_4bytes", {Code::kFraming, {"version", "file of 4 bytes"}}},
      {"gguf_alignment_0", {Code::kDirectory, {"general.alignment", "is 0", "power of two"}}},
      {"gguf_alignment_3", {Code::kDirectory, {"general.alignment", "is 3", "power of two"}}},
      {"gguf_array_len_huge", {Code::kFraming, {"key 'k'", "leaves the file of 305"}}},
      {"gguf_bad_kv_type", {Code::kDirectory, {"value type 77", "0..12 expected"}}},
      {"gguf_bad_magic", {Code::kFraming, {"magic", "GGUF"}}},
      {"gguf_big_endian", {Code::kSupport, {"big-endian", "little-endian expected"}}},
      {"gguf_dim_zero", {Code::kDirectory, {"tensor", "is 0"}}},
      {"gguf_dims_overflow", {Code::kRange, {"tensor", "64 bits"}}},
      {"gguf_dup_key", {Code::kDirectory, {"key", "twice"}}},
      {"gguf_dup_tensor", {Code::kDirectory, {"tensor", "twice"}}},
      {"gguf_empty", {Code::kFraming, {"magic", "file of 0 bytes"}}},
      {"gguf_key_len_huge", {Code::kFraming, {"a key", "leaves the file"}}},
      {"gguf_ndims_0", {Code::kDirectory, {"0 dimensions", "1..4 expected"}}},
      {"gguf_ndims_9", {Code::kDirectory, {"9 dimensions", "1..4 expected"}}},
      {"gguf_nested_arrays", {Code::kSupport, {"an array of arrays"}}},
      {"gguf_nkv_huge", {Code::kFraming, {"keys, at most"}}},
      {"gguf_nt_huge", {Code::kFraming, {"tensors, at most"}}},
      {"gguf_offset_misaligned", {Code::kRange, {"multiple of the alignment 32"}}},
      {"gguf_offset_past_eof", {Code::kRange, {"ends at", "the data section has"}}},
      {"gguf_row_not_multiple", {Code::kDirectory, {"rows of", "a multiple of 32"}}},
      {"gguf_str_past_eof", {Code::kFraming, {"leaves the file"}}},
      {"gguf_truncated_half", {Code::kRange, {"ends at", "the data section has"}}},
      {"gguf_truncated_header", {Code::kFraming, {"19 keys, at most 12 expected"}}},
      {"gguf_type_unknown", {Code::kSupport, {"tensor", "type 200"}}},
      {"gguf_v1", {Code::kSupport, {"version 1", "2 or 3 expected"}}},
      {"gguf_v99", {Code::kSupport, {"version 99", "2 or 3 expected"}}},
  };
  return map;
}

size_t check_samples(const fs::path& folder) {
  size_t refused = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with("gguf_")) continue;
    SCOPED_TRACE(name);
    const auto at = refusals().find(name);
    EXPECT_NE(at, refusals().end());
    if (at == refusals().end()) continue;
    ++refused;
    try {
      GgufFile::open(entry.path());
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(code_name(error.code()), code_name(at->second.code)) << error.message();
      EXPECT_NE(error.message().find(name + ".gguf"), std::string::npos) << error.message();
      for (const std::string& part : at->second.parts)
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }
  return refused;
}

TEST(GgufHostile, SmallSamplesAreRefusedWithFileFieldAndReason) {
  EXPECT_EQ(check_samples(kSmallSamples), refusals().size() - 2);  // two are large
}

TEST(GgufHostile, EverySampleIsRefused) {
  const fs::path folder = fs::path(kShared) / "malformed";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is absent";
  EXPECT_EQ(check_samples(folder), refusals().size());
}

using test::GgufBytes;

GgufBytes& key(GgufBytes& b, std::string_view name, GgufKind kind) {
  return b.text(name).kind(kind);
}
GgufBytes& array(GgufBytes& b, std::string_view name, GgufKind element, uint64_t count) {
  return key(b, name, GgufKind::kArray).kind(element).number(count);
}

// Every kind of value, alignment 8, a q8_0 tensor [2, 32] behind an f32 one [3].
std::string sample(uint32_t version) {
  GgufBytes b;
  b.number<uint32_t>(0x46554747).number(version).number<uint64_t>(2).number<uint64_t>(11);
  key(b, "general.alignment", GgufKind::kU32).number<uint32_t>(8);
  key(b, "a.i8", GgufKind::kI8).number<int8_t>(-3);
  key(b, "a.u16", GgufKind::kU16).number<uint16_t>(65535);
  key(b, "a.i64", GgufKind::kI64).number<int64_t>(1);
  key(b, "a.u64", GgufKind::kU64).number<uint64_t>(~uint64_t{0});
  key(b, "a.f32", GgufKind::kF32).number<float>(0.5f);
  key(b, "a.yes", GgufKind::kBool).number<uint8_t>(1);
  key(b, "a.text", GgufKind::kString).text("caf\xC3\xA9");
  array(b, "a.texts", GgufKind::kString, 3).text("x").text("").text("zz");
  array(b, "a.flags", GgufKind::kBool, 2).number<uint8_t>(0).number<uint8_t>(1);
  array(b, "a.counts", GgufKind::kI32, 2).number<int32_t>(7).number<int32_t>(9);
  b.text("second").number<uint32_t>(2).number<uint64_t>(32).number<uint64_t>(2);
  b.number<uint32_t>(8).number<uint64_t>(16);
  b.text("first").number<uint32_t>(1).number<uint64_t>(3).number<uint32_t>(0).number<uint64_t>(0);
  b.align(8);
  b.number<float>(1).number<float>(2).number<float>(3).align(8);
  for (int i = 0; i < 68; ++i) b.number<uint8_t>(static_cast<uint8_t>(i));
  return b.all();
}

TEST(Gguf, ValuesOfEveryKindAndTensorsInPlace) {
  const TemporaryFolder folder;
  for (uint32_t version : {2u, 3u}) {
    const auto file = GgufFile::open(folder.write("a.gguf", sample(version)));
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.keys().size(), 11u);
    EXPECT_EQ(file.at("a.i8").as_double(), -3);
    EXPECT_EQ(file.at("a.u16").as_u64(), 65535u);
    EXPECT_EQ(file.at("a.i64").as_u64(), 1u);
    EXPECT_EQ(file.at("a.f32").as_double(), 0.5);
    EXPECT_EQ(file.at("a.u64").as_double(), 0x1p64);
    EXPECT_TRUE(file.at("a.yes").as_bool());
    EXPECT_EQ(file.at("a.text").as_string(), "caf\xC3\xA9");
    EXPECT_EQ(file.at("a.texts").strings(), (std::vector<std::string_view>{"x", "", "zz"}));
    EXPECT_EQ(file.at("a.flags").bools(), (std::vector<bool>{false, true}));
    EXPECT_EQ(file.at("a.counts").u64s(), (std::vector<uint64_t>{7, 9}));
    EXPECT_EQ(file.at("a.counts").doubles(), (std::vector<double>{7, 9}));
    EXPECT_FALSE(file.find("a.none"));

    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.tensors()[0].name, "first");
    EXPECT_EQ(load_le<float>(file.tensors()[0].bytes.data() + 4), 2.0f);
    const GgufTensor& second = file.tensors()[1];
    EXPECT_EQ(second.type->name, "Q8_0");
    EXPECT_EQ(second.shape, (std::vector<uint64_t>{2, 32}));
    ASSERT_EQ(second.bytes.size(), 68u);
    EXPECT_EQ(second.bytes[67], std::byte{67});
  }
}

TEST(Gguf, ValuesOfAnotherKindAreRefusedWithKeyAndExpectation) {
  const TemporaryFolder folder;
  const auto file = GgufFile::open(folder.write("a.gguf", sample(3)));
  const auto refused = [&](auto call, std::string_view part) {
    try {
      call();
      ADD_FAILURE() << "accepted, expected " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDirectory);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  };
  refused([&] { (void)file.at("a.i8").as_u64(); }, "a.i8' is -3 (i8), an integer that is not neg");
  refused([&] { (void)file.at("a.u64").as_u64(); }, "a.u64");
  refused([&] { (void)file.at("a.text").as_u64(); }, "a.text' is 'caf");
  refused([&] { (void)file.at("a.texts").as_string(); }, "an array of 3 string, a string expected");
  refused([&] { (void)file.at("a.counts").strings(); }, "an array of strings expected");
  refused([&] { (void)file.at("a.texts").u64s(); }, "an array of integers");
  refused([&] { (void)file.at("a.u16").as_bool(); }, "true or false expected");
  refused([&] { (void)file.at("a.none"); }, "a.none' is missing");
}

TEST(GgufHostile, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  const std::string whole = sample(3);
  for (size_t n = 0; n < whole.size(); ++n) {
    const fs::path path = folder.write("cut.gguf", std::string_view(whole).substr(0, n));
    EXPECT_THROW(GgufFile::open(path), Error) << n << " bytes";
  }
  EXPECT_NO_THROW(GgufFile::open(folder.write("cut.gguf", whole)));
}

TEST(GgufHostile, AnyByteChangedIsRefusedOrReadWithinTheFile) {
  const TemporaryFolder folder;
  const std::string whole = sample(3);
  for (size_t i = 0; i < whole.size() - 68; ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0xFF);
    try {
      const auto file = GgufFile::open(folder.write("changed.gguf", changed));
      const Bytes all = file.mapping().bytes();
      for (const GgufTensor& tensor : file.tensors()) {
        EXPECT_GE(tensor.bytes.data(), all.data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), all.data() + all.size());
      }
    } catch (const Error&) {
    }
  }
}

// Sizes that wrap, or that a small file only claims. (Every truncation: above.)
TEST(GgufHostile, B018_CraftedSizesAreRefusedByField) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, const char* part) {
    try {
      GgufFile::open(folder.write("crafted.gguf", bytes));
      ADD_FAILURE() << "accepted, expected " << part;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("crafted.gguf"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  };
  const std::string data(32, '\0');
  const auto with_shape = [&](std::vector<uint64_t> shape, uint32_t type) {
    return test::GgufBuilder()
        .text("general.architecture", "llama")
        .tensor("weight", std::move(shape), type, data)
        .bytes();
  };
  const uint64_t wide = (uint64_t{1} << 42) + 1;
  refused(with_shape({wide, wide}, 0), "weight");  // wraps 64 bits
  refused(with_shape({wide}, 0), "weight");        // far beyond the file
  refused(with_shape({8}, 9999), "9999");
  refused(with_shape({2, 2, 2, 1, 1}, 0), "5 dimensions");
  std::string many = with_shape({8}, 0);
  const size_t at = many.find("weight") + 6;
  many.replace(at, 4, "\xff\xff\xff\xff");
  refused(many, "4294967295 dimensions");
  test::GgufBytes text;
  text.raw("GGUF").number<uint32_t>(3).number<uint64_t>(0).number<uint64_t>(1).text("k");
  text.kind(GgufKind::kString).number(uint64_t{1} << 30).raw(std::string(100, 'x'));
  refused(text.all(), "'k'");
  refused(
      test::GgufBuilder().u32("general.alignment", 1u << 30).tensor("weight", {8}, 0, data).bytes(),
      "general.alignment");
}

TEST(GgufHostile, OverlappingTensorsAreRefused) {
  const TemporaryFolder folder;
  std::string bytes = sample(3);
  // The offset of the second tensor, 16, becomes 8: inside the first.
  const size_t at = bytes.find("second") + 6 + 4 + 16 + 4;
  bytes[at] = 8;
  try {
    GgufFile::open(folder.write("a.gguf", bytes));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("overlaps tensor 'first'"), std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace flare::checkpoint
