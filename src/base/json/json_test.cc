// Promises of json.h: both parsers are strict in the same way, and text forms are canonical.
#include "base/json/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>

#include "base/test_support.h"

namespace flare {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

using Parser = Json (*)(std::string_view, std::string_view, JsonLimits);

class Parsers : public testing::TestWithParam<Parser> {
 protected:
  static Json parse(std::string_view text, JsonLimits limits = {}) {
    return GetParam()(text, "x.json", limits);
  }
  // The message of the refusal, whose class must be kDirectory.
  static std::string refusal(std::string_view text, JsonLimits limits = {}) {
    try {
      parse(text, limits);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDirectory);
      return e.message();
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
  }
};
INSTANTIATE_TEST_SUITE_P(Json, Parsers, testing::Values(parse_json, parse_large_json),
                         [](const auto& info) { return info.index == 0 ? "small" : "large"; });

TEST_P(Parsers, ValuesOfEveryKind) {
  const Json v = parse(" {\"a\" : [null,true,false,-7,1.5,\"s\"],\n\"b\":{\"c\":[]}}\r\n\t");
  EXPECT_EQ(v, Json::object({{"a", Json::array({nullptr, true, false, -7, 1.5, "s"})},
                             {"b", Json::object({{"c", Json::array()}})}}));
  EXPECT_EQ(parse("7"), Json(7));
  EXPECT_EQ(parse("\"\""), Json(""));
  EXPECT_EQ(parse("null"), Json());
}

TEST_P(Parsers, MembersKeepTheirOrder) {
  EXPECT_EQ(parse(R"({"z":1,"a":2,"m":3})").to_text(), R"({"z":1,"a":2,"m":3})");
}

TEST_P(Parsers, IntegersStayApartFromReals) {
  EXPECT_TRUE(parse("5").is_integer());
  EXPECT_EQ(parse("5.0").kind(), Json::Kind::kReal);
  EXPECT_EQ(parse("5e0").kind(), Json::Kind::kReal);
  EXPECT_EQ(parse("-0.0").kind(), Json::Kind::kReal);
  EXPECT_TRUE(std::signbit(parse("-0.0").as_double()));
  EXPECT_THROW(parse("5.0").as_u64(), Error);
  EXPECT_THROW(parse("5e0").as_u64(), Error);
  EXPECT_EQ(parse("5").as_double(), 5.0);
}

TEST_P(Parsers, NegativeZeroIsNoUnsignedInteger) {
  for (const char* text : {"-0", " -0 ", "[-0]", "{\"a\":-0}", "[1,-0,2]", "[\n-0\n]"}) {
    const Json v = parse(text);
    const Json zero = v.is_array()    ? v.as_array()[v.as_array().size() == 3 ? 1 : 0]
                      : v.is_object() ? v.at("a")
                                      : v;
    EXPECT_EQ(zero, Json(JsonInteger{0, true})) << text;
    EXPECT_THROW(zero.as_u64(), Error) << text;
    EXPECT_EQ(zero.as_i64(), 0);
    EXPECT_EQ(zero.to_text(), "-0");
  }
  EXPECT_EQ(parse("0").as_u64(), 0u);
  EXPECT_EQ(parse("\"[-0]\""), Json("[-0]"));
}

TEST_P(Parsers, IntegersReachTheEndsOf64Bits) {
  EXPECT_EQ(parse("18446744073709551615").as_u64(), ~uint64_t{0});
  EXPECT_EQ(parse("9223372036854775808").as_u64(), uint64_t{1} << 63);
  EXPECT_EQ(parse("-9223372036854775808").as_i64(), INT64_MIN);
  EXPECT_EQ(parse("9223372036854775807").as_i64(), INT64_MAX);
  EXPECT_THROW(parse("9223372036854775808").as_i64(), Error);
  EXPECT_EQ(parse("-9223372036854775809"), Json(JsonInteger{(uint64_t{1} << 63) + 1, true}));
  EXPECT_EQ(parse("-18446744073709551615"), Json(JsonInteger{~uint64_t{0}, true}));
  EXPECT_THROW(parse("-9223372036854775809").as_i64(), Error);
}

TEST_P(Parsers, IntegersBeyond64BitsAreReals) {
  EXPECT_EQ(parse("18446744073709551616").kind(), Json::Kind::kReal);
  EXPECT_EQ(parse("-18446744073709551616").as_double(), -18446744073709551616.0);
  EXPECT_EQ(parse("1000000000000000019884624838656").as_double(), 1e30);
}

TEST_P(Parsers, RealsAreTheNearestBinary64) {
  EXPECT_EQ(parse("0.1").as_double(), 0.1);
  EXPECT_EQ(parse("1e-6").as_double(), 1e-6);
  EXPECT_EQ(parse("1.7976931348623157e308").as_double(), 1.7976931348623157e308);
  EXPECT_EQ(parse("5e-324").as_double(), 5e-324);
  EXPECT_EQ(parse("1e-400").as_double(), 0.0);
  EXPECT_EQ(parse("2.2250738585072011e-308").as_double(), 2.2250738585072011e-308);
  refusal("1e400");
  refusal("-1e400");
}

TEST_P(Parsers, DuplicateNamesAreRefusedAtEveryDepth) {
  EXPECT_NE(refusal(R"({"a":1,"b":2,"a":3})").find("'a'"), std::string::npos);
  refusal(R"({"x":[{"y":{"a":1,"a":1}}]})");
  refusal(R"({"a":1,"\u0061":1})");
  refusal(R"({"":1,"":2})");
  refusal(R"({"/":1,"\/":2})");
  EXPECT_EQ(parse(R"({"a":{"a":{"a":1}}})").find("a")->find("a")->find("a")->as_u64(), 1u);
  // Equal to the eye, not in code points.
  EXPECT_EQ(parse("{\"\u00e9\":1,\"e\u0301\":2}").as_object().size(), 2u);
}

TEST_P(Parsers, StringsAndEscapes) {
  EXPECT_EQ(parse(R"("\"\\\/\b\f\n\r\t")").as_string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(parse(R"("\u0041\u00e9\u20AC\ud83d\ude00")").as_string(), "Aé€😀");
  EXPECT_EQ(parse(R"("a\u0000b")").as_string(), "a\0b"s);
  EXPECT_EQ(parse("\"é€😀\x7f\"").as_string(), "é€😀\x7f");
  for (const char* text : {R"("\x41")", R"("\u12")", R"("\u12G4")", R"("\")", "\"a", "\"\n\"",
                           "\"\t\"", "\"\x1f\"", R"("\U0041")", "'a'"})
    refusal(text);
}

TEST_P(Parsers, LoneSurrogatesAreRefused) {
  for (const char* text :
       {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")", R"("\ude00\ud83d")",
        R"("\ud83d\ud83d\ude00")", R"("\ud800\n")", R"({"\udfff":1})"})
    refusal(text);
}

TEST_P(Parsers, InvalidUtf8IsRefused) {
  for (const char* text : {"\"\xff\"", "\"\x80\"", "\"\xc3\"", "\"\xc0\xaf\"", "\"\xe2\x82\"",
                           "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf0\x80\x80\x80\"",
                           "{\"\xff\":1}", "\xff", "[1\xc2\xa0]", "1\xc3"})
    refusal(text);
}

TEST_P(Parsers, ByteOrderMarkIsRefused) {
  EXPECT_NE(refusal("\xef\xbb\xbf{}").find("byte 0"), std::string::npos);
  refusal("{}\xef\xbb\xbf");
}

TEST_P(Parsers, ExactlyOneValue) {
  for (const char* text :
       {"",           " ",   "1 2",      "{}{}",      "[1]]",  "{} x",  "[1,]",    "[,1]",
        "{\"a\":1,}", "{,}", "{\"a\"}",  "{\"a\":}",  "{a:1}", "{1:1}", "[1 2]",   "[",
        "{",          "[1",  "{\"a\":1", "]",         ":",     ",",     "tru",     "True",
        "nul",        "NaN", "Infinity", "-Infinity", "-",     "+1",    "01",      "-01",
        "1.",         ".5",  "1e",       "1e+",       "0x10",  "1_000", "// c\n1", "/* c */1",
        "1 // c",     "\v1", "\f1"})
    refusal(text);
  for (const std::string& text :
       {"1\0"s, "\0"s, "{}\0{}"s, "[1,\0 2]"s, "\"a\0b\""s, "1\0garbage"s})
    refusal(text);
}

TEST_P(Parsers, DepthIsLimited) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  for (int limit : {1, 2, 64}) {
    parse(nested(limit), {.max_depth = limit});
    refusal(nested(limit + 1), {.max_depth = limit});
  }
  parse(R"({"a":{"b":[1]}})", {.max_depth = 3});
  refusal(R"({"a":{"b":[1]}})", {.max_depth = 2});
  refusal(R"({"a":{"b":[]}})", {.max_depth = 2});
  refusal(nested(100000));
  refusal(std::string(100000, '['));
  std::string objects;
  for (int i = 0; i < 50000; ++i) objects += "{\"a\":";
  refusal(objects);
}

TEST_P(Parsers, SizeIsLimited) {
  parse("[1,2]", {.max_bytes = 5});
  refusal("[1,2]", {.max_bytes = 4});
}

TEST_P(Parsers, MessageNamesTheFileAndTheByte) {
  const std::string message = refusal("{\"a\": 1, \"b\": x}");
  EXPECT_TRUE(message.starts_with("x.json: byte 14: ")) << message;
}

// Texts near the border of the grammar: a valid one with a few bytes changed.
class TextMaker {
 public:
  explicit TextMaker(uint64_t seed) : random_(seed) {}

  std::string next() {
    std::string text = value(0);
    for (uint64_t edits = below(3); edits > 0; --edits) {
      const size_t at = below(text.size() + 1);
      switch (below(3)) {
        case 0:
          text.insert(at, 1, letter());
          break;
        case 1:
          if (at < text.size()) text.erase(at, 1 + below(3));
          break;
        default:
          if (at < text.size()) text[at] = letter();
      }
    }
    return text;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  char letter() {
    constexpr auto letters = "[]{}:,\"\\-+.eE0159 \n\tuntrfals\0\x1f\xc3\xa9\xed\xa0\xff"sv;
    return letters[below(letters.size())];
  }
  std::string pick(std::initializer_list<const char*> items) {
    return items.begin()[below(items.size())];
  }

  std::string string() {
    std::string out = "\"";
    for (uint64_t n = below(4); n > 0; --n)
      out += pick({"a", "b", "é", "😀", "\\n", "\\\"", "\\\\", "\\u0041", "\\ud83d\\ude00",
                   "\\ud83d", "\\ude00", "\\u0000", "-0", " ", "/", "\\/", "[-0]"});
    return out + "\"";
  }
  std::string number() {
    return pick({"0",
                 "-0",
                 "1",
                 "-1",
                 "5.0",
                 "1e3",
                 "1E-2",
                 "-0.0",
                 "-0e1",
                 "18446744073709551615",
                 "18446744073709551616",
                 "-9223372036854775808",
                 "-9223372036854775809",
                 "-18446744073709551615",
                 "-18446744073709551616",
                 "0.1",
                 "1e308",
                 "1e309",
                 "1e-400",
                 "123456789012345678901234567890",
                 "2.5e-10",
                 "00",
                 "1.",
                 "-"});
  }
  std::string value(int depth) {
    const std::string space = pick({"", "", "", " ", "\n", "\t"});
    if (depth > 6) return number();
    switch (below(6)) {
      case 0:
        return space + pick({"null", "true", "false"}) + space;
      case 1:
        return space + string();
      case 2:
        return number() + space;
      case 3: {
        std::string out = "{";
        for (uint64_t n = below(4), first = 1; n > 0; --n, first = 0)
          out += (first ? "" : ",") + string() + space + ":" + value(depth + 1);
        return out + "}";
      }
      default: {
        std::string out = "[" + space;
        for (uint64_t n = below(4), first = 1; n > 0; --n, first = 0)
          out += (first ? "" : ",") + value(depth + 1);
        return out + "]" + space;
      }
    }
  }
  std::mt19937_64 random_;
};

std::optional<Json> parsed(Parser parser, std::string_view text) {
  try {
    return parser(text, "x", {.max_depth = 4});
  } catch (const Error&) {
    return std::nullopt;
  }
}

TEST(JsonParsers, AgreeOnSeededTexts) {
  constexpr uint64_t kSeed = 7;
  TextMaker maker(kSeed);
  int accepted = 0;
  constexpr int kTexts = 60000;
  for (int i = 0; i < kTexts; ++i) {
    const std::string text = maker.next();
    const std::optional<Json> small = parsed(parse_json, text);
    ASSERT_EQ(small, parsed(parse_large_json, text))
        << "seed " << kSeed << ", text " << i << ": " << text;
    if (!small) continue;
    ++accepted;
    // What was read survives the way through our own text.
    ASSERT_EQ(parse_json(small->to_text(), "x"), *small) << text;
    ASSERT_EQ(parse_large_json(small->to_pretty_text(), "x"), *small) << text;
  }
  // Neither "all refused" nor "all accepted" would say anything.
  EXPECT_GT(accepted, kTexts / 10);
  EXPECT_LT(accepted, kTexts * 9 / 10);
}

TEST(JsonText, RealsHaveTheCanonicalForm) {
  EXPECT_EQ(real_to_text(static_cast<double>(1e-6f)), "9.999999974752427e-07");
  EXPECT_EQ(real_to_text(1e7), "10000000.0");
  EXPECT_EQ(real_to_text(0.0), "0.0");
  EXPECT_EQ(real_to_text(1e-4), "0.0001");
  EXPECT_EQ(real_to_text(9.999e-5), "9.999e-05");
  EXPECT_EQ(real_to_text(1e15), "1000000000000000.0");
  EXPECT_EQ(real_to_text(1e16), "1e+16");
  EXPECT_EQ(real_to_text(1.25e16), "1.25e+16");
  EXPECT_EQ(real_to_text(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(real_to_text(-1.5), "-1.5");
  EXPECT_EQ(real_to_text(1e100), "1e+100");
  EXPECT_EQ(real_to_text(5e-324), "5e-324");
  EXPECT_EQ(real_to_text(0.1), "0.1");
  EXPECT_EQ(real_to_text(123.456), "123.456");
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    try {
      real_to_text(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kValue);
    }
  }
}

TEST(JsonText, RealsAgreeWithPythonsRepr) {
  if (std::system("/usr/bin/python3 -c '' 2>/dev/null") != 0)
    GTEST_SKIP() << "/usr/bin/python3 is not installed";
  const TemporaryFolder temporary;
  const std::string folder = temporary.path().string();
  std::vector<double> values = {0.0,    -0.0,    1e22,     1e23, 9007199254740993.0,
                                5e-324, 0x1p-44, 0x1p-1074};
  for (int e = -330; e < 309; ++e)
    values.push_back(std::strtod(("1e" + std::to_string(e)).c_str(), nullptr));
  for (int e = -1074; e < 1024; ++e) values.push_back(std::ldexp(1.0, e));
  std::mt19937_64 random(5);
  while (values.size() < 40000) {
    const auto bits = static_cast<uint64_t>(random());
    const double any = std::bit_cast<double>(bits);
    if (std::isfinite(any)) values.push_back(any);
    values.push_back(static_cast<double>(bits >> 11) * 0x1p-53);
    values.push_back(static_cast<double>(static_cast<float>(bits >> 40) * 1e-3f));
  }
  std::ofstream(folder + "/values", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(double)));
  std::ofstream(folder + "/oracle.py")
      << "import array, sys\n"
         "values = array.array('d', open(sys.argv[1] + '/values', 'rb').read())\n"
         "open(sys.argv[1] + '/texts', 'w').write('\\n'.join(map(repr, values)) + '\\n')\n";
  ASSERT_EQ(std::system(("/usr/bin/python3 '" + folder + "/oracle.py' '" + folder + "'").c_str()),
            0);
  std::ifstream texts(folder + "/texts");
  std::string expected;
  for (double value : values) {
    ASSERT_TRUE(std::getline(texts, expected));
    ASSERT_EQ(real_to_text(value), expected);
  }
}

TEST(JsonText, StringsEscapeOnlyWhatTheyMust) {
  EXPECT_EQ(quote_json("a\"\\/\b\f\n\r\t"), R"("a\"\\/\b\f\n\r\t")");
  EXPECT_EQ(quote_json("\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\"");
  EXPECT_EQ(quote_json("\0"s), R"("\u0000")");
  EXPECT_EQ(quote_json("é€😀"), "\"é€😀\"");
}

TEST(JsonText, PrettyTextIsIndentedByTwo) {
  const Json v = Json::object({{"a", Json::array({1, Json::object()})}, {"b", Json::array()}});
  EXPECT_EQ(v.to_text(), R"({"a":[1,{}],"b":[]})");
  EXPECT_EQ(v.to_pretty_text(), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
}

TEST(JsonValue, IntegersOfEveryTypeKeepTheirValue) {
  EXPECT_EQ(Json(INT64_MIN).as_i64(), INT64_MIN);
  EXPECT_EQ(Json(UINT64_MAX).as_u64(), UINT64_MAX);
  EXPECT_EQ(Json(int8_t{-5}).to_text(), "-5");
  EXPECT_EQ(Json(INT64_MIN).to_text(), "-9223372036854775808");
  EXPECT_EQ(Json(0), Json(0u));
  EXPECT_NE(Json(1), Json(1.0));
}

TEST(JsonValue, WrongKindsNameWhereWhatAndTheValue) {
  const Json v = Json::object({{"rank", "two"}});
  try {
    v.at("rank", "x.json").as_u64("x.json: rank");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDirectory);
    EXPECT_EQ(e.message(), "x.json: rank: integer 0..2^64-1 expected, got string 'two'");
  }
  try {
    v.at("shape", "x.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "x.json: member 'shape' missing");
  }
  EXPECT_THROW(Json(1).at("a"), Error);
  EXPECT_THROW(Json(-1).as_u64(), Error);
  EXPECT_THROW(Json(true).as_u64(), Error);
  EXPECT_THROW(Json(1).as_bool(), Error);
  EXPECT_THROW(Json("1").as_double(), Error);
  EXPECT_EQ(Json(1).find("a"), nullptr);
}

TEST(JsonValue, SetAddsAndReplacesInPlace) {
  Json v;
  v.set("a", 1);
  v.set("b", 2);
  v.set("a", 3);
  EXPECT_EQ(v.to_text(), R"({"a":3,"b":2})");
  Json list;
  list.push_back("x");
  EXPECT_EQ(list.to_text(), R"(["x"])");
}

}  // namespace
}  // namespace flare
