// Settings with their tables, kinds and lines.
#include "base/toml/toml.h"

#include <gtest/gtest.h>

#include "base/test_support.h"

namespace flare {
namespace {

TEST(Toml, SettingsHaveTableKindValuesAndLine) {
  const TemporaryFolder folder;
  const auto path = folder.write("c.toml",
                                 "top = 1\n[serving]\nhost = \"::1\"  # ours\nport = 8_000\n"
                                 "any_model = true\nratio = 0.5\norigins = [\"a\", 'b']\n"
                                 "[models.\"qwen3.8-flash\"]\nmax_concurrency = 8\n[a.b]\n");
  std::string all;
  for (const TomlSetting& s : read_toml(path)) {
    all += fmt::format("{}:", s.line);
    for (const std::string& part : s.table) all += part + "/";
    all += fmt::format("{} {}", s.key, static_cast<int>(s.kind));
    for (const std::string& value : s.values) all += " " + value;
    all += "\n";
  }
  EXPECT_EQ(all,
            "1:top 1 1\n3:serving/host 0 ::1\n4:serving/port 1 8000\n5:serving/any_model 3 true\n"
            "6:serving/ratio 2 0.5\n7:serving/origins 4 a b\n"
            "9:models/qwen3.8-flash/max_concurrency 1 8\n10:a/b/ 5\n");
}

TEST(Toml, ErrorsNameFileAndLine) {
  const TemporaryFolder folder;
  for (const char* text : {"a = 1\nb = \n", "a = 1\na = 2\n", "a = 1\nb = 1979-05-27\n",
                           "a = 1\nb = [[1]]\n", "a = 1\nb = \"\xff\"\n"}) {
    const auto path = folder.write("c.toml", text);
    const Error error = error_of([&] { read_toml(path); });
    EXPECT_EQ(error.code(), Code::kUsage) << text;
    EXPECT_NE(error.message().find(path.string() + ":2: "), std::string::npos) << error.message();
  }
  EXPECT_EQ(code_of([&] { read_toml(folder / "none"); }), Code::kNotFound);
}

std::string repeated(std::string_view part, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += part;
  return out;
}

// Neither the parser's stack nor memory may depend on how deep a file lies.
TEST(Toml, DeepKeysAndValuesAreRefusedByLine) {
  const std::string deep = "a" + repeated(".a", 400000);
  for (const std::string& text :
       {"x = 1\n[" + deep + "]\n", "x = 1\n" + deep + " = 1\n", "x = 1\ny = {" + deep + " = 1}\n",
        "x = 1\n[a" + repeated(".a", 200) + "]\n", "x = 1\ny = " + repeated("[", 20) + "\n",
        "x = 1\ny = " + repeated("{b = ", 20) + "\n"}) {
    const Error error = error_of([&] { parse_toml(text, "c.toml"); });
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_TRUE(error.message().starts_with("c.toml:2: ")) << error.message().substr(0, 200);
    EXPECT_LT(error.message().size(), 300u);
  }
  // As many parts as lines of the greatest length may add.
  std::string nested = "x = ";
  for (int i = 0; i < 4; ++i) nested += "[{a" + repeated(".a", 250) + " =\n";
  EXPECT_EQ(code_of([&] { parse_toml(nested, "c.toml"); }), Code::kUsage);
}

}  // namespace
}  // namespace flare
