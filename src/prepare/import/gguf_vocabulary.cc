// tokenizer.json and its siblings out of GGUF metadata.
#include "prepare/import/gguf_vocabulary.h"

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"

namespace flare::prepare {
namespace {

using checkpoint::GgufFile;
using checkpoint::GgufValue;

// tokenizer.ggml.token_type.
enum TokenType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4 };

constexpr std::string_view kModelKey = "tokenizer.ggml.model";

// How text is cut before merges apply.
enum class Cut {
  kGpt2,        // the pattern of ByteLevel itself
  kGpt2Digits,  // the same after every digit was cut off
  kPatterns,    // the patterns of the family, one after the other
};
struct PreRow {
  std::string_view name;  // tokenizer.ggml.pre
  Cut cut;
  std::span<const std::string_view> patterns;
  bool nfc;
  bool ignore_merges;
  bool add_bos;  // where tokenizer.ggml.add_bos_token says nothing
};

// Beginning and end that the patterns of these families share.
#define FLARE_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|)"
#define FLARE_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view kLlama3[] = {
    FLARE_CONTRACTIONS
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" FLARE_SPACES};
constexpr std::string_view kQwen2[] = {
    FLARE_CONTRACTIONS R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" FLARE_SPACES};
constexpr std::string_view kQwen35[] = {
    FLARE_CONTRACTIONS
    R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" FLARE_SPACES};
#define FLARE_LEAD R"([^\r\n\p{L}\p{N}]?)"
#define FLARE_HEAD R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define FLARE_TAIL R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define FLARE_ENDING R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
constexpr std::string_view kO200k[] = {
    FLARE_LEAD FLARE_HEAD "*" FLARE_TAIL "+" FLARE_ENDING FLARE_LEAD FLARE_HEAD "+" FLARE_TAIL
                          "*" FLARE_ENDING R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" FLARE_SPACES};
#undef FLARE_LEAD
#undef FLARE_HEAD
#undef FLARE_TAIL
#undef FLARE_ENDING
constexpr std::string_view kDeepseek3[] = {
    R"(\p{N}{1,3})", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};
#define FLARE_IDEOGRAPHS "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"
constexpr std::string_view kDeepseekCoder[] = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                               FLARE_IDEOGRAPHS, R"(\p{N})"};
// The letters are those with a case, as far as that family's list of ranges goes.
constexpr std::string_view kDeepseekLlm[] = {
    "[\r\n]",
    R"(\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293)"
    R"(\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C)"
    R"(\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5)"
    R"(\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77)"
    R"(\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59)"
    R"(\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC)"
    R"(\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107)"
    R"(\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139)"
    R"(\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE)"
    R"(\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E)"
    R"(\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)",
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+",
    R"(\s+$)",
    FLARE_IDEOGRAPHS,
    R"(\p{N}+)"};
#undef FLARE_IDEOGRAPHS
constexpr std::string_view kFalcon[] = {
    R"([\p{P}\$\+<=>\^~\|`]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    "[0-9][0-9][0-9]"};
constexpr std::string_view kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" FLARE_SPACES};
#undef FLARE_CONTRACTIONS
#undef FLARE_SPACES

constexpr PreRow kPre[] = {
    {"default", Cut::kGpt2, {}, false, false, false},
    {"gpt-2", Cut::kGpt2, {}, false, false, false},
    {"mpt", Cut::kGpt2, {}, true, false, false},
    {"smollm", Cut::kGpt2Digits, {}, false, false, false},
    {"starcoder", Cut::kGpt2Digits, {}, false, false, false},
    {"refact", Cut::kGpt2Digits, {}, false, false, false},
    {"falcon", Cut::kPatterns, kFalcon, false, false, false},
    {"llama-bpe", Cut::kPatterns, kLlama3, false, true, true},
    {"llama3", Cut::kPatterns, kLlama3, false, true, true},
    {"llama-v3", Cut::kPatterns, kLlama3, false, true, true},
    {"falcon3", Cut::kPatterns, kLlama3, false, true, true},
    {"smaug-bpe", Cut::kPatterns, kLlama3, false, false, false},
    {"tekken", Cut::kPatterns, kTekken, false, true, true},
    {"qwen2", Cut::kPatterns, kQwen2, true, false, false},
    {"deepseek-r1-qwen", Cut::kPatterns, kQwen2, true, false, false},
    {"qwen35", Cut::kPatterns, kQwen35, true, false, false},
    {"deepseek-coder", Cut::kPatterns, kDeepseekCoder, false, false, false},
    {"deepseek-llm", Cut::kPatterns, kDeepseekLlm, false, false, false},
    {"deepseek-v3", Cut::kPatterns, kDeepseek3, false, false, false},
    {"gpt-4o", Cut::kPatterns, kO200k, false, true, false},
};

const PreRow& find_pre(const GgufFile& file) {
  const auto value = file.find("tokenizer.ggml.pre");
  if (!value) return kPre[0];
  std::string known;
  for (const PreRow& row : kPre) {
    if (row.name == value->as_string()) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(Code::kSupport, "{} is {}, expected one of {}", value->where(),
              quote(value->as_string()), known);
}

// Tokens with their types, as the file lists them.
struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<uint64_t> types;
};

Vocabulary read_vocabulary(const GgufFile& file) {
  Vocabulary out;
  out.tokens = file.at("tokenizer.ggml.tokens").strings();
  if (const auto types = file.find("tokenizer.ggml.token_type")) {
    out.types = types->u64s();
    if (out.types.size() != out.tokens.size())
      throw Error(Code::kBinding, "{} has {} items, expected one for each of {} tokens",
                  types->where(), out.types.size(), out.tokens.size());
  } else {
    out.types.assign(out.tokens.size(), kNormal);
  }
  return out;
}

// The id under `key`; nullopt where the file has none.
std::optional<uint64_t> token_id(const GgufFile& file, std::string_view key, size_t n_tokens) {
  const auto value = file.find(key);
  if (!value) return std::nullopt;
  const uint64_t id = value->as_u64();
  if (id >= n_tokens)
    throw Error(Code::kBinding, "{} is {}, expected an id below {}", value->where(), id, n_tokens);
  return id;
}

bool flag_or(const GgufFile& file, std::string_view key, bool absent) {
  const auto value = file.find(key);
  return value ? value->as_bool() : absent;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json::Array out;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const uint64_t type = vocabulary.types[id];
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    out.push_back(Json::object({{"id", id},
                                {"content", vocabulary.tokens[id]},
                                {"single_word", false},
                                {"lstrip", false},
                                {"rstrip", false},
                                {"normalized", false},
                                {"special", type != kUserDefined}}));
  }
  return Json(std::move(out));
}

// Adds bos in front and eos behind where the file asks for them; null otherwise.
Json post_processor(const GgufFile& file, const Vocabulary& vocabulary, bool add_bos) {
  const size_t n = vocabulary.tokens.size();
  const auto bos = token_id(file, "tokenizer.ggml.bos_token_id", n);
  const auto eos = token_id(file, "tokenizer.ggml.eos_token_id", n);
  add_bos = flag_or(file, "tokenizer.ggml.add_bos_token", add_bos) && bos;
  const bool add_eos = flag_or(file, "tokenizer.ggml.add_eos_token", false) && eos;
  if (!add_bos && !add_eos) return Json();
  Json special = Json::object();
  const auto token = [&](uint64_t id, int sequence) {
    const std::string_view text = vocabulary.tokens[id];
    special.set(
        text,
        Json::object({{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}}));
    return Json::object({{"SpecialToken", Json::object({{"id", text}, {"type_id", sequence}})}});
  };
  const auto sequence = [&](const char* name, int id) {
    Json::Array out;
    if (add_bos) out.push_back(token(*bos, id));
    out.push_back(Json::object({{"Sequence", Json::object({{"id", name}, {"type_id", id}})}}));
    if (add_eos) out.push_back(token(*eos, id));
    return out;
  };
  Json::Array single = sequence("A", 0), pair = single;
  for (Json& item : sequence("B", 1)) pair.push_back(std::move(item));
  return Json::object({{"type", "TemplateProcessing"},
                       {"single", std::move(single)},
                       {"pair", std::move(pair)},
                       {"special_tokens", std::move(special)}});
}

Json byte_level(bool use_regex) {
  return Json::object({{"type", "ByteLevel"},
                       {"add_prefix_space", false},
                       {"trim_offsets", true},
                       {"use_regex", use_regex}});
}

Json pre_tokenizer(const PreRow& pre) {
  if (pre.cut == Cut::kGpt2) return byte_level(true);
  Json::Array steps;
  if (pre.cut == Cut::kGpt2Digits)
    steps.push_back(Json::object({{"type", "Digits"}, {"individual_digits", true}}));
  for (const std::string_view pattern : pre.patterns)
    steps.push_back(Json::object({{"type", "Split"},
                                  {"pattern", Json::object({{"Regex", pattern}})},
                                  {"behavior", "Isolated"},
                                  {"invert", false}}));
  steps.push_back(byte_level(pre.cut == Cut::kGpt2Digits));
  return Json::object({{"type", "Sequence"}, {"pretokenizers", std::move(steps)}});
}

// A BPE model without its vocabulary and merges, which append_bpe_lists writes behind it.
Json bpe() {
  return Json::object({{"type", "BPE"},
                       {"dropout", Json()},
                       {"unk_token", Json()},
                       {"continuing_subword_prefix", Json()},
                       {"end_of_word_suffix", Json()},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false}});
}

using Merge = std::pair<std::string_view, std::string_view>;

// Pieces that the older spelling of a list of merges can hold: "left right".
bool are_words(const std::vector<Merge>& merges) {
  return std::ranges::all_of(merges, [](const Merge& merge) {
    return merge.first.find(' ') == std::string_view::npos &&
           merge.second.find(' ') == std::string_view::npos && !merge.first.starts_with("#version");
  });
}

// Vocabularies have hundreds of thousands of entries: their text is written without a tree of
// values in between. `model` is the text of bpe(); `tokens` have ids.
void append_bpe_lists(const std::vector<std::pair<std::string_view, uint64_t>>& tokens,
                      const std::vector<Merge>& merges, std::string& model) {
  model.pop_back();
  model += R"(,"vocab":{)";
  for (const auto& [token, id] : tokens) {
    model += quote_json(token);
    model += ':';
    model += std::to_string(id);
    model += ',';
  }
  if (!tokens.empty()) model.pop_back();
  model += R"(},"merges":[)";
  const bool words = are_words(merges);
  for (const auto& [left, right] : merges) {
    if (!words) model += '[';
    model += quote_json(left);
    if (words)
      model.back() = ' ';
    else
      model += ',';
    const std::string other = quote_json(right);
    model += std::string_view(other).substr(words ? 1 : 0);
    model += words ? "," : "],";
  }
  if (!merges.empty()) model.pop_back();
  model += "]}";
}

// The text of tokenizer_json() with this model.
std::string with_model(const Json& tokenizer, std::string_view model) {
  constexpr std::string_view kNone = "null}";
  std::string text = tokenizer.to_text();
  FLARE_ASSERT(text.ends_with(kNone));  // the model is the last member
  text.resize(text.size() - kNone.size());
  text += model;
  return text += '}';
}

Json tokenizer_json(Json added, Json normalizer, Json pre, Json post, Json decoder, Json model) {
  return Json::object({{"version", "1.0"},
                       {"truncation", Json()},
                       {"padding", Json()},
                       {"added_tokens", std::move(added)},
                       {"normalizer", std::move(normalizer)},
                       {"pre_tokenizer", std::move(pre)},
                       {"post_processor", std::move(post)},
                       {"decoder", std::move(decoder)},
                       {"model", std::move(model)}});
}

std::string byte_level_tokenizer(const GgufFile& file) {
  const PreRow& pre = find_pre(file);
  const Vocabulary vocabulary = read_vocabulary(file);
  std::unordered_set<std::string_view> added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
    if (vocabulary.types[id] == kControl || vocabulary.types[id] == kUserDefined)
      added.insert(vocabulary.tokens[id]);
  // An added token is no word of the model, unless merges lead to it.
  std::unordered_set<std::string> merged;
  const GgufValue list = file.at("tokenizer.ggml.merges");
  std::vector<Merge> merges;
  for (const std::string_view merge : list.strings()) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      throw Error(Code::kDirectory, "{} has {}, two pieces with a space between expected",
                  list.where(), quote(merge));
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    merges.emplace_back(left, right);
    for (const std::string& piece :
         {std::string(left), std::string(right), std::string(left) + std::string(right)})
      if (added.contains(piece)) merged.insert(piece);
  }
  std::vector<std::pair<std::string_view, uint64_t>> tokens;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view token = vocabulary.tokens[id];
    if (!added.contains(token) || merged.contains(std::string(token)))
      tokens.emplace_back(token, id);
  }
  Json model = bpe();
  model.set("ignore_merges", pre.ignore_merges);
  std::string text = model.to_text();
  append_bpe_lists(tokens, merges, text);
  Json normalizer = pre.nfc ? Json::object({{"type", "NFC"}}) : Json();
  return with_model(
      tokenizer_json(added_tokens(vocabulary), std::move(normalizer), pre_tokenizer(pre),
                     post_processor(file, vocabulary, pre.add_bos), byte_level(true), Json()),
      text);
}

// The ids of normal tokens by their spelling, which is found by a hash that costs the same for any
// part of a piece: Σ byte·kBase^place, modulo 2^64.
class PieceIds {
 public:
  explicit PieceIds(const Vocabulary& vocabulary)
      : tokens_(vocabulary.tokens), slots_(std::bit_ceil(2 * tokens_.size() + 2)) {
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (vocabulary.types[id] != kNormal) continue;
      uint64_t hash = 0;
      for (const char c : tokens_[id]) hash = next(hash, c);
      if (find(hash, tokens_[id]) == kNone)
        slots_[slot_of(hash, tokens_[id])] = {static_cast<uint32_t>(hash >> 32),
                                              static_cast<uint32_t>(id)};
    }
  }

  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kBase = 0x9E3779B97F4A7C15u;
  // The hash of a text that goes on with `c`.
  static uint64_t next(uint64_t hash, char c) {
    return hash * kBase + static_cast<unsigned char>(c) + 1;
  }
  uint32_t find(uint64_t hash, std::string_view text) const {
    return slots_[slot_of(hash, text)].id;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    uint32_t id = kNone;
  };
  // Where the text is, or would be.
  size_t slot_of(uint64_t hash, std::string_view text) const {
    const auto tag = static_cast<uint32_t>(hash >> 32);
    const uint64_t mixed = hash * kBase;
    size_t at = (mixed ^ mixed >> 32) & (slots_.size() - 1);
    while (slots_[at].id != kNone && (slots_[at].tag != tag || tokens_[slots_[at].id] != text))
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  const std::vector<std::string_view>& tokens_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// A way to put a piece together of two others.
struct Split {
  double score;  // of the piece
  uint32_t left_length, right_length, left, right;
};

// What SentencePiece merges first; of equal ones that of the earlier piece, by ids of its parts.
bool is_before(const Split& a, const Split& b) {
  return std::tie(a.score, a.left_length, a.right_length) >
         std::tie(b.score, b.left_length, b.right_length);
}

// Appends the splits of a piece in their order.
void split_piece(std::string_view piece, double score, const PieceIds& ids,
                 std::vector<uint64_t>& hashes, std::vector<Split>& out) {
  hashes.assign(1, 0);  // of every beginning
  uint32_t length = 0;
  for (const char c : piece) {
    hashes.push_back(PieceIds::next(hashes.back(), c));
    length += begins_character(c);
  }
  const size_t first = out.size();
  uint32_t before = 1;
  uint64_t power = 1;  // kBase^(bytes of the right part)
  std::vector<uint64_t>& h = hashes;
  // From the end, where the power is that of the byte before.
  for (size_t at = piece.size() - 1; at >= 1; --at) {
    power *= PieceIds::kBase;
    if (!begins_character(piece[at])) continue;
    const uint32_t right_length = before++;
    const uint32_t left = ids.find(h[at], piece.substr(0, at));
    if (left == PieceIds::kNone) continue;
    const uint32_t right = ids.find(h.back() - h[at] * power, piece.substr(at));
    if (right != PieceIds::kNone)
      out.push_back({score, length - right_length, right_length, left, right});
  }
  std::sort(out.begin() + static_cast<ptrdiff_t>(first), out.end(),
            [](const Split& a, const Split& b) {
              if (is_before(a, b) || is_before(b, a)) return is_before(a, b);
              return std::tie(a.left, a.right) < std::tie(b.left, b.right);
            });
}

// Every split of every piece, the best-scored piece first.
std::vector<Merge> merges_by_score(const Vocabulary& vocabulary,
                                   const std::vector<double>& scores) {
  const PieceIds ids(vocabulary);
  std::vector<uint64_t> hashes;
  std::vector<Split> splits;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] != kNormal || vocabulary.tokens[id].empty()) continue;
    const std::string_view piece = vocabulary.tokens[id];
    // Splitting is quadratic; no vocabulary has a word of this length.
    constexpr size_t kLongest = 4096;
    if (piece.size() > kLongest)
      throw Error(Code::kSupport,
                  "tokenizer.ggml.tokens: token {} has {} bytes, at most {} expected", id,
                  piece.size(), kLongest);
    split_piece(piece, scores[id], ids, hashes, splits);
  }
  // Most files list their pieces by score.
  if (!std::ranges::is_sorted(splits, is_before)) std::ranges::stable_sort(splits, is_before);
  std::vector<Merge> out;
  out.reserve(splits.size());
  for (const Split& split : splits)
    out.emplace_back(vocabulary.tokens[split.left], vocabulary.tokens[split.right]);
  return out;
}

Json replace(const char* from, const char* to) {
  return Json::object(
      {{"type", "Replace"}, {"pattern", Json::object({{"String", from}})}, {"content", to}});
}

std::string scored_tokenizer(const GgufFile& file) {
  constexpr const char* kSpace = "\xE2\x96\x81";  // ▁
  const Vocabulary vocabulary = read_vocabulary(file);
  const GgufValue list = file.at("tokenizer.ggml.scores");
  const std::vector<double> scores = list.doubles();
  if (scores.size() != vocabulary.tokens.size())
    throw Error(Code::kBinding, "{} has {} items, expected one for each of {} tokens", list.where(),
                scores.size(), vocabulary.tokens.size());
  if (std::ranges::any_of(scores, [](double score) { return score != score; }))
    throw Error(Code::kBinding, "{} holds a NaN, expected numbers", list.where());
  std::vector<std::pair<std::string_view, uint64_t>> tokens;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
    tokens.emplace_back(vocabulary.tokens[id], id);
  Json model = bpe();
  model.set("byte_fallback", true);
  model.set("fuse_unk", true);
  if (const auto unknown =
          token_id(file, "tokenizer.ggml.unknown_token_id", vocabulary.tokens.size()))
    model.set("unk_token", vocabulary.tokens[*unknown]);

  const bool prefix = flag_or(file, "tokenizer.ggml.add_space_prefix", true);
  Json::Array normalizers,
      decoders = {replace(kSpace, " "), Json::object({{"type", "ByteFallback"}}),
                  Json::object({{"type", "Fuse"}})};
  if (prefix) {
    normalizers.push_back(Json::object({{"type", "Prepend"}, {"prepend", kSpace}}));
    decoders.push_back(
        Json::object({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}));
  }
  normalizers.push_back(replace(" ", kSpace));
  std::string text = model.to_text();
  append_bpe_lists(tokens, merges_by_score(vocabulary, scores), text);
  return with_model(
      tokenizer_json(added_tokens(vocabulary),
                     Json::object({{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}),
                     Json(), post_processor(file, vocabulary, true),
                     Json::object({{"type", "Sequence"}, {"decoders", std::move(decoders)}}),
                     Json()),
      text);
}

// Words are spelled with a mark in front; without one a piece goes on inside of a word. The files
// do not say how they normalise: all of this kind are uncased.
Json word_piece_tokenizer(const GgufFile& file) {
  constexpr std::string_view kMark = "\xE2\x96\x81", kInside = "##";
  const Vocabulary vocabulary = read_vocabulary(file);
  const size_t n = vocabulary.tokens.size();
  const auto role = [&](std::string_view key, uint64_t absent) {
    const auto id = token_id(file, key, n);
    if (!id && absent >= n)
      throw Error(Code::kBinding, "{}: missing, an id below {} expected", key, n);
    return id.value_or(absent);
  };
  const uint64_t unknown = role("tokenizer.ggml.unknown_token_id", 100);
  const uint64_t cls = role("tokenizer.ggml.cls_token_id", 101);
  const uint64_t sep = role("tokenizer.ggml.seperator_token_id", 102);
  Json::Array added;
  Json::Object vocab;
  for (size_t id = 0; id < n; ++id) {
    const std::string_view token = vocabulary.tokens[id];
    const bool role_token = vocabulary.types[id] != kNormal || id == cls || id == sep;
    const bool bracketed = token.starts_with('[') && token.ends_with(']');
    std::string word(token);
    if (token.starts_with(kMark))
      word.erase(0, kMark.size());
    else if (!role_token && !bracketed)
      word.insert(0, kInside);
    vocab.emplace_back(word, Json(id));
    if (!role_token) continue;
    added.push_back(Json::object({{"id", id},
                                  {"content", word},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", true}}));
  }
  const auto pair = [&](uint64_t id) { return Json::array({vocab[id].first, id}); };
  Json post = Json::object({{"type", "BertProcessing"}, {"sep", pair(sep)}, {"cls", pair(cls)}});
  Json model = Json::object({{"type", "WordPiece"},
                             {"unk_token", vocab[unknown].first},
                             {"continuing_subword_prefix", kInside},
                             {"max_input_chars_per_word", 100},
                             {"vocab", std::move(vocab)}});
  Json normalizer = Json::object({{"type", "BertNormalizer"},
                                  {"clean_text", true},
                                  {"handle_chinese_chars", true},
                                  {"strip_accents", Json()},
                                  {"lowercase", true}});
  return tokenizer_json(
      std::move(added), std::move(normalizer), Json::object({{"type", "BertPreTokenizer"}}),
      std::move(post),
      Json::object({{"type", "WordPiece"}, {"prefix", kInside}, {"cleanup", true}}),
      std::move(model));
}

std::optional<std::string> tokenizer_of(const GgufFile& file) {
  const GgufValue model = file.at(kModelKey);
  if (model.as_string() == "gpt2") return byte_level_tokenizer(file);
  if (model.as_string() == "llama") return scored_tokenizer(file);
  if (model.as_string() == "bert") return word_piece_tokenizer(file).to_text();
  throw Error(Code::kSupport, "{} is {}, only gpt2, llama and bert are supported", model.where(),
              quote(model.as_string()));
}

std::string tokenizer_config(const GgufFile& file) {
  const auto tokens = file.at("tokenizer.ggml.tokens").strings();
  Json out = Json::object();
  const std::pair<const char*, const char*> roles[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [role, key] : roles)
    if (const auto id = token_id(file, key, tokens.size())) out.set(role, tokens[*id]);
  return out.to_text();
}

// Ids that end an answer: those the file names, and control tokens that end a turn or a text in
// every family that has them. Where an answer is several messages (gpt-oss), <|end|> is the end of
// one and the answer ends with another mark, whatever the file says.
std::string generation_config(const GgufFile& file) {
  constexpr std::string_view kEnds[] = {
      "<|im_end|>", "<|eot_id|>",      "<|eom_id|>",    "<|endoftext|>", "<|end|>",
      "</s>",       "<|end_of_text|>", "<end_of_turn>", "<|return|>",    "<|call|>"};
  const Vocabulary vocabulary = read_vocabulary(file);
  const auto has_mark = [&](std::string_view token) {
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
      if (vocabulary.types[id] != kNormal && vocabulary.tokens[id] == token) return true;
    return false;
  };
  const bool has_messages = has_mark("<|return|>") && has_mark("<|call|>");
  std::vector<uint64_t> ids;
  const auto add = [&](uint64_t id) {
    if (has_messages && vocabulary.tokens[id] == "<|end|>") return;
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  };
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"})
    if (const auto id = token_id(file, key, vocabulary.tokens.size())) add(*id);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id)
    if (vocabulary.types[id] == kControl &&
        std::ranges::find(kEnds, vocabulary.tokens[id]) != std::end(kEnds))
      add(id);
  Json out = Json::object();
  Json::Array list;
  for (const uint64_t id : ids) list.emplace_back(id);
  if (!list.empty()) out.set("eos_token_id", std::move(list));
  const std::pair<const char*, const char*> sampling[] = {{"temperature", "general.sampling.temp"},
                                                          {"top_p", "general.sampling.top_p"},
                                                          {"min_p", "general.sampling.min_p"}};
  for (const auto& [name, key] : sampling)
    if (const auto value = file.find(key)) out.set(name, value->as_double());
  if (const auto value = file.find("general.sampling.top_k")) out.set("top_k", value->as_u64());
  return out.to_text();
}

}  // namespace

std::optional<std::string> gguf_resource(const GgufFile& file, std::string_view role) {
  if (role == "chat_template.jinja") {
    const auto text = file.find("tokenizer.chat_template");
    return text ? std::optional(std::string(text->as_string())) : std::nullopt;
  }
  const auto model = file.find(kModelKey);
  if (!model || model->as_string() == "none" || model->as_string() == "no_vocab")
    return std::nullopt;
  if (role == "tokenizer.json") return tokenizer_of(file);
  if (role == "tokenizer_config.json") return tokenizer_config(file);
  if (role == "generation_config.json") return generation_config(file);
  return std::nullopt;
}

}  // namespace flare::prepare
