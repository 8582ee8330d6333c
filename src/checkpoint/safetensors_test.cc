// safetensors files: hostile samples, every truncation, what is written is what is read.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "base/test_support.h"

namespace flare::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmallSamples = FLARE_SOURCE_DIR "/tests/data/malformed";
constexpr const char* kAllSamples = FLARE_SOURCE_DIR "/../shared/data/malformed";

struct Refusal {
  Code code;
  std::vector<std::string> parts;  // of the message
};

// What each hostile sample is refused with; the three others are valid.
const std::map<std::string, Refusal>& refusals() {
  static const std::map<std::string, Refusal> map = {
      {"st_7bytes", {Code::kFraming, {"7 bytes", "at least 8"}}},
      {"st_bad_utf8", {Code::kDirectory, {"header", "byte "}}},
      {"st_deep_nesting", {Code::kDirectory, {"header"}}},
      {"st_dup_key", {Code::kDirectory, {"a", "twice"}}},
      {"st_empty", {Code::kFraming, {"0 bytes"}}},
      {"st_extra_tail", {Code::kRange, {"tensors end at 16", "20 bytes"}}},
      {"st_header_101MB", {Code::kFraming, {"header length", "100000000"}}},
      {"st_header_len_huge", {Code::kFraming, {"header length", "100000000"}}},
      {"st_header_len_past_eof", {Code::kFraming, {"header length 1000000", "129 bytes"}}},
      {"st_hole", {Code::kRange, {"b", "begins at 32", "hole", "16 expected"}}},
      {"st_json_array", {Code::kDirectory, {"header begins with", "'{' expected"}}},
      {"st_metadata_nonstring", {Code::kDirectory, {"__metadata__", "x", "string"}}},
      {"st_not_json", {Code::kDirectory, {"header begins with"}}},
      {"st_offsets_negative", {Code::kDirectory, {"a", "data_offsets", "integer"}}},
      {"st_offsets_past_eof", {Code::kRange, {"a", "1099511627776 bytes", "16 expected"}}},
      {"st_offsets_reversed", {Code::kRange, {"a", "data_offsets: [16, 0]"}}},
      {"st_overlap", {Code::kRange, {"b", "begins at 8", "overlaps", "16 expected"}}},
      {"st_shape_float", {Code::kDirectory, {"a", "shape", "integer"}}},
      {"st_shape_negative", {Code::kDirectory, {"a", "shape", "integer"}}},
      {"st_shape_overflow", {Code::kRange, {"a", "shape", "64 bits"}}},
      {"st_size_mismatch", {Code::kRange, {"a", "16 bytes", "36 expected"}}},
      {"st_trailing_comma", {Code::kDirectory, {"header", "byte "}}},
      {"st_truncated_data", {Code::kRange, {"ends at", "the data section has"}}},
      {"st_truncated_header", {Code::kFraming, {"header length", "bytes follow"}}},
      {"st_unknown_dtype", {Code::kDirectory, {"a", "dtype", "Q7"}}},
  };
  return map;
}

void check_samples(const fs::path& folder, size_t* refused, size_t* accepted) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with("st_")) continue;
    const auto expected = refusals().find(name);
    try {
      SafetensorsFile::open(entry.path());
      EXPECT_TRUE(expected == refusals().end()) << name << " was accepted";
      ++*accepted;
    } catch (const Error& error) {
      ++*refused;
      ASSERT_TRUE(expected != refusals().end()) << name << ": " << error.message();
      EXPECT_EQ(code_name(error.code()), code_name(expected->second.code)) << error.message();
      EXPECT_NE(error.message().find(name + ".safetensors"), std::string::npos) << error.message();
      for (const std::string& part : expected->second.parts)
        EXPECT_NE(error.message().find(part), std::string::npos)
            << error.message() << " lacks " << part;
    }
  }
}

TEST(MalformedSamples, SmallOnesAreRefusedWithAPreciseError) {
  size_t refused = 0, accepted = 0;
  check_samples(kSmallSamples, &refused, &accepted);
  EXPECT_EQ(refused, 23u);
  EXPECT_EQ(accepted, 3u);
}

TEST(MalformedSamples, AllAreRefusedWithAPreciseError) {
  if (!fs::exists(kAllSamples)) GTEST_SKIP() << kAllSamples << " is not here";
  size_t refused = 0, accepted = 0;
  check_samples(kAllSamples, &refused, &accepted);
  EXPECT_EQ(refused, refusals().size());
  EXPECT_EQ(accepted, 3u);
}

TEST(ValidSamples, HaveTheTensorTheyDescribe) {
  const fs::path folder = kSmallSamples;
  const auto only = [&](const char* name) {
    const SafetensorsFile file = SafetensorsFile::open(folder / name);
    EXPECT_EQ(file.tensors().size(), 1u);
    const Tensor tensor = file.tensors().at(0);
    EXPECT_EQ(tensor.name, "a");
    EXPECT_EQ(tensor.dtype, DType::kF32);
    return std::pair(tensor.shape, tensor.bytes.size());
  };
  using Shape = std::vector<uint64_t>;
  EXPECT_EQ(only("st_ok_min.safetensors"), std::pair(Shape({2, 2}), size_t{16}));
  EXPECT_EQ(only("st_scalar.safetensors"), std::pair(Shape(), size_t{4}));
  EXPECT_EQ(only("st_zero_dim.safetensors"), std::pair(Shape({0, 4}), size_t{0}));
}

// A file of this header and so many data bytes.
fs::path write_raw(const TemporaryFolder& folder, std::string_view header, size_t data_bytes) {
  std::string text(8, '\0');
  store_le(reinterpret_cast<std::byte*>(text.data()), static_cast<uint64_t>(header.size()));
  return folder.write("raw.safetensors",
                      text + std::string(header) + std::string(data_bytes, '\1'));
}

Error refusal_of(const TemporaryFolder& folder, std::string_view header, size_t data_bytes) {
  try {
    SafetensorsFile::open(write_raw(folder, header, data_bytes));
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::kInternal, "accepted: {}", header);
}

TEST(SafetensorsFile, KnowsEveryDtypeAndItsSize) {
  const TemporaryFolder folder;
  const std::vector<std::pair<const char*, int>> dtypes = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
      {"I32", 32},    {"U32", 32}, {"F32", 32}, {"I64", 64},    {"U64", 64},
      {"F64", 64},    {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const auto& [name, bits] = dtypes[i];
    EXPECT_EQ(dtype_name(static_cast<DType>(i)), name);
    EXPECT_EQ(dtype_bits(static_cast<DType>(i)), bits);
    const int bytes = 12 * bits / 8;
    const std::string header =
        fmt::format(R"({{"t":{{"dtype":"{}","shape":[3,4],"data_offsets":[0,{}]}}}})", name, bytes);
    const SafetensorsFile file = SafetensorsFile::open(write_raw(folder, header, bytes));
    EXPECT_EQ(file.tensors().at(0).dtype, static_cast<DType>(i));
    EXPECT_EQ(file.tensors().at(0).bytes.size(), static_cast<size_t>(bytes));
  }
}

TEST(SafetensorsFile, PackedDtypesMustFillWholeBytes) {
  const TemporaryFolder folder;
  const Error error =
      refusal_of(folder, R"({"t":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2);
  EXPECT_EQ(error.code(), Code::kRange);
  EXPECT_NE(error.message().find("12 bits of F4"), std::string::npos) << error.message();
}

TEST(SafetensorsFile, OrdersTensorsByOffsetWhateverTheHeaderSays) {
  const TemporaryFolder folder;
  const SafetensorsFile file =
      SafetensorsFile::open(write_raw(folder,
                                      R"({"z":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},)"
                                      R"("none":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
                                      R"("__metadata__":{"format":"pt","a":""},)"
                                      R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   )",
                                      5));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "none");
  EXPECT_EQ(file.tensors()[2].name, "z");
  EXPECT_EQ(file.metadata(),
            (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}, {"a", ""}}));
}

TEST(SafetensorsFile, B029_RangesAreCheckedBeforeAnythingIsRead) {
  const TemporaryFolder folder;
  const auto header = [](const char* range, const char* shape = "[4]") {
    return fmt::format(R"({{"first":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                       R"("second":{{"dtype":"U8","shape":{},"data_offsets":{}}}}})",
                       shape, range);
  };
  const struct {
    std::string header;
    size_t data;
    const char* part;
  } cases[] = {
      {header("[0,4]"), 4, "second"},                             // the same bytes
      {header("[2,6]"), 6, "second"},                             // overlap
      {header("[8,4]"), 8, "second"},                             // begins behind its end
      {header("[6,10]"), 10, "second"},                           // a hole
      {header("[4,8]", "[4294967296,4294967296]"), 8, "second"},  // 2^64
      {header("[4,8]", "[5]"), 8, "second"},                      // another size
      {header("[4,8.0]"), 8, "second"},
      {header("[4,-8]"), 8, "second"},
      {header("[4,8]"), 7, "second"},  // cut
  };
  for (const auto& c : cases) {
    const Error error = refusal_of(folder, c.header, c.data);
    EXPECT_NE(error.code(), Code::kInternal) << error.message();
    EXPECT_NE(error.message().find(c.part), std::string::npos) << error.message();
  }
  for (const uint64_t length : {uint64_t{1} << 63, uint64_t{1} << 20, uint64_t{200} << 20}) {
    std::string text(8, '\0');
    store_le(reinterpret_cast<std::byte*>(text.data()), length);
    try {
      SafetensorsFile::open(folder.write("long.safetensors", text + "{}"));
      ADD_FAILURE() << "a header of " << length << " bytes was accepted";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("long.safetensors"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(std::to_string(length)), std::string::npos) << error.message();
    }
  }
}

TEST(SafetensorsFile, B116_ANameThatComesTwiceIsRefusedByName) {
  const TemporaryFolder folder;
  const Error error = refusal_of(folder,
                                 R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                 R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                 2);
  EXPECT_EQ(error.code(), Code::kDirectory);
  EXPECT_NE(error.message().find("'w'"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("twice"), std::string::npos) << error.message();
}

TEST(SafetensorsFile, RefusesHeadersThatAreNotExactlyRight) {
  const TemporaryFolder folder;
  const struct {
    const char* header;
    size_t data;
    Code code;
    const char* part;
  } cases[] = {
      {"", 0, Code::kDirectory, "header begins with"},
      {R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, Code::kDirectory, "'{'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}x)", 1, Code::kDirectory, "byte"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, Code::kDirectory, "1 numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1, Code::kDirectory,
       "3 numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1.0]}})", 1, Code::kDirectory,
       "data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":{}}})", 1, Code::kDirectory,
       "data_offsets"},
      {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, Code::kDirectory, "shape"},
      {R"({"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}})", 1, Code::kDirectory, "shape"},
      {R"({"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})", 1, Code::kDirectory, "shape"},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", 1, Code::kDirectory, "dtype"},
      {R"({"a":{"dtype":"u8","shape":[1],"data_offsets":[0,1]}})", 1, Code::kDirectory, "dtype"},
      {R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, Code::kDirectory, "'dtype' missing"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, Code::kDirectory, "'shape' missing"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, Code::kDirectory, "'data_offsets' missing"},
      {R"({"a":[]})", 1, Code::kDirectory, "object"},
      {R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, Code::kDirectory, "name"},
      {R"({"__metadata__":"x"})", 0, Code::kDirectory, "__metadata__"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, Code::kDirectory, "twice"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, Code::kDirectory,
       "twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, Code::kRange, "hole"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551615],)"
       R"("data_offsets":[0,18446744073709551615]}})",
       1, Code::kRange, "64 bits"},
      {R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}})", 1,
       Code::kDirectory, "shape"},
      {R"({"a":{"dtype":"U8","shape":[2305843009213693951],)"
       R"("data_offsets":[0,2305843009213693951]}})",
       1, Code::kRange, "ends at 2305843009213693951"},
      {"{}", 1, Code::kRange, "tensors end at 0"},
  };
  for (const auto& c : cases) {
    const Error error = refusal_of(folder, c.header, c.data);
    EXPECT_EQ(code_name(error.code()), code_name(c.code)) << c.header << "\n" << error.message();
    EXPECT_NE(error.message().find(c.part), std::string::npos)
        << c.header << "\n"
        << error.message() << " lacks " << c.part;
  }
}

TEST(SafetensorsFile, AHeaderOfMegabytesFollowsTheSameRules) {
  const TemporaryFolder folder;
  std::string header = "{";
  constexpr int kTensors = 30000;
  for (int i = 0; i < kTensors; ++i)
    header += fmt::format(R"("layer.{}.w":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}},)", i,
                          i, i + 1);
  ASSERT_GT(header.size(), size_t{1} << 20);
  const std::string extra = R"("layer.7.w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  EXPECT_EQ(refusal_of(folder, header + extra, kTensors).code(), Code::kDirectory);
  header.back() = '}';
  const SafetensorsFile file = SafetensorsFile::open(write_raw(folder, header, kTensors));
  EXPECT_EQ(file.tensors().size(), size_t{kTensors});
  EXPECT_EQ(file.tensors()[777].name, "layer.777.w");
  EXPECT_EQ(refusal_of(folder, header, kTensors - 1).code(), Code::kRange);
  header.back() = ',';
  EXPECT_EQ(refusal_of(folder, header, kTensors).code(), Code::kDirectory);
}

std::vector<NamedTensor> some_tensors(const std::string& bytes) {
  const Bytes all = as_bytes(bytes);
  return {{"scalar", DType::kF32, {}, all.subspan(0, 4)},
          {"nothing", DType::kI64, {3, 0}, {}},
          {"matrix \"ü\"\n", DType::kBf16, {2, 3}, all.subspan(4, 12)},
          {"packed", DType::kF6E2M3, {4, 2}, all.subspan(16, 6)},
          {"bytes", DType::kU8, {7}, all.subspan(22, 7)}};
}
const std::string kData = "0123456789abcdefghijklmnopqrstuvwxyz";

TEST(WriteSafetensors, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.safetensors";
  const std::vector<NamedTensor> tensors = some_tensors(kData);
  const std::vector<std::pair<std::string, std::string>> metadata = {{"z", "1"}, {"format", "pt"}};
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& read = file.tensors()[i];
    EXPECT_EQ(read.name, tensors[i].name);
    EXPECT_EQ(read.dtype, tensors[i].dtype);
    EXPECT_EQ(read.shape, tensors[i].shape);
    EXPECT_EQ(as_text(read.bytes), as_text(tensors[i].bytes));
  }
  EXPECT_EQ(load_le<uint64_t>(file.mapping().bytes().data()) % 8, 0u);
}

TEST(WriteSafetensors, EveryTruncationIsAnErrorThatNamesTheFile) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.safetensors";
  write_safetensors(path, some_tensors(kData), {{"format", "pt"}});
  const std::string whole = read_text_file(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    const fs::path cut = folder.write("cut.safetensors", whole.substr(0, length));
    try {
      SafetensorsFile::open(cut);
      ADD_FAILURE() << "accepted with " << length << " of " << whole.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_TRUE(error.message().starts_with(cut.string())) << error.message();
    }
  }
}

TEST(WriteSafetensors, FlippedHeaderBytesNeverCrash) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.safetensors";
  write_safetensors(path, some_tensors(kData), {{"format", "pt"}});
  const std::string whole = read_text_file(path);
  const size_t header_end = whole.size() - 29;
  size_t refused = 0;
  for (size_t at = 0; at < header_end; ++at) {
    for (const char flip : {'\x01', '\x10', '\x80'}) {
      std::string changed = whole;
      changed[at] ^= flip;
      try {
        const SafetensorsFile file =
            SafetensorsFile::open(folder.write("flip.safetensors", changed));
        for (const Tensor& tensor : file.tensors())
          ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(),
                    file.mapping().bytes().data() + file.mapping().bytes().size());
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, header_end);
}

TEST(WriteSafetensors, RefusesWhatCouldNotBeReadBack) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.safetensors";
  const Bytes four = as_bytes("abcd");
  const auto code_of = [&](const std::vector<NamedTensor>& tensors) {
    try {
      write_safetensors(path, tensors, {});
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kInternal;
  };
  EXPECT_EQ(code_of({{"a", DType::kF32, {2}, four}}), Code::kRange);
  EXPECT_EQ(code_of({{"__metadata__", DType::kF32, {1}, four}}), Code::kDirectory);
  EXPECT_EQ(code_of({{"", DType::kF32, {1}, four}}), Code::kDirectory);
  EXPECT_EQ(code_of({{"\xff", DType::kF32, {1}, four}}), Code::kDirectory);
  EXPECT_EQ(code_of({{"a", DType::kF32, {1}, four}, {"a", DType::kF32, {1}, four}}),
            Code::kDirectory);
  EXPECT_FALSE(fs::exists(path));
  write_safetensors(path, {{"a", DType::kF32, {1}, four}}, {});
  EXPECT_EQ(code_of({{"b", DType::kF32, {1}, four}}), Code::kExists);
  write_safetensors(path, {{"b", DType::kF32, {1}, four}}, {}, true);
  EXPECT_EQ(SafetensorsFile::open(path).tensors().at(0).name, "b");
}

}  // namespace
}  // namespace flare::checkpoint
