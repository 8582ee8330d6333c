// Reading a Unigram model, and what becomes of unknown characters.
#include "frontend/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flare::frontend::tokenizer {

namespace {

// The spellings of [["piece", score], …] in order; `scores` gets the numbers.
std::vector<std::string_view> read_pieces(const Component& component, std::vector<double>& scores) {
  const Json::Array& list = component.array("vocab");
  std::vector<std::string_view> out;
  out.reserve(list.size());
  scores.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_array() || item.as_array().size() != 2 || !item.as_array()[0].is_string() ||
        !item.as_array()[1].is_number() || !std::isfinite(item.as_array()[1].as_double()))
      throw Error(Code::kInvalid, "{}: a piece and its score expected",
                  component.path_of("vocab", out.size()));
    out.push_back(item.as_array()[0].as_string());
    scores.push_back(item.as_array()[1].as_double());
  }
  return out;
}

}  // namespace

Unigram::Unigram(const Component& component)
    : vocabulary_(read_pieces(component, scores_), component.path_of("vocab")),
      byte_fallback_(component.flag_or("byte_fallback", false)) {
  if (component.find("unk_id") != nullptr) {
    const uint32_t limit = static_cast<uint32_t>(vocabulary_.id_limit());
    unk_id_ = static_cast<int32_t>(component.number("unk_id", limit));
  }
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    least = std::min(least, scores_[id]);
    pieces.emplace_back(vocabulary_.spelling(id), id);
  }
  trie_ = PieceTrie(std::move(pieces));
  unk_score_ = least - kUnknownPenalty;
  for (int b = 0; b < 256; ++b) byte_tokens_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
}

int32_t Unigram::unknown_id() const {
  if (!unk_id_)
    throw Error(Code::kInvalid, "tokenizer: an unknown character, but the model has no unk_id");
  return *unk_id_;
}

// A run of unknown characters is one token, unless bytes spell it.
void Unigram::append_unknown(std::string_view text, std::vector<int32_t>& out) const {
  if (const int32_t id = vocabulary_.find(text); id != Vocabulary::kNone) {
    out.push_back(id);
    return;
  }
  const auto token = [&](char c) { return byte_tokens_[static_cast<uint8_t>(c)]; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(),
                                    [&](char c) { return token(c) != Vocabulary::kNone; })) {
    for (const char c : text) out.push_back(token(c));
    return;
  }
  out.push_back(unknown_id());
}

void Unigram::encode(std::string_view piece, std::vector<int32_t>& out,
                     UnigramScratch& scratch) const {
  size_t unknown_begin = std::string_view::npos;
  const auto flush = [&](size_t end) {
    if (unknown_begin == std::string_view::npos) return;
    append_unknown(piece.substr(unknown_begin, end - unknown_begin), out);
    unknown_begin = std::string_view::npos;
  };
  best_segmentation<double>(
      piece, trie_, scratch,
      [&](double so_far, size_t, int32_t id, size_t) -> std::optional<double> {
        return scores_[id] + so_far;
      },
      [&](double so_far) { return unk_score_ + so_far; }, [&] { return unknown_id(); },
      [&](int32_t id, size_t begin, size_t) {
        if (unk_id_ && id == *unk_id_) {
          unknown_begin = std::min(unknown_begin, begin);
          return;
        }
        flush(begin);
        out.push_back(id);
      });
  flush(piece.size());
}

}  // namespace flare::frontend::tokenizer
