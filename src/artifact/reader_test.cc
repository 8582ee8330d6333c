// The reader promises: framing, file sets, ranges, mappings, lazy interpretation, matrices; hostile
// bytes end in an Error or a valid read.
#include "artifact/reader.h"

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "artifact/artifact_fixture.h"
#include "base/float_types.h"
#include "codec/nvfp4.h"

namespace flare::artifact {
namespace {

constexpr std::string_view kText =
    R"({"components":{"text":{"config":{}}},"objects":[)"
    R"({"id":"r","encoding":"raw_bytes_v1","offset":0,"bytes":6,"kind":"resource"},)"
    R"({"id":"w","shape":[4,8],"format":"bf16","layout":"contiguous_le_v1","offset":256,"bytes":64,"kind":"tensor"}],)"
    R"("bindings":{"w":{"object":"w"}},"uses":[],"files":[{"path":null,"payload_bytes":320}]})";

// kText after one replacement, as a file of a folder of its own.
class OneEntry {
 public:
  OneEntry(std::string_view from, std::string_view to) {
    write_file(path(), entry_bytes(replaced(std::string(kText), from, to), 320));
  }
  std::filesystem::path path() const { return folder_ / "e.ninfer"; }

 private:
  TemporaryFolder folder_;
};

// The golden set of two files, copied to where it can be damaged.
class GoldenSet {
 public:
  GoldenSet() {
    for (const char* name : {"golden1.ninfer", "golden1.ninfer.part-0001"})
      std::filesystem::copy_file(data_path("split") / name, folder_ / name);
  }
  std::filesystem::path entry() const { return folder_ / "golden1.ninfer"; }
  std::filesystem::path part() const { return folder_ / "golden1.ninfer.part-0001"; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

std::string bytes_of(const Reader& reader, uint64_t offset, uint64_t length) {
  std::string out(length, '\xEE');
  reader.read(offset, {reinterpret_cast<std::byte*>(out.data()), out.size()});
  return out;
}

TEST(Reader, ReadsTheGoldenArtifact) {
  for (const auto& path : {data_path("golden1.ninfer"), data_path("split/golden1.ninfer")}) {
    Reader reader = Reader::open(path);
    EXPECT_EQ(reader.id_hex(), "000102030405060708090a0b0c0d0e0f");
    EXPECT_EQ(reader.json_bytes(), 4064u);
    EXPECT_EQ(reader.directory().payload_bytes(), 5636u);
    EXPECT_EQ(reader.read_resource("r.note"), "ninfer");
    EXPECT_EQ(as_text(reader.mapped("r.note")), "ninfer");
    const TensorInfo info = reader.tensor("w.q4");
    EXPECT_EQ(info.format->name, "q4_g64_fp16");
    EXPECT_EQ(info.geometry, (codec::Geometry{1, 65}));
    // §18.8: codes −8 −7 −1 0 1 7 under scale 0x3E00 = 1.5.
    const codec::Matrix matrix = reader.matrix("text/a", {1, 65});
    std::vector<float> row(65);
    codec::decode_row(matrix, 0, row.data());
    EXPECT_EQ(std::vector<float>(row.begin(), row.begin() + 7),
              (std::vector<float>{-12, -10.5, -1.5, 0, 1.5, 10.5, 0}));
    // The second half of the parent's rows, then the first. Row 1: codes from byte 32 = 0x20 on,
    // scale word 4, divisor 2.5.
    const codec::Matrix swapped = reader.matrix("text/b", {128, 64});
    std::vector<float> nv(64);
    codec::decode_row(swapped, 65, nv.data());
    EXPECT_EQ(nv[0], 0);
    EXPECT_EQ(nv[1], 1.0f * 0x1p-7f / 2.5f);
  }
}

TEST(Reader, EverySplitHoldsTheSamePayload) {
  const Reader whole = Reader::open(data_path("golden1.ninfer"));
  const Reader split = Reader::open(data_path("split/golden1.ninfer"));
  const std::string all = bytes_of(whole, 0, 5636);
  EXPECT_EQ(all, read_file(data_path("golden1.ninfer")).substr(4096));
  for (uint64_t begin = 0; begin <= 5636; begin += 61)
    for (uint64_t wanted : {uint64_t{0}, uint64_t{1}, uint64_t{300}, uint64_t{5636}}) {
      const uint64_t length = std::min(wanted, 5636 - begin);
      ASSERT_EQ(bytes_of(split, begin, length), all.substr(begin, length)) << begin;
    }
  for (const uint64_t edge : {4095u, 4096u, 4097u})
    EXPECT_EQ(bytes_of(split, edge - 1, 3), all.substr(edge - 1, 3));
}

TEST(Reader, ReadsFromManyThreads) {
  const Reader reader = Reader::open(data_path("split/small.ninfer"));
  const std::string all = read_file(data_path("small.ninfer"));
  const std::string payload = all.substr(all.size() - reader.directory().payload_bytes());
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (uint64_t at = 0; at + 50 < payload.size(); at += 50)
        if (bytes_of(reader, at, 50) != payload.substr(at, 50)) ++wrong;
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(Reader, RefusesReadsOutsideThePayload) {
  const Reader reader = Reader::open(data_path("golden1.ninfer"));
  EXPECT_EQ(bytes_of(reader, 5636, 0), "");
  expect_error(Code::kRange, {"golden1.ninfer", "5637"}, [&] { bytes_of(reader, 5637, 0); });
  expect_error(Code::kRange, {"5636"}, [&] { bytes_of(reader, 5636, 1); });
  expect_error(Code::kRange, {"5636"}, [&] { bytes_of(reader, 0, 5637); });
  expect_error(Code::kRange, {"5636"}, [&] { bytes_of(reader, UINT64_MAX, 2); });
}

TEST(Framing, EntryConditionsHaveTheirClass) {
  TemporaryFolder folder;
  const auto path = folder / "e.ninfer";
  const std::string good = entry_bytes(kText, 320);
  const auto refused = [&](std::string bytes, std::initializer_list<std::string_view> needles) {
    write_file(path, bytes);
    expect_error(Code::kFraming, needles, [&] { Reader::open(path); });
  };
  const auto with_number = [&](uint64_t json_bytes) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 8, &json_bytes, 8);
    return bytes;
  };
  const auto with_magic = [&](std::string_view magic) {
    return std::string(magic) + good.substr(8);
  };
  using namespace std::literals;
  refused("", {path.string(), "0 bytes"});
  refused(good.substr(0, 31), {"31 bytes"});
  refused(with_magic("NINFER\0\1"sv), {"version 1"});
  refused(with_magic("NINFER\0\2"sv), {"version 2"});
  refused(with_magic("NINFER\0\4"sv), {"magic"});
  refused(with_magic("NINPRT\0\3"sv), {"part", "entry"});
  refused(with_magic("GGUF\3\0\0\0"sv), {"magic", "47475546"});
  refused(with_number(0), {"json_bytes 0"});
  refused(with_number(good.size() - 31), {"json_bytes"});
  refused(with_number(uint64_t{1} << 30), {"json_bytes 1073741824"});
  refused(with_number(UINT64_MAX), {"json_bytes 18446744073709551615"});
  refused(good + "x", {"expected"});
  refused(good.substr(0, good.size() - 1), {"payload_bytes 320"});
  refused(read_file(data_path("split/golden1.ninfer.part-0001")), {"part 1"});
  expect_error(Code::kNotFound, {"absent"}, [&] { Reader::open(folder / "absent"); });
  expect_error(Code::kNotFound, {folder.path().string()}, [&] { Reader::open(folder.path()); });
}

TEST(Framing, AStringLongerThanTheFileIsRefusedWithoutMemoryForIt) {
  // A length is never stored in JSON; a document that goes on to the end of the file is the
  // nearest.
  TemporaryFolder folder;
  const std::string text = "{\"components\":\"" + std::string(5000, 'a');
  write_file(folder / "e.ninfer", entry_bytes(text, 320));
  expect_error(Code::kDirectory, {"e.ninfer"}, [&] { Reader::open(folder / "e.ninfer"); });
}

TEST(Framing, PayloadStartMeetsTheTestFigure) {
  // §3.4: files of exactly 32,000,000,000 and 8192 bytes.
  EXPECT_EQ(entry_payload_start(65504), 65536u);
  EXPECT_EQ(entry_payload_start(65505), 65536u + 4096u);
  EXPECT_EQ(entry_payload_start(1), 4096u);
  EXPECT_EQ(entry_payload_start(65504) + 31999934464u, 32000000000u);
  expect_error(Code::kRange, {"json_bytes"}, [] { entry_payload_start(UINT64_MAX - 40); });
}

TEST(Framing, TruncationAtEveryByteIsAFramingError) {
  GoldenSet set;
  const auto entry = set.folder() / "golden1.ninfer";
  for (uint64_t length = std::filesystem::file_size(entry); length-- > 0;) {
    std::filesystem::resize_file(entry, length);
    try {
      Reader::open(entry);
      FAIL() << "opened at " << length;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kFraming) << length << ": " << error.message();
    }
  }
}

TEST(Fileset, TruncationOfAPartAtEveryByteIsAFilesetError) {
  GoldenSet set;
  for (uint64_t length = std::filesystem::file_size(set.part()); length-- > 0;) {
    std::filesystem::resize_file(set.part(), length);
    const Reader reader = Reader::open(set.entry());
    try {
      reader.open_all_parts();
      FAIL() << "opened at " << length;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kFileset) << length << ": " << error.message();
    }
  }
}

TEST(Fileset, PartsAreNeededOnlyForTheirOwnBytes) {
  GoldenSet set;
  std::filesystem::remove(set.part());
  Reader reader = Reader::open(set.entry());
  EXPECT_EQ(reader.read_resource("r.note"), "ninfer");
  EXPECT_EQ(reader.mapped("w.q4").size(), 260u);
  EXPECT_EQ(bytes_of(reader, 4000, 96).size(), 96u);
  const std::string part = set.part().string();
  expect_error(Code::kFileset, {part}, [&] { bytes_of(reader, 4000, 97); });
  expect_error(Code::kFileset, {part}, [&] { reader.mapped("a.div"); });
  expect_error(Code::kFileset, {part, "part 1"}, [&] { reader.open_all_parts(); });
}

TEST(Fileset, ForeignPartsAreRefused) {
  const auto refused = [](size_t at, char value, std::string_view needle) {
    GoldenSet set;
    std::string bytes = read_file(set.part());
    bytes[at] = value;
    write_file(set.part(), bytes);
    Reader reader = Reader::open(set.entry());
    expect_error(Code::kFileset, {set.part().string(), needle}, [&] { reader.mapped("a.div"); });
  };
  refused(0, 'M', "magic");
  refused(3, 'F', "magic");
  refused(7, 2, "magic");
  refused(8, 2, "part_index 2");
  refused(15, 1, "part_index");
  for (size_t at = 16; at < 32; ++at) refused(at, 'x', "artifact_id");
  GoldenSet set;
  write_file(set.part(), read_file(set.part()) + "x");
  expect_error(Code::kFileset, {"5637", "5636"},
               [&] { Reader::open(set.entry()).open_all_parts(); });
  write_file(set.part(), read_file(data_path("golden1.ninfer")).substr(0, 5636));
  expect_error(Code::kFileset, {"magic"}, [&] { Reader::open(set.entry()).open_all_parts(); });
  std::filesystem::remove(set.part());
  std::filesystem::create_directory(set.part());
  expect_error(Code::kFileset, {"regular"}, [&] { Reader::open(set.entry()).open_all_parts(); });
}

TEST(Fileset, TheSetMayMoveAndTheEntryMayBeRenamed) {
  GoldenSet set;
  std::filesystem::rename(set.entry(), set.folder() / "other name");
  Reader reader = Reader::open(set.folder() / "other name");
  EXPECT_EQ(load_le<float>(reader.mapped("a.div").data()), 2.5f);
  std::filesystem::rename(set.folder() / "other name", set.folder() / "x");
  std::filesystem::rename(set.part(), set.folder() / "other name");
  expect_error(Code::kFileset, {"part-0001"},
               [&] { Reader::open(set.folder() / "x").open_all_parts(); });
}

TEST(Fileset, AFileThatShrinksLaterIsAReadError) {
  GoldenSet set;
  Reader reader = Reader::open(set.entry());
  reader.open_all_parts();
  std::filesystem::resize_file(set.part(), 5000);
  expect_error(Code::kRead, {set.part().string()}, [&] { bytes_of(reader, 4000, 1636); });
  expect_error(Code::kRead, {set.part().string()}, [&] { reader.mapped("a.div"); });
}

TEST(Encoding, ConditionsHaveTheirClassAndWaitForTheRequest) {
  const auto refused = [](std::string_view from, std::string_view to, std::string_view needle) {
    const OneEntry file(from, to);
    Reader reader = Reader::open(file.path());
    EXPECT_EQ(reader.read_resource("r").size(), 6u);
    expect_error(Code::kEncoding, {file.path().string(), "'w'", needle},
                 [&] { reader.tensor("w"); });
    expect_error(Code::kEncoding, {"'w'"}, [&] { reader.mapped("w"); });
    expect_error(Code::kEncoding, {"'w'"}, [&] { reader.matrix("w", {4, 8}); });
  };
  refused("\"bf16\"", "\"bf17\"", "bf17");
  refused("\"bf16\"", "\"BF16\"", "BF16");
  refused("\"bf16\"", "\"int64\"", "int64");
  refused("\"bf16\"", "\"q4_g64_fp16\"", "contiguous_le_v1");
  refused("contiguous_le_v1", "row_split_k128_v1", "row_split_k128_v1");
  refused("contiguous_le_v1", "row_split_panel4_v1", "row_split_panel4_v1");
  refused("\"bytes\":64", "\"bytes\":63", "63");
  refused("[4,8]", "[4,9]", "72");
  refused("[4,8]", "[4294967296,4294967295]", "64 bits");
  refused("\"bytes\":64", "\"bytes\":64,\"divisors\":2", "divisors");
  refused("\"offset\":256", "\"offset\":250", "250");
  const OneEntry file("raw_bytes_v1", "zip_v1");
  Reader reader = Reader::open(file.path());
  EXPECT_EQ(reader.mapped("w").size(), 64u);
  expect_error(Code::kEncoding, {"zip_v1"}, [&] { reader.read_resource("r"); });
  expect_error(Code::kEncoding, {"zip_v1"}, [&] { reader.mapped("r"); });
}

TEST(Encoding, QuantisedFormatsNeedRankTwo) {
  const OneEntry file(R"("shape":[4,8],"format":"bf16","layout":"contiguous_le_v1")",
                      R"("shape":[32],"format":"q8_g32_fp16","layout":"row_split_k128_v1")");
  expect_error(Code::kEncoding, {"'w'", "rank"}, [&] { Reader::open(file.path()).tensor("w"); });
}

TEST(Encoding, NamesThatDoNotFitAreReferences) {
  const Reader reader = Reader::open(data_path("golden1.ninfer"));
  expect_error(Code::kReference, {"nothing"}, [&] { reader.tensor("nothing"); });
  expect_error(Code::kReference, {"r.note", "resource"}, [&] { reader.tensor("r.note"); });
  expect_error(Code::kReference, {"w.q4", "tensor"}, [&] { reader.read_resource("w.q4"); });
}

TEST(Mapped, CrossingObjectsAreWholeInEverySplit) {
  // The split set crosses files at a multiple of the page; the second split below does not.
  Reader whole = Reader::open(data_path("small.ninfer"));
  Reader split = Reader::open(data_path("split/small.ninfer"));
  TemporaryFolder folder;
  Json root = parse_json(canonical_text(whole.directory()), "small");
  const std::string all = read_file(data_path("small.ninfer"));
  const std::string payload = all.substr(all.size() - whole.directory().payload_bytes());
  constexpr uint64_t kCut = 1001;
  Json::Array files;
  std::vector<std::string> pieces;
  for (uint64_t at = 0; at < payload.size(); at += kCut) {
    pieces.push_back(payload.substr(at, kCut));
    files.push_back(
        Json::object({{"path", at == 0 ? Json() : Json(fmt::format("p{}", files.size()))},
                      {"payload_bytes", pieces.back().size()}}));
  }
  root.set("files", files);
  const std::string entry = entry_bytes(root.to_text(), 0);
  write_file(folder / "e.ninfer", entry + pieces[0]);
  for (size_t i = 1; i < pieces.size(); ++i) {
    std::string part(as_text(part_header(i, ArtifactId{})));
    part.resize(kFileAlignment, '\0');
    write_file(folder / fmt::format("p{}", i), part + pieces[i]);
  }
  Reader ragged = Reader::open(folder / "e.ninfer");
  for (const Object& object : whole.directory().objects) {
    const std::string_view expected(payload.data() + object.offset, object.bytes);
    EXPECT_EQ(as_text(whole.mapped(object.id)), expected) << object.id;
    EXPECT_EQ(as_text(split.mapped(object.id)), expected) << object.id;
    EXPECT_EQ(as_text(ragged.mapped(object.id)), expected) << object.id;
    EXPECT_EQ(split.mapped(object.id).data(), split.mapped(object.id).data());
  }
}

TEST(Matrix, HasTheValuesOfTheIndependentWriter) {
  const Json expected = parse_json(read_file(data_path("small.expected.json")), "expected");
  for (const auto& path : {data_path("small.ninfer"), data_path("split/small.ninfer")}) {
    Reader reader = Reader::open(path);
    for (const auto& [name, value] : expected.as_object()) {
      const codec::Geometry geometry{value.at("rows").as_u64(), value.at("cols").as_u64()};
      const codec::Matrix matrix = reader.matrix(name, geometry);
      ASSERT_EQ(matrix.rows, geometry.rows) << name;
      ASSERT_EQ(matrix.cols, geometry.cols) << name;
      const Json::Array& values = value.at("values").as_array();
      std::vector<float> row(geometry.cols);
      for (uint64_t r = 0; r < geometry.rows; ++r) {
        codec::decode_row(matrix, r, row.data());
        for (uint64_t c = 0; c < geometry.cols; ++c)
          ASSERT_EQ(row[c], values[r * geometry.cols + c].as_double())
              << name << " " << r << "," << c;
      }
    }
    EXPECT_EQ(reader.matrix("text/q4_swapped", {6, 130}).segments.size(), 2u);
    EXPECT_EQ(reader.matrix("text/q4_neighbours", {3, 130}).segments.size(), 1u);
    EXPECT_EQ(reader.matrix("text/two_parents", {3, 130}).segments[0].format,
              codec::FormatId::kQ5G64);
  }
}

TEST(Matrix, RowBlocksOfOneParent) {
  // §18.4: parent x, bf16 [8,4], rows Q0 Q0 G0 G0 Q1 Q1 G1 G1.
  const std::string text =
      R"({"components":{"text":{"config":{}}},"objects":[{"id":"x","shape":[8,4],"format":"bf16",)"
      R"("layout":"contiguous_le_v1","offset":0,"bytes":64,"kind":"tensor"}],"bindings":{)"
      R"("query":{"parts":[{"object":"x","range":[0,8]},{"object":"x","range":[16,24]}]},)"
      R"("gate":{"parts":[{"object":"x","range":[8,16]},{"object":"x","range":[24,32]}]},)"
      R"("cube":{"parts":[{"object":"x","range":[0,16]}]},"again":{"parts":[{"object":"x","range":[4,8]},{"object":"x","range":[4,8]}]}},)"
      R"("uses":[],"files":[{"path":null,"payload_bytes":64}]})";
  std::string payload;
  for (uint16_t row : {0, 1, 2, 3, 4, 5, 6, 7})
    for (int c = 0; c < 4; ++c) {
      const uint16_t word = f32_to_bf16(static_cast<float>(row));
      payload.append(reinterpret_cast<const char*>(&word), 2);
    }
  TemporaryFolder folder;
  write_file(folder / "e.ninfer", entry_bytes(text, 0) + payload);
  Reader reader = Reader::open(folder / "e.ninfer");
  const auto rows_of = [&](std::string_view name, codec::Geometry geometry) {
    const codec::Matrix matrix = reader.matrix(name, geometry);
    std::vector<float> firsts;
    std::vector<float> row(geometry.cols);
    for (uint64_t r = 0; r < matrix.rows; ++r) {
      codec::decode_row(matrix, r, row.data());
      firsts.push_back(row[0]);
    }
    return firsts;
  };
  EXPECT_EQ(rows_of("query", {4, 4}), (std::vector<float>{0, 1, 4, 5}));
  EXPECT_EQ(rows_of("gate", {4, 4}), (std::vector<float>{2, 3, 6, 7}));
  EXPECT_EQ(rows_of("cube", {4, 4}), (std::vector<float>{0, 1, 2, 3}));  // of shape [2,2,4]
  EXPECT_EQ(rows_of("cube", {2, 8}), (std::vector<float>{0, 2}));
  EXPECT_EQ(rows_of("again", {2, 4}), (std::vector<float>{1, 1}));
}

// Two matrices of nvfp4 in one parent, each with its divisor (§7.3; values of §18.8): parameters
// are the whole of it, or rows that lie in both.
TEST(Matrix, MatricesOfAStackHaveTheirOwnDivisors) {
  const std::string text =
      R"({"components":{"text":{"config":{}}},"objects":[{"id":"x","shape":[256,64],)"
      R"("format":"nvfp4","layout":"block_scale_k16_m128x4_v1","offset":0,"bytes":9224,)"
      R"("divisors":2,"kind":"tensor"}],"bindings":{"whole":{"object":"x"},)"
      R"("rows":{"parts":[{"object":"x","range":[8128,8256]}]}},)"
      R"("uses":[],"files":[{"path":null,"payload_bytes":9224}]})";
  std::string payload;
  for (int i = 0; i < 8192; ++i) payload += static_cast<char>(i % 256);
  payload.resize(9216);
  for (uint64_t n = 0; n < 256; ++n)
    for (uint64_t g = 0; g < 4; ++g)
      payload[8192 + codec::nvfp4_scale_offset({256, 64, 2}, n, g)] =
          static_cast<char>((4 * n + g) % 127);
  for (const float divisor : {2.5f, 0.5f})
    payload.append(reinterpret_cast<const char*>(&divisor), sizeof divisor);
  TemporaryFolder folder;
  write_file(folder / "e.ninfer", entry_bytes(text, 0) + payload);
  Reader reader = Reader::open(folder / "e.ninfer");
  const codec::Matrix whole = reader.matrix("whole", {256, 64}),
                      rows = reader.matrix("rows", {2, 64});
  const auto value = [](const codec::Matrix& matrix, uint64_t row, size_t col) {
    std::vector<float> out(64);
    codec::decode_row(matrix, row, out.data());
    return out[col];
  };
  EXPECT_EQ(value(whole, 127, 63), -0.01406249962747097f);
  EXPECT_EQ(value(whole, 200, 33), 0.25f);
  EXPECT_EQ(value(whole, 255, 62), -0.1640625f);
  EXPECT_EQ(value(rows, 0, 63), value(whole, 127, 63));
  EXPECT_EQ(value(rows, 1, 5), value(whole, 128, 5));
  expect_error(Code::kBinding, {"whole", "[256,64]", "[128,64]"},
               [&] { reader.matrix("whole", {128, 64}); });
}

TEST(Matrix, BindingConditionsHaveTheirClass) {
  Reader reader = Reader::open(data_path("small.ninfer"));
  const auto refused = [&](std::string_view name, codec::Geometry geometry,
                           std::string_view needle) {
    expect_error(Code::kBinding, {"small.ninfer", name, needle},
                 [&] { reader.matrix(name, geometry); });
  };
  refused("text/none", {6, 130}, "not bound");
  refused("text/q4", {130, 6}, "[130,6]");
  refused("text/q4", {5, 130}, "[5,130]");
  refused("text/bf16", {4, 6}, "[4,6]");        // whole form, another shape
  refused("text/q4_swapped", {5, 130}, "780");  // lengths do not sum up
  refused("text/q4_swapped", {12, 65}, "130");  // groups do not follow other columns
  refused("text/bf16_reshaped", {5, 5}, "25");
  refused("text/bias_tail", {0, 4}, "no elements");
  Binding ragged;
  ragged.parts = {{.object = "weight/000000", .begin = 65, .end = 195}};
  expect_error(Code::kBinding, {"aux", "[65,195)"},
               [&] { reader.matrix(ragged, {1, 130}, "aux"); });
  ragged.parts = {{.object = "weight/000004", .begin = 0, .end = 7},
                  {.object = "weight/000004", .begin = 7, .end = 12}};
  expect_error(Code::kBinding, {"[0,7)"}, [&] { reader.matrix(ragged, {2, 6}, "aux"); });
}

// Every way to look at an artifact; whatever is wrong with it must come out as an Error.
void look_at_everything(const std::filesystem::path& path) {
  const auto guarded = [](auto&& work) {
    try {
      work();
    } catch (const Error&) {
      // Any class is right for random damage; anything but an Error ends the test.
    }
  };
  guarded([&] {
    Reader reader = Reader::open(path);
    const std::string text = canonical_text(reader.directory());
    for (const Object& object : reader.directory().objects) {
      guarded([&] { reader.tensor(object.id); });
      guarded([&] { reader.read_resource(object.id); });
      guarded([&] {
        unsigned sum = 0;
        for (std::byte b : reader.mapped(object.id)) sum += static_cast<unsigned>(b);
        ASSERT_NE(sum, UINT32_MAX);
      });
    }
    for (const auto& [name, binding] : reader.directory().bindings) {
      guarded([&] {
        const std::string& id = binding.parts.empty() ? binding.object : binding.parts[0].object;
        codec::Geometry geometry = reader.tensor(id).geometry;
        if (!binding.parts.empty()) {
          uint64_t elements = 0;
          for (const Part& part : binding.parts) elements += part.end - part.begin;
          geometry.rows = elements / geometry.cols;
        }
        const codec::Matrix matrix = reader.matrix(name, geometry);
        std::vector<float> row(matrix.cols);
        for (uint64_t r = 0; r < matrix.rows; ++r) codec::decode_row(matrix, r, row.data());
      });
    }
  });
  guarded([&] { verify(path, 1, false, {}); });
}

TEST(Hostile, FlippedHeaderBitsAreErrorsOrValidReads) {
  TemporaryFolder folder;
  const auto path = folder / "e.ninfer";
  const std::string good = read_file(data_path("small.ninfer"));
  for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    write_file(path, bytes);
    if (bit / 8 < 8)
      expect_error(Code::kFraming, {"magic"}, [&] { Reader::open(path); });
    else
      look_at_everything(path);
  }
}

TEST(Hostile, RandomDamageIsAnErrorOrAValidRead) {
  TemporaryFolder folder;
  const auto path = folder / "e.ninfer";
  const std::string good = read_file(data_path("small.ninfer"));
  const size_t text_bytes = good.find("]}  ", kHeaderBytes) + 2;
  constexpr std::string_view kLikely = "0123456789\"{}[],:-.eE\\/ \0n";
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes = good;
    const auto flips = 1 + random() % 3;
    for (unsigned i = 0; i < flips; ++i) {
      const size_t at = kHeaderBytes + random() % (text_bytes - kHeaderBytes);
      bytes[at] = random() % 2 ? kLikely[random() % kLikely.size()]
                               : static_cast<char>(bytes[at] ^ (1 << random() % 8));
    }
    write_file(path, bytes);
    look_at_everything(path);
  }
}

TEST(Hostile, RandomPayloadIsAnErrorOrAValidRead) {
  TemporaryFolder folder;
  const auto path = folder / "e.ninfer";
  const std::string good = read_file(data_path("small.ninfer"));
  const uint64_t payload = entry_payload_start(load_le<uint64_t>(as_bytes(good).data() + 8));
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::string bytes = good;
    for (size_t at = payload; at < bytes.size(); ++at) bytes[at] = static_cast<char>(random());
    write_file(path, bytes);
    look_at_everything(path);
  }
}

}  // namespace
}  // namespace flare::artifact
