// The directory promises: strict reading, every condition of §13.6 with its class, canonical text.
#include "artifact/directory.h"

#include "artifact/artifact_fixture.h"
#include "base/hash/sha256.h"

namespace flare::artifact {
namespace {

constexpr std::string_view kText =
    R"({"components":{"text":{"config":{"architectures":["T"],"x":null},"resources":{"note.txt":"r"},)"
    R"("proposal":{"domain":"indexed","rows":4}},"mtp":{"config":{},"target":"text"}},)"
    R"("objects":[{"id":"r","encoding":"raw_bytes_v1","offset":0,"bytes":6,"kind":"resource"},)"
    R"({"id":"w","shape":[4,8],"format":"bf16","layout":"contiguous_le_v1","offset":256,"bytes":64,"kind":"tensor"}],)"
    R"("bindings":{"text/w":{"object":"w"},"text/p":{"parts":[{"object":"w","range":[16,32]},{"object":"w","range":[0,8]}]}},)"
    R"("uses":[{"parameter":"text/w","input":"in","activation_policy":"A16Only","auxiliaries":{"hadamard_signs":{"object":"w"}}},)"
    R"({"parameter":"text/w","input":"other"}],"metadata":{"name":"n"},"provenance":{"p":[null]},)"
    R"("files":[{"path":null,"payload_bytes":200},{"path":"b.part","payload_bytes":120}]})";

Directory parse(std::string_view text) { return parse_directory(text, "dir/e.ninfer", "e.ninfer"); }

struct Mutation {
  std::string_view from, to;
  Code code;
  std::string_view needle;  // the field, or the value, that the message must name
};

void expect_refused(const std::vector<Mutation>& mutations) {
  for (const Mutation& m : mutations) {
    SCOPED_TRACE(std::string(m.from) + " -> " + std::string(m.to));
    const std::string text = replaced(std::string(kText), m.from, m.to);
    expect_error(m.code, {"dir/e.ninfer", m.needle}, [&] { parse(text); });
  }
}

TEST(Directory, HoldsWhatTheTextSays) {
  const Directory d = parse(std::string(" \n") + std::string(kText) + "\t  ");
  ASSERT_EQ(d.components.size(), 2u);
  EXPECT_EQ(d.find_component("mtp")->target, "text");
  EXPECT_EQ(d.find_component("text")->resources.at(0),
            (std::pair<std::string, std::string>("note.txt", "r")));
  EXPECT_EQ(d.find_component("text")->proposal->rows, 4u);
  EXPECT_EQ(d.find_component("vision"), nullptr);
  EXPECT_EQ(d.find_object("w")->shape, (codec::Shape{4, 8}));
  EXPECT_EQ(d.find_object("w")->divisors, 1u);
  EXPECT_EQ(d.find_object("v"), nullptr);
  EXPECT_EQ(d.find_binding("text/p")->parts.at(1).end, 8u);
  EXPECT_EQ(d.find_binding("text/q"), nullptr);
  EXPECT_EQ(d.uses.at(0).auxiliaries.at(0).second.object, "w");
  EXPECT_EQ(d.uses.at(1).activation_policy, "");
  EXPECT_EQ(d.files.at(1).path, "b.part");
  EXPECT_EQ(d.payload_bytes(), 320u);
}

TEST(Directory, MetadataAndProvenanceMayBeAbsent) {
  const std::string text =
      replaced(std::string(kText), R"("metadata":{"name":"n"},"provenance":{"p":[null]},)", "");
  EXPECT_TRUE(parse(text).metadata.as_object().empty());
}

TEST(Directory, KeepsUnknownFormatsLayoutsEncodingsAndComponents) {
  std::string text = replaced(std::string(kText), "\"bf16\"", "\"exl3_4\"");
  text = replaced(text, "contiguous_le_v1", "exl3_tile_v1");
  text = replaced(text, "raw_bytes_v1", "zip_v9");
  text = replaced(text, "\"mtp\":", "\"audio\":");
  const Directory d = parse(text);
  EXPECT_EQ(d.find_object("w")->format, "exl3_4");
  EXPECT_EQ(d.find_object("r")->encoding, "zip_v9");
  EXPECT_NE(d.find_component("audio"), nullptr);
}

TEST(Directory, RefusesWhatIsNoJson) {
  using namespace std::literals;
  const std::string good(kText);
  std::string deep = good;
  deep = replaced(deep, "[null]", std::string(63, '[') + std::string(63, ']'));
  const std::string texts[] = {
      "\xEF\xBB\xBF" + good,
      good + "{}",
      good + "\0"s,
      good + "\0\0"s,
      replaced(good, "\"n\"", "\"\\ud800\""),
      replaced(good, "\"n\"", "\"\\udc00x\""),
      replaced(good, "\"n\"", "\"\xff\""),
      replaced(good, "\"n\"", "\"\xc0\xaf\""),
      replaced(good, "\"n\"", "\"\xed\xa0\x80\""),
      replaced(good, "\"n\"", "\"a\nb\""),
      replaced(good, "\"n\"", "1e999"),
      replaced(good, "\"n\"", "NaN"),
      replaced(good, "\"n\"", "01"),
      replaced(good, "},\"files\"", ",},\"files\""),
      good.substr(0, good.size() - 1),
      deep,
      "",
      "  ",
      "[]",
      "null",
  };
  for (const std::string& text : texts)
    expect_error(Code::kDirectory, {"dir/e.ninfer"}, [&] { parse(text); });
}

TEST(Directory, AllowsNestingUpToTheLimit) {
  // Root and provenance are two levels of the 64.
  parse(replaced(std::string(kText), "[null]", std::string(62, '[') + std::string(62, ']')));
}

TEST(Directory, RefusesRepeatedNamesAtEveryDepth) {
  expect_refused({
      {R"("metadata":)", R"("uses":[],"metadata":)", Code::kDirectory, "uses"},
      {R"("name":"n")", R"("name":"n","na\u006de":"m")", Code::kDirectory, "name"},
      {R"("x":null)", R"("x":{"deep":{"y":1,"y":1}})", Code::kDirectory, "y"},
      {R"("text/p":)", R"("text/w":)", Code::kDirectory, "text/w"},
      {R"("mtp":)", R"("text":)", Code::kDirectory, "text"},
      {R"("offset":256)", R"("offset":256,"offset":256)", Code::kDirectory, "offset"},
  });
}

TEST(Directory, MemberSetsAreClosed) {
  expect_refused({
      {R"("metadata":)", R"("extra":1,"metadata":)", Code::kDirectory, "extra"},
      {R"("target":"text")", R"("target":"text","kind":1)", Code::kDirectory, "mtp"},
      {R"("domain":"indexed",)", R"("domain":"indexed","k":1,)", Code::kDirectory, "'k'"},
      {R"("bytes":6)", R"("bytes":6,"shape":[])", Code::kDirectory, "shape"},
      {R"("bytes":64)", R"("bytes":64,"encoding":"e")", Code::kDirectory, "encoding"},
      {R"({"object":"w"},"text/p")", R"({"object":"w","range":[0,1]},"text/p")", Code::kDirectory,
       "range"},
      {R"("range":[0,8])", R"("range":[0,8],"offset":0)", Code::kDirectory, "text/p"},
      {R"("input":"in")", R"("input":"in","output":"o")", Code::kDirectory, "output"},
      {R"("payload_bytes":120)", R"("payload_bytes":120,"sha256":"")", Code::kDirectory, "sha256"},
      {R"("uses":[)", R"("user":[)", Code::kDirectory, "user"},
      {R"("config":{},)", "", Code::kDirectory, "config"},
      {R"(,"kind":"tensor")", "", Code::kDirectory, "kind"},
      {R"("layout":"contiguous_le_v1",)", "", Code::kDirectory, "layout"},
      {R"("encoding":"raw_bytes_v1",)", "", Code::kDirectory, "encoding"},
      {R"("range":[0,8])", R"("r":[0,8])", Code::kDirectory, "'r'"},
      {R"("input":"other")", R"("activation_policy":"AllowA8")", Code::kDirectory, "input"},
      {R"("path":"b.part",)", "", Code::kDirectory, "path"},
      {R"(,"payload_bytes":120)", "", Code::kDirectory, "payload_bytes"},
      {R"("domain":"indexed",)", "", Code::kDirectory, "domain"},
  });
}

TEST(Directory, TypesAreExact) {
  for (const char* number :
       {"5.0", "5e0", "-0", "-1", "true", "\"5\"", "null", "[5]", "18446744073709551616", "1e3"}) {
    expect_refused({
        {R"("offset":256)", fmt::format(R"("offset":{})", number), Code::kDirectory, "offset"},
        {R"("bytes":64)", fmt::format(R"("bytes":{})", number), Code::kDirectory, "bytes"},
        {R"("bytes":64)", fmt::format(R"("bytes":64,"divisors":{})", number), Code::kDirectory,
         "divisors"},
        {R"([4,8])", fmt::format("[4,{}]", number), Code::kDirectory, "shape"},
        {R"([0,8])", fmt::format("[{},8]", number), Code::kDirectory, "range"},
        {R"("rows":4)", fmt::format(R"("rows":{})", number), Code::kDirectory, "rows"},
        {R"("payload_bytes":120)", fmt::format(R"("payload_bytes":{})", number), Code::kDirectory,
         "payload_bytes"},
    });
  }
  expect_refused({
      {R"("id":"w")", R"("id":7)", Code::kDirectory, "id"},
      {R"("id":"w")", R"("id":null)", Code::kDirectory, "id"},
      {R"("format":"bf16")", R"("format":["bf16"])", Code::kDirectory, "format"},
      {R"("shape":[4,8])", R"("shape":32)", Code::kDirectory, "shape"},
      {R"("config":{})", R"("config":[])", Code::kDirectory, "config"},
      {R"("config":{})", R"("config":null)", Code::kDirectory, "config"},
      {R"("target":"text")", R"("target":null)", Code::kDirectory, "target"},
      {R"({"note.txt":"r"})", R"(["r"])", Code::kDirectory, "resources"},
      {R"({"note.txt":"r"})", R"({"note.txt":null})", Code::kDirectory, "resources"},
      {R"("range":[0,8])", R"("range":[0,8,9])", Code::kDirectory, "range"},
      {R"("range":[0,8])", R"("range":{"begin":0})", Code::kDirectory, "range"},
      {R"({"object":"w"},"text/p")", R"("w","text/p")", Code::kDirectory, "text/w"},
      {R"("metadata":{"name":"n"})", R"("metadata":null)", Code::kDirectory, "metadata"},
      {R"("metadata":{"name":"n"})", R"("metadata":{"name":5})", Code::kDirectory, "metadata.name"},
      {R"("provenance":{"p":[null]})", R"("provenance":[])", Code::kDirectory, "provenance"},
      {R"({"path":null,"payload_bytes":200})", R"(null)", Code::kDirectory, "files[0]"},
  });
}

TEST(Directory, SchemaConditionsHaveTheirClass) {
  std::string rank17 = "[1";
  for (int i = 0; i < 16; ++i) rank17 += ",1";
  rank17 += "]";
  expect_refused({
      {R"("id":"w")", R"("id":"")", Code::kDirectory, "objects[1].id"},
      {R"("id":"w")", R"("id":"a\u0000b")", Code::kDirectory, "objects[1].id"},
      {R"("text/w":)", R"("":)", Code::kDirectory, "bindings"},
      {R"("mtp":)", R"("":)", Code::kDirectory, "components"},
      {R"("input":"in")", R"("input":"")", Code::kDirectory, "uses[0].input"},
      {R"("hadamard_signs":)", R"("":)", Code::kDirectory, "auxiliaries"},
      {R"([4,8])", rank17, Code::kDirectory, "rank 17"},
      {R"([4,8])", "[4,0]", Code::kDirectory, "shape"},
      {R"([4,8])", "[4294967296,4294967296]", Code::kDirectory, "shape"},
      {R"("bytes":64)", R"("bytes":0)", Code::kDirectory, "bytes"},
      {R"("bytes":64)", R"("bytes":64,"divisors":0)", Code::kDirectory, "divisors"},
      {R"("parts":[{"object":"w","range":[16,32]},{"object":"w","range":[0,8]}])", R"("parts":[])",
       Code::kDirectory, "parts"},
      {R"({"parts":)", R"({"object":"w","parts":)", Code::kDirectory, "text/p"},
      {R"({"object":"w"},"text/p")", R"({},"text/p")", Code::kDirectory, "text/w"},
      {R"("id":"w")", R"("id":"r")", Code::kDirectory, "'r' appears twice"},
      {R"("input":"other")", R"("input":"in")", Code::kDirectory, "uses[1]"},
      {R"("kind":"tensor")", R"("kind":"matrix")", Code::kDirectory, "matrix"},
      {R"("A16Only")", R"("A16")", Code::kDirectory, "A16"},
      {R"("A16Only")", R"("")", Code::kDirectory, "activation_policy"},
      {R"("target":"text")", R"("target":"text","proposal":{"domain":"full"})", Code::kDirectory,
       "proposal"},
      {R"("indexed")", R"("half")", Code::kDirectory, "half"},
      {R"("indexed")", R"("full")", Code::kDirectory, "rows"},
      {R"(,"rows":4)", "", Code::kDirectory, "rows"},
      {R"("rows":4)", R"("rows":0)", Code::kDirectory, "rows"},
      {R"("name":"n")", R"("name":"")", Code::kDirectory, "metadata.name"},
  });
  for (const std::string_view member : {"components", "objects", "files"}) {
    const Json root = parse_json(kText, "text");
    Json empty = root;
    empty.set(member, member == "components" ? Json::object() : Json::array());
    expect_error(Code::kDirectory, {"dir/e.ninfer", member}, [&] { parse(empty.to_text()); });
  }
}

TEST(Directory, FileNamesAreSiblings) {
  for (const char* name :
       {"", ".", "..", "../x", "/etc/passwd", "a/b", R"(a\\b)", R"(a\u0000b)", "e.ninfer"}) {
    expect_refused({{R"("path":"b.part")", fmt::format(R"("path":"{}")", name), Code::kDirectory,
                     "files[1].path"}});
  }
  expect_refused({
      {R"("path":null)", R"("path":"e.ninfer")", Code::kDirectory, "files[0].path"},
      {R"("path":"b.part")", R"("path":null)", Code::kDirectory, "files[1].path"},
      {R"({"path":"b.part","payload_bytes":120})",
       R"({"path":"b.part","payload_bytes":60},{"path":"b.part","payload_bytes":60})",
       Code::kDirectory, "files[2].path"},
      {R"("payload_bytes":120)", R"("payload_bytes":0)", Code::kDirectory,
       "files[1].payload_bytes"},
  });
  // Anything else goes, whatever it looks like.
  parse(replaced(std::string(kText), "b.part", "...weights é.bin"));
}

TEST(Directory, RangesHaveTheirClass) {
  expect_refused({
      {R"("offset":256)", R"("offset":5)", Code::kRange, "objects[1]"},
      {R"("offset":0)", R"("offset":300)", Code::kRange, "objects[1]"},
      {R"("offset":256)", R"("offset":257)", Code::kRange, "objects[1]"},
      {R"("offset":256)", R"("offset":18446744073709551615)", Code::kRange, "objects[1]"},
      {R"("bytes":6,)", R"("bytes":257,)", Code::kRange, "objects[1]"},
      {R"("bytes":64)", R"("bytes":65)", Code::kRange, "payload"},
      {R"("payload_bytes":120)", R"("payload_bytes":119)", Code::kRange, "payload"},
      {R"("payload_bytes":120)", R"("payload_bytes":18446744073709551615)", Code::kRange,
       "files[1].payload_bytes"},
  });
}

TEST(Directory, ReferencesHaveTheirClass) {
  expect_refused({
      {R"("target":"text")", R"("target":"vision")", Code::kReference, "vision"},
      {R"("note.txt":"r")", R"("note.txt":"s")", Code::kReference, "note.txt"},
      {R"("note.txt":"r")", R"("note.txt":"w")", Code::kReference, "note.txt"},
      {R"({"object":"w"},"text/p")", R"({"object":"v"},"text/p")", Code::kReference, "text/w"},
      {R"({"object":"w"},"text/p")", R"({"object":"r"},"text/p")", Code::kReference, "text/w"},
      {R"({"object":"w","range":[0,8]})", R"({"object":"r","range":[0,8]})", Code::kReference,
       "text/p"},
      {R"("range":[0,8])", R"("range":[8,8])", Code::kReference, "[8,8)"},
      {R"("range":[0,8])", R"("range":[9,8])", Code::kReference, "[9,8)"},
      {R"("range":[0,8])", R"("range":[0,33])", Code::kReference, "32 elements"},
      {R"("parameter":"text/w")", R"("parameter":"text/x")", Code::kReference, "text/x"},
      {R"("hadamard_signs":{"object":"w"})", R"("hadamard_signs":{"object":"z"})", Code::kReference,
       "hadamard_signs"},
      {R"("hadamard_signs":{"object":"w"})", R"("hadamard_signs":{"object":"r"})", Code::kReference,
       "hadamard_signs"},
  });
}

TEST(Directory, MadeInMemoryIsCheckedTheSameWay) {
  const auto refused = [](Code code, std::string_view needle, auto&& change) {
    Directory d = parse(kText);
    change(d);
    expect_error(code, {"f", needle}, [&] { check_directory(d, "f", "e.ninfer"); });
  };
  check_directory(parse(kText), "f", "e.ninfer");
  refused(Code::kDirectory, "text/w", [](Directory& d) { d.bindings.push_back(d.bindings[0]); });
  refused(Code::kDirectory, "text", [](Directory& d) { d.components.push_back(d.components[0]); });
  refused(Code::kDirectory, "config",
          [](Directory& d) { d.components[0].second.config = Json::array(); });
  refused(Code::kDirectory, "files[0]", [](Directory& d) { d.files[0].path = "x"; });
  refused(Code::kRange, "objects[1]", [](Directory& d) { std::swap(d.objects[0], d.objects[1]); });
  refused(Code::kReference, "text/p", [](Directory& d) { d.bindings[1].second.parts[0].end = 99; });
}

TEST(CanonicalText, ReproducesTheCompleteExamples) {
  // §18.1, §18.2; both texts come from the independent writer, the digests from the specification.
  const std::pair<const char*, const char*> cases[] = {
      {"one_layer.json", "e74df51bd7e0b97d357c163f83f69b9f89a738fa04901be58f61f83404dfd982"},
      {"mixed_layer.json", "6da670943fa99478a94652f0c723f63a12584b2e7907184daef29ab7c158a7a4"}};
  for (const auto& [name, digest] : cases) {
    const std::string text = read_file(data_path(name));
    ASSERT_EQ(sha256_hex(as_bytes(text)), digest);
    const Directory d = parse_directory(text, name, "example.ninfer");
    EXPECT_EQ(canonical_text(d), text);
    // Nothing of it depends on how the members were ordered or spaced.
    Json shuffled = parse_json(text, name);
    std::reverse(shuffled.mutable_object().begin(), shuffled.mutable_object().end());
    for (auto& [key, value] : shuffled.mutable_object())
      if (key == "objects" || key == "uses")
        for (Json& item : value.mutable_array())
          std::reverse(item.mutable_object().begin(), item.mutable_object().end());
    EXPECT_EQ(canonical_text(parse_directory(shuffled.to_pretty_text(), name, "example.ninfer")),
              text);
  }
}

TEST(CanonicalText, OrdersComponentsAndRolesAndKeepsTheRest) {
  Directory d = parse(kText);
  std::swap(d.components[0], d.components[1]);
  d.components.insert(d.components.begin(), {"audio", {.config = Json::object()}});
  d.components[2].second.resources = {
      {"z", "r"}, {"chat_template.jinja", "r"}, {"tokenizer.json", "r"}, {"a", "r"}};
  const std::string text = canonical_text(d);
  EXPECT_TRUE(text.starts_with(R"({"components":{"text":{)")) << text;
  EXPECT_LT(text.find("\"mtp\""), text.find("\"audio\""));
  EXPECT_NE(text.find(R"({"tokenizer.json":"r","chat_template.jinja":"r","z":"r","a":"r"})"),
            std::string::npos)
      << text;
}

TEST(CanonicalText, RoundsRealsOfConfigsOnly) {
  Directory d = parse(kText);
  Json& config = d.components[0].second.config;
  config = Json::object({{"eps", 1e-6},
                         {"theta", 1e7},
                         {"third", 1.0 / 3},
                         {"n", 3},
                         {"zero", 0.0},
                         {"big", 1e16},
                         {"list", Json::array({0.1, 1e-5})}});
  d.metadata = Json::object({{"third", 1.0 / 3}, {"text", "\x01\x1f\"\\\n\t é/\x7f"}});
  const std::string text = canonical_text(d);
  EXPECT_NE(
      text.find(R"({"eps":9.999999974752427e-07,"theta":10000000.0,"third":0.3333333432674408,)"
                R"("n":3,"zero":0.0,"big":1.0000000272564224e+16,)"
                R"("list":[0.10000000149011612,9.999999747378752e-06]})"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(R"({"third":0.3333333333333333,"text":"\u0001\u001f\"\\\n\t é/)"
                      "\x7f\"}"),
            std::string::npos)
      << text;
  config.set("too_big", 1e39);
  expect_error(Code::kValue, {"binary32"}, [&] { canonical_text(d); });
}

}  // namespace
}  // namespace flare::artifact
