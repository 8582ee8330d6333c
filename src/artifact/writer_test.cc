// The writer promises: the bytes of the golden files, exact accounting, nothing visible or left
// behind before everything is right.
#include "artifact/writer.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <set>

#include "artifact/artifact_fixture.h"
#include "artifact/reader.h"
#include "base/hash/sha256.h"

namespace flare::artifact {
namespace {

Object tensor(std::string id, codec::Shape shape, std::string format, std::string layout,
              uint64_t bytes) {
  Object object;
  object.id = std::move(id);
  object.shape = std::move(shape);
  object.format = std::move(format);
  object.layout = std::move(layout);
  object.bytes = bytes;
  return object;
}

// §18.6 as a caller would make it.
Directory golden_directory() {
  Directory d;
  Component text;
  text.config =
      Json::object({{"architectures", Json::array({"Golden"})}, {"eps", 1e-6}, {"theta", 1e7}});
  text.resources = {{"note.txt", "r.note"}};
  d.components = {{"text", text}};
  Object note;
  note.kind = Object::Kind::kResource;
  note.id = "r.note";
  note.encoding = "raw_bytes_v1";
  note.bytes = 6;
  d.objects = {note, tensor("w.q4", {1, 65}, "q4_g64_fp16", "row_split_k128_v1", 260),
               tensor("w.nv", {128, 64}, "nvfp4", "block_scale_k16_m128x4_v1", 4612),
               tensor("a.div", {}, "fp32", "contiguous_le_v1", 4)};
  Binding parts;
  parts.parts = {{.object = "w.nv", .begin = 4096, .end = 8192},
                 {.object = "w.nv", .begin = 0, .end = 4096}};
  d.bindings = {{"text/a", {.object = "w.q4", .parts = {}}}, {"text/b", parts}};
  Use use;
  use.parameter = "text/b";
  use.input = "text/in";
  use.activation_policy = "AllowA4";
  use.auxiliaries = {{"activation_input_divisor", {.object = "a.div", .parts = {}}}};
  d.uses = {use};
  d.metadata = Json::object({{"name", "golden-1"}});
  place_objects(d);
  return d;
}

// Payload of §18.6, from the rules of §18.8.
std::string golden_payload() {
  std::string payload(5636, '\0');
  payload.replace(0, 6, "ninfer");
  const std::string_view codes("\x98\x0f\x71", 3);
  payload.replace(256, 3, codes);
  const std::string_view scales("\x00\x3e\x00\x34", 4);
  payload.replace(256 + 256, 4, scales);
  char* nv = payload.data() + 768;
  for (int i = 0; i < 4096; ++i) nv[i] = static_cast<char>(i == 0 ? 0x10 : i % 256);
  for (int n = 0; n < 128; ++n)
    for (int g = 0; g < 4; ++g)
      nv[4096 + 16 * (n % 32) + 4 * (n / 32) + g] = static_cast<char>((4 * n + g) % 127);
  const float divisor = 2.5f;
  std::memcpy(nv + 4608, &divisor, 4);
  std::memcpy(payload.data() + 5632, &divisor, 4);
  return payload;
}

WriteOptions golden_options(std::optional<uint64_t> limit = {}) {
  return {.max_file_bytes = limit, .id = id_from_hex("000102030405060708090a0b0c0d0e0f")};
}

// Every object's bytes out of `payload`.
void write_objects(Writer& writer, std::string_view payload) {
  for (const Object& object : writer.directory().objects)
    writer.write(object.offset, as_bytes(payload.substr(object.offset, object.bytes)));
}

std::filesystem::path write_golden(const TemporaryFolder& folder, const WriteOptions& options) {
  const auto target = folder / "golden1.ninfer";
  Writer writer(target, golden_directory(), options);
  write_objects(writer, golden_payload());
  writer.finish();
  return target;
}

TEST(Writer, MakesTheGoldenFileBitForBit) {
  TemporaryFolder folder;
  const std::string bytes = read_file(write_golden(folder, golden_options()));
  EXPECT_EQ(sha256_hex(as_bytes(bytes)),
            "805032ae9ab9d5ae455871a7ead738b193a32eef85fba4559d3844c3e65d3a7b");
  EXPECT_EQ(bytes, read_file(data_path("golden1.ninfer")));
  EXPECT_EQ(folder.names().size(), 1u);
}

TEST(Writer, MakesTheGoldenSetBitForBit) {
  TemporaryFolder folder;
  const std::string entry = read_file(write_golden(folder, golden_options(8192)));
  const std::string part = read_file(folder / "golden1.ninfer.part-0001");
  EXPECT_EQ(sha256_hex(as_bytes(entry)),
            "238a6d68d1f5b433034cd1a08a0063cf7f5b56bd9dc52d263e46d70276621da6");
  EXPECT_EQ(sha256_hex(as_bytes(part)),
            "a9c37ec0792233c16628d4ad1a0dc8248f1025dd167815c89c3618624a68eaeb");
  EXPECT_EQ(entry, read_file(data_path("split/golden1.ninfer")));
  EXPECT_EQ(part, read_file(data_path("split/golden1.ninfer.part-0001")));
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(Writer, RebuildsTheSmallSetFromItsRecordsInAnyOrderOfWrites) {
  const Reader source = Reader::open(data_path("small.ninfer"));
  for (const auto& [limit, reference] :
       {std::pair<std::optional<uint64_t>, const char*>{std::nullopt, "small.ninfer"},
        {8192, "split/small.ninfer"}}) {
    TemporaryFolder folder;
    Directory d = source.directory();
    for (Object& object : d.objects) object.offset = 0;
    place_objects(d);
    Writer writer(folder / "small.ninfer", d, {.max_file_bytes = limit, .id = source.id()});
    for (auto object = d.objects.rbegin(); object != d.objects.rend(); ++object)
      for (uint64_t start : {1, 0})  // odd chunks of 37 bytes first, then the even ones
        for (uint64_t at = start * 37; at < object->bytes; at += 74) {
          std::vector<std::byte> chunk(std::min<uint64_t>(37, object->bytes - at));
          source.read(object->offset + at, chunk);
          writer.write(object->offset + at, chunk);
        }
    writer.finish();
    EXPECT_EQ(read_file(folder / "small.ninfer"), read_file(data_path(reference)));
    if (limit) {
      EXPECT_EQ(read_file(folder / "small.ninfer.part-0001"),
                read_file(data_path("split/small.ninfer.part-0001")));
    }
  }
}

TEST(Plan, MeetsTheFiguresOfTheExamples) {
  // §18.1: one file; §18.2: limit 64,000,000. Offsets and sizes are computed anew.
  for (const bool mixed : {false, true}) {
    const std::string text = read_file(data_path(mixed ? "mixed_layer.json" : "one_layer.json"));
    Directory d = parse_directory(text, "example", "example.ninfer");
    const std::vector<Object> placed = d.objects;
    for (Object& object : d.objects) {
      object.offset = 0;
      if (object.kind == Object::Kind::kTensor)
        object.bytes = codec::encoded_bytes(*codec::find_format(object.format), object.layout,
                                            object.shape, object.divisors);
    }
    place_objects(d);
    for (size_t i = 0; i < placed.size(); ++i) {
      EXPECT_EQ(d.objects[i].offset, placed[i].offset) << placed[i].id;
      EXPECT_EQ(d.objects[i].bytes, placed[i].bytes) << placed[i].id;
    }
    const uint64_t payload = d.objects.back().offset + d.objects.back().bytes;
    WriteOptions options{.min_json_bytes = 65504};
    if (mixed) options.max_file_bytes = 64000000;
    const FilePlan plan = plan_files(d, payload, "example.ninfer", options);
    EXPECT_EQ(plan.json_bytes, 65504u);
    EXPECT_EQ(plan.text, text);
    std::vector<uint64_t> sizes;
    for (const FileEntry& file : plan.files) sizes.push_back(file.payload_bytes);
    EXPECT_EQ(sizes, mixed ? (std::vector<uint64_t>{63934464, 63995904, 8495872})
                           : (std::vector<uint64_t>{136518400}));
    if (mixed) {
      EXPECT_EQ(plan.files[2].path, "example.ninfer.part-0002");
    }
    EXPECT_EQ(payload, mixed ? 136426240u : 136518400u);
  }
}

TEST(Plan, EnlargesTheReserveForALongTable) {
  // 964 bytes of text with one file; each further file adds about 60, so that the reserve of one
  // page overflows and the capacity of the entry shrinks with it.
  Directory d = golden_directory();
  d.objects.back().bytes = 1;
  const uint64_t payload = 8192 * 90;
  const FilePlan plan = plan_files(d, payload, "golden1.ninfer", {.max_file_bytes = 16384});
  EXPECT_GT(plan.text.size(), 4064u);
  EXPECT_EQ((plan.json_bytes + kHeaderBytes) % 4096, 0u);
  EXPECT_GE(plan.json_bytes, plan.text.size());
  uint64_t sum = 0;
  for (size_t i = 0; i < plan.files.size(); ++i) {
    const uint64_t start = i == 0 ? plan.json_bytes + kHeaderBytes : 4096;
    EXPECT_LE(start + plan.files[i].payload_bytes, 16384u);
    if (i + 1 < plan.files.size()) {
      EXPECT_EQ(plan.files[i].payload_bytes, (16384 - start) / 4096 * 4096);
    }
    sum += plan.files[i].payload_bytes;
  }
  EXPECT_EQ(sum, payload);
}

TEST(Plan, LimitsThatLeaveNoRoomAreUsageErrors) {
  const Directory d = golden_directory();
  for (const uint64_t limit : {0u, 1u, 4096u, 8191u})
    expect_error(Code::kUsage, {"g.ninfer", "max_file_bytes", std::to_string(limit)},
                 [&] { plan_files(d, 5636, "g.ninfer", {.max_file_bytes = limit}); });
  EXPECT_EQ(plan_files(d, 5636, "g.ninfer", {.max_file_bytes = 9732}).files.size(), 1u);
  EXPECT_EQ(plan_files(d, 5636, "g.ninfer", {.max_file_bytes = 9731}).files.size(), 2u);
  EXPECT_EQ(plan_files(d, 5636, "g.ninfer", {.min_json_bytes = 5000}).json_bytes, 8160u);
}

TEST(Accounting, EveryByteExactlyOnce) {
  TemporaryFolder folder;
  const std::string payload = golden_payload();
  const Bytes bytes = as_bytes(payload);
  const auto target = folder / "g.ninfer";
  {
    Writer writer(target, golden_directory(), {});
    const auto refused = [&](uint64_t offset, uint64_t length, std::string_view needle) {
      expect_error(Code::kWrite, {target.string(), needle},
                   [&] { writer.write(offset, bytes.first(length)); });
    };
    writer.write(3000, {});
    refused(6, 1, "[6,7)");           // a gap
    refused(5, 2, "[5,7)");           // leaves the object
    refused(0, 300, "[0,300)");       // crosses a gap
    refused(5635, 2, "[5635,5637)");  // beyond the end
    refused(UINT64_MAX - 1, 1, "18446744073709551614");
    expect_error(Code::kRange, {"64 bits"}, [&] { writer.write(UINT64_MAX, bytes.first(2)); });
    writer.write(256, bytes.subspan(256, 100));
    writer.write(400, bytes.subspan(400, 116));
    refused(256, 1, "twice");
    refused(355, 10, "twice");
    refused(390, 11, "twice");
    refused(300, 200, "twice");
    refused(515, 1, "'w.q4' byte 259");
    expect_error(Code::kWrite, {"'r.note' byte 0", "never written"}, [&] { writer.finish(); });
    writer.write(0, bytes.first(6));
    expect_error(Code::kWrite, {"'w.q4' byte 100"}, [&] { writer.finish(); });
    writer.write(356, bytes.subspan(356, 44));
    expect_error(Code::kWrite, {"'w.nv' byte 0"}, [&] { writer.finish(); });
    writer.write(768, bytes.subspan(768, 4612));
    expect_error(Code::kWrite, {"'a.div' byte 0"}, [&] { writer.finish(); });
    EXPECT_FALSE(std::filesystem::exists(target));
  }
  EXPECT_EQ(folder.names().size(), 0u);
}

TEST(Writer, RefusesDirectoriesThatNoReaderWouldTake) {
  TemporaryFolder folder;
  const auto refused = [&](Code code, std::string_view needle, auto&& change) {
    Directory d = golden_directory();
    change(d);
    expect_error(code, {needle}, [&] { Writer(folder / "g.ninfer", d, {}); });
    EXPECT_EQ(folder.names().size(), 0u);
  };
  refused(Code::kDirectory, "objects", [](Directory& d) { d.objects.clear(); });
  refused(Code::kDirectory, "components", [](Directory& d) { d.components.clear(); });
  refused(Code::kDirectory, "'w.q4' appears twice", [](Directory& d) { d.objects[2].id = "w.q4"; });
  refused(Code::kRange, "objects[1]", [](Directory& d) { d.objects[1].offset = 0; });
  refused(Code::kRange, "objects[2]", [](Directory& d) { d.objects[2].bytes = UINT64_MAX; });
  refused(Code::kReference, "w.other",
          [](Directory& d) { d.bindings[0].second.object = "w.other"; });
  refused(Code::kDirectory, "invalid JSON", [](Directory& d) { d.metadata.set("x", "\xff"); });
  refused(Code::kDirectory, "nesting", [](Directory& d) {
    Json deep = Json::array();
    for (int i = 0; i < 70; ++i) deep = Json::array({deep});
    d.provenance.set("deep", deep);
  });
  refused(Code::kValue, "NaN", [](Directory& d) { d.provenance.set("x", std::stod("nan")); });
}

TEST(Publication, NeverTouchesAnExistingTarget) {
  for (const char* existing : {"golden1.ninfer", "golden1.ninfer.part-0001"}) {
    TemporaryFolder folder;
    write_file(folder / existing, "mine");
    expect_error(Code::kExists, {existing}, [&] { write_golden(folder, golden_options(8192)); });
    EXPECT_EQ(read_file(folder / existing), "mine");
    EXPECT_EQ(folder.names().size(), 1u);
  }
  // A dangling link is a target too.
  TemporaryFolder folder;
  std::filesystem::create_symlink("nowhere", folder / "golden1.ninfer");
  expect_error(Code::kExists, {"golden1.ninfer"}, [&] { write_golden(folder, golden_options()); });
}

TEST(Publication, ATargetThatAppearsMeanwhileIsKept) {
  for (const char* existing : {"golden1.ninfer", "golden1.ninfer.part-0001"}) {
    TemporaryFolder folder;
    {
      Writer writer(folder / "golden1.ninfer", golden_directory(), golden_options(8192));
      write_objects(writer, golden_payload());
      EXPECT_EQ(folder.names().size(), 2u);  // temporary siblings
      write_file(folder / existing, "mine");
      expect_error(Code::kExists, {existing}, [&] { writer.finish(); });
    }
    EXPECT_EQ(read_file(folder / existing), "mine");
    EXPECT_EQ(folder.names().size(), 1u) << "files published by the failed run stay behind";
  }
}

TEST(Publication, AMissingFolderIsNotFound) {
  TemporaryFolder folder;
  expect_error(Code::kNotFound, {"absent"},
               [&] { Writer(folder / "absent/g.ninfer", golden_directory(), {}); });
}

TEST(Publication, ForceReplacesTheSetAndItsOwnPartsOnly) {
  TemporaryFolder folder;
  WriteOptions options = golden_options(8192);
  const auto target = write_golden(folder, options);
  write_file(folder / "golden1.ninfer.part-0007", "not of this set");
  options.force = true;
  options.max_file_bytes.reset();
  {
    Writer unfinished(target, golden_directory(), options);
    write_objects(unfinished, golden_payload());
  }
  EXPECT_EQ(read_file(target), read_file(data_path("split/golden1.ninfer")));
  write_golden(folder, options);
  EXPECT_EQ(read_file(target), read_file(data_path("golden1.ninfer")));
  EXPECT_FALSE(std::filesystem::exists(folder / "golden1.ninfer.part-0001"));
  EXPECT_EQ(folder.names().size(), 2u);

  // A part that belongs to another artifact survives, and so does whatever an entry falsely names.
  write_file(target, replaced(read_file(data_path("split/golden1.ninfer")),
                              "golden1.ninfer.part-0001", "golden1.ninfer.part-0007"));
  write_golden(folder, options);
  EXPECT_EQ(read_file(folder / "golden1.ninfer.part-0007"), "not of this set");
  EXPECT_EQ(read_file(target), read_file(data_path("golden1.ninfer")));

  // What is no artifact is replaced as well.
  write_file(target, "text");
  options.max_file_bytes = 8192;
  write_golden(folder, options);
  Reader::open(target).open_all_parts();
}

// `work` in a process of its own; its exit status.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(Publication, AFileSizeLimitIsAWriteErrorAndLeavesNothing) {
  TemporaryFolder folder;
  for (const rlim_t limit : {100u, 4096u, 5000u, 9000u}) {
    const int status = in_child([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit bound{limit, limit};
      if (::setrlimit(RLIMIT_FSIZE, &bound) != 0) return 3;
      try {
        write_golden(folder, golden_options());
      } catch (const Error& error) {
        return error.code() == Code::kWrite ? 0 : 2;
      }
      return 1;
    });
    EXPECT_EQ(status, 0) << limit;
    EXPECT_EQ(folder.names().size(), 0u);
  }
}

TEST(Publication, AFullFileSystemIsAWriteErrorAndLeavesNothing) {
  TemporaryFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "no tmpfs can be mounted here: " << std::strerror(errno);
  Directory d = golden_directory();
  d.objects[0].bytes = 1 << 20;
  place_objects(d);
  {
    expect_error(Code::kWrite, {"golden1.ninfer", "No space"}, [&] {
      Writer writer(folder / "golden1.ninfer", d, {});
      const std::string note(1 << 20, 'n');
      writer.write(0, as_bytes(note));
    });
  }
  EXPECT_EQ(folder.names().size(), 0u);
  ::umount(folder.path().c_str());
}

TEST(Reshard, KeepsPayloadAndRecordsUnderANewId) {
  TemporaryFolder folder;
  const Reader source = Reader::open(data_path("small.ninfer"));
  uint64_t seen = 0;
  reshard(source.path(), folder / "a.ninfer", {.max_file_bytes = 8192},
          [&](uint64_t bytes) { seen += bytes; });
  EXPECT_EQ(seen, source.directory().payload_bytes());
  const Reader split = Reader::open(folder / "a.ninfer");
  EXPECT_EQ(split.directory().files.at(1).path, "a.ninfer.part-0001");
  EXPECT_NE(split.id(), source.id());
  // Back to one file under the old id: the first file again, byte for byte.
  reshard(folder / "a.ninfer", folder / "b.ninfer", {.id = source.id()}, {});
  EXPECT_EQ(read_file(folder / "b.ninfer"), read_file(data_path("small.ninfer")));
  // In place, over itself.
  reshard(folder / "a.ninfer", folder / "a.ninfer", {.id = source.id(), .force = true}, {});
  EXPECT_EQ(read_file(folder / "a.ninfer"), read_file(data_path("small.ninfer")));
  EXPECT_EQ(folder.names().size(), 2u);
}

TEST(Reshard, KeepsFormatsItDoesNotKnowAndGapsAsTheyAre) {
  TemporaryFolder folder;
  std::string bytes = read_file(data_path("golden1.ninfer"));
  bytes[4096 + 100] = 'x';  // a gap byte has no meaning, but it is payload
  write_file(folder / "a.ninfer", bytes);
  reshard(folder / "a.ninfer", folder / "b.ninfer", golden_options(), {});
  EXPECT_EQ(read_file(folder / "b.ninfer"), bytes);
}

TEST(Reshard, NeedsEveryPart) {
  TemporaryFolder folder;
  write_golden(folder, golden_options(8192));
  std::filesystem::remove(folder / "golden1.ninfer.part-0001");
  expect_error(Code::kFileset, {"part-0001"},
               [&] { reshard(folder / "golden1.ninfer", folder / "b.ninfer", {}, {}); });
  EXPECT_EQ(folder.names().size(), 1u);
}

TEST(Ids, AreVersionFourAndFresh) {
  std::set<ArtifactId> seen;
  for (int i = 0; i < 100; ++i) {
    const ArtifactId id = random_id();
    EXPECT_EQ(std::to_integer<int>(id[6]) >> 4, 4);
    EXPECT_EQ(std::to_integer<int>(id[8]) >> 6, 2);
    EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_EQ(to_hex(id_from_hex("000102030405060708090A0b0c0d0e0f")),
            "000102030405060708090a0b0c0d0e0f");
  for (const char* bad :
       {"", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f0"})
    expect_error(Code::kUsage, {"32 hex"}, [&] { id_from_hex(bad); });
}

TEST(Verify, AcceptsGoodSetsAndCountsEveryByte) {
  for (const char* name : {"small.ninfer", "split/small.ninfer"}) {
    uint64_t objects = 0;
    const Reader reader = Reader::open(data_path(name));
    for (const Object& object : reader.directory().objects) objects += object.bytes;
    for (const int threads : {1, 3}) {
      uint64_t seen = 0;
      verify(data_path(name), threads, false, [&](uint64_t bytes) { seen += bytes; });
      EXPECT_EQ(seen, objects);
    }
    verify(data_path(name), 1, true, [](uint64_t) { FAIL() << "quick reads no payload"; });
    verify(data_path(name), 2, false, {});
  }
}

TEST(Verify, NamesObjectRowAndRule) {
  const std::string good = read_file(data_path("small.ninfer"));
  const Reader reader = Reader::open(data_path("small.ninfer"));
  const uint64_t payload = good.size() - reader.directory().payload_bytes();
  TemporaryFolder folder;
  const auto refused = [&](std::string_view id, uint64_t at, unsigned value,
                           std::initializer_list<std::string_view> needles) {
    std::string bytes = good;
    bytes[payload + reader.directory().find_object(id)->offset + at] = static_cast<char>(value);
    write_file(folder / "e.ninfer", bytes);
    for (const int threads : {1, 2})
      expect_error(Code::kValue, needles, [&] { verify(folder / "e.ninfer", threads, false, {}); });
    verify(folder / "e.ninfer", 1, true, {});
  };
  // weight/000000: q4 [6,130], Kpad 256, 4 groups: base 768 bytes, scales at 768.
  refused("weight/000000", 768 + 2 * 9 + 1, 0x7C, {"'weight/000000'", "row 2"});  // infinity
  refused("weight/000000", 3 * 128 + 65, 0x10, {"'weight/000000'", "row 3"});     // padding lane
  // weight/000001: q5 [5,130]: base 640 bytes, gap to 768.
  refused("weight/000001", 700, 1, {"'weight/000001'", "byte 700"});
  // weight/000003: q8 [12,200], Kpad 256.
  refused("weight/000003", 11 * 256 + 3, 0x80, {"'weight/000003'", "row 11"});
}

TEST(Verify, FindsTheFirstBadRowOfManyBlocks) {
  // q8 [40000,256]: 10 MiB of codes, several blocks for each of the workers.
  TemporaryFolder folder;
  constexpr uint64_t kRows = 40000;
  Directory d;
  d.components = {{"text", {.config = Json::object()}}};
  const uint64_t bytes = codec::encoded_bytes(codec::format(codec::FormatId::kQ8G32),
                                              "row_split_k128_v1", {kRows, 256}, 1);
  d.objects = {tensor("w", {kRows, 256}, "q8_g32_fp16", "row_split_k128_v1", bytes)};
  std::string payload(bytes, '\0');
  for (const bool bad : {false, true}) {
    if (bad) payload[17000 * 256 + 9] = payload[39999 * 256] = '\x80';
    Writer writer(folder / "e.ninfer", d, {.force = true});
    writer.write(0, as_bytes(payload));
    writer.finish();
    for (const int threads : {1, 2, 3}) {
      if (bad) {
        expect_error(Code::kValue, {"'w'", "row 17000"},
                     [&] { verify(folder / "e.ninfer", threads, false, {}); });
      } else {
        verify(folder / "e.ninfer", threads, false, {});
      }
    }
  }
}

TEST(Verify, NeedsEveryPartAndEveryCodec) {
  verify(data_path("golden1.ninfer"), 1, true, {});
  TemporaryFolder folder;
  std::string bytes = read_file(data_path("golden1.ninfer"));
  bytes.replace(bytes.find("\"nvfp4\""), 7, "\"exl3q\"");
  folder.write("other.ninfer", bytes);
  expect_error(Code::kEncoding, {"w.nv", "exl3q"},
               [&] { verify(folder / "other.ninfer", 1, true, {}); });
  write_golden(folder, golden_options(8192));
  std::filesystem::remove(folder / "golden1.ninfer.part-0001");
  expect_error(Code::kFileset, {"part-0001"},
               [&] { verify(folder / "golden1.ninfer", 1, true, {}); });
}

}  // namespace
}  // namespace flare::artifact
