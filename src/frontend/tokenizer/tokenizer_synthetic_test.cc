// Small files of one feature each: everything the reference does with them.
#include <map>
#include <set>

#include "frontend/tokenizer/tokenizer_golden.h"

namespace flare::frontend {
namespace {

using namespace golden;

// Every "type" in a file, and the model's.
void collect_types(const Json& json, std::set<std::string>& out) {
  if (json.is_array()) {
    for (const Json& item : json.as_array()) collect_types(item, out);
  } else if (json.is_object()) {
    for (const auto& [name, value] : json.as_object()) {
      if (name == "type" && value.is_string()) out.insert(value.as_string());
      if (name != "vocab" && name != "merges" && name != "decoder") collect_types(value, out);
    }
  }
}

// Component kinds that are refused; a kind leaves this list when it is implemented.
const std::set<std::string> kRefused = {
    "BertNormalizer", "BertPreTokenizer", "CharDelimiterSplit", "FixedLength", "Nmt",
    "Precompiled",    "Punctuation",      "StripAccents",       "Unigram",     "UnicodeScripts",
    "WordLevel",      "WordPiece"};
constexpr size_t kRefusedFiles = 30;

// The kinds of a file that are refused.
std::set<std::string> refused_kinds(const Json& json) {
  std::set<std::string> types;
  collect_types(json, types);
  std::set<std::string> out;
  for (const std::string& type : types)
    if (kRefused.count(type)) out.insert(type);
  // As a normalizer ByteLevel is a kind of its own.
  const Json* normalizer = json.find("normalizer");
  if (normalizer && normalizer->find("type") && normalizer->at("type") == Json("ByteLevel"))
    out.insert("ByteLevel");
  return out;
}

class Synthetic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) GTEST_SKIP() << "goldens not found at " << folder();
    const auto lines = read_lines(folder() / "synthetic_expected.jsonl");
    for (const Json& id : lines[0].at("meta").at("texts").as_array())
      texts_.push_back(corpus_text(id.as_string()));
    for (size_t i = 1; i < lines.size(); ++i)
      expected_[lines[i].at("f").as_string()].push_back(lines[i]);
  }

  void check_line(const Tokenizer& tokenizer, const Json& line) {
    if (const Json* list = line.find("decode"))
      return check_decoding(tokenizer, ids_of(*list), line);
    const std::string& text = texts_.at(line.at("t").as_u64() - 1);
    SCOPED_TRACE(line.at("t").to_text() + " " + quote_json(text));
    if (line.find("error") != nullptr) {
      EXPECT_THROW(tokenizer.encode(text, {}), Error);
      return;
    }
    EXPECT_TRUE(same_ids(tokenizer.encode(text, {}), line.at("ids")));
    EXPECT_EQ(tokenizer.encode(MarkedText(text, Origin::kTemplate)), tokenizer.encode(text, {}));
    const Json* special = line.find("ids_special");
    const Ids ids = tokenizer.encode(text, {true, true});
    EXPECT_TRUE(same_ids(ids, special ? *special : line.at("ids")));
    Json complete = line;
    if (line.find("dec") == nullptr) complete.set("dec", text);
    check_decoding(tokenizer, ids, complete);
  }

  void check_decoding(const Tokenizer& tokenizer, const Ids& ids, const Json& line) {
    const std::string all = tokenizer.decode(ids, false), some = tokenizer.decode(ids, true);
    EXPECT_EQ(decode_streaming(tokenizer, ids, false), all);
    EXPECT_EQ(decode_streaming(tokenizer, ids, true), some);
    if (line.at("dec").is_null()) return;  // the reference crashes
    EXPECT_TRUE(same_text(all, line.at("dec"))) << ::testing::PrintToString(ids);
    const Json* skip = line.find("dec_skip");
    if (skip && skip->is_null()) return;
    EXPECT_TRUE(same_text(some, skip ? *skip : line.at("dec"))) << ::testing::PrintToString(ids);
  }

  std::vector<std::string> texts_;
  std::map<std::string, std::vector<Json>> expected_;
};

TEST_F(Synthetic, FilesGiveTheIdsAndTextsOfTheReference) {
  size_t refused = 0, load_errors = 0;
  for (const auto& [name, lines] : expected_) {
    SCOPED_TRACE(name);
    const auto path = folder() / "synthetic" / (name + ".json");
    const std::string text = read_text_file(path);
    const std::set<std::string> kinds = refused_kinds(parse_large_json(text, name));
    if (!kinds.empty() || lines[0].find("load_error") != nullptr) {
      kinds.empty() ? ++load_errors : ++refused;
      try {
        Tokenizer::from_json(text, name);
        ADD_FAILURE() << "loads although a kind is not implemented";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kInvalid);
        EXPECT_TRUE(kinds.empty() ||
                    std::any_of(kinds.begin(), kinds.end(),
                                [&](const auto& kind) {
                                  return error.message().find("type '" + kind + "'") !=
                                         std::string::npos;
                                }))
            << error.message();
      }
      continue;
    }
    const Tokenizer tokenizer = Tokenizer::from_json(text, name);
    for (const Json& line : lines) check_line(tokenizer, line);
  }
  EXPECT_EQ(expected_.size(), 119u);
  EXPECT_EQ(load_errors, 1u);
  EXPECT_EQ(refused, kRefusedFiles);
}

}  // namespace
}  // namespace flare::frontend
