// Reading added tokens and finding them in text.
#include "frontend/tokenizer/added_tokens.h"

#include <algorithm>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

AddedToken read_token(const Component& component) {
  AddedToken token;
  token.id = static_cast<int32_t>(component.number("id", kMaxIds));
  token.content = component.text("content");
  token.special = component.flag_or("special", false);
  token.normalized = component.flag_or("normalized", !token.special);
  token.lstrip = component.flag_or("lstrip", false);
  token.rstrip = component.flag_or("rstrip", false);
  token.single_word = component.flag_or("single_word", false);
  return token;
}

bool alone(std::string_view text, size_t begin, size_t end) {
  const bool left = begin > 0 && is_word(decode_at(text, previous_start(text, begin)).code_point);
  const bool right = end < text.size() && is_word(decode_at(text, end).code_point);
  return !left && !right;
}

bool is_blank(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Decoded d = decode_at(text, at);
    if (!is_white_space(d.code_point)) return false;
    at += d.bytes;
  }
  return true;
}

// "</x>" for "<x>", "[/x]" for "[x]", and back; empty for others.
std::string counterpart(std::string_view content) {
  if (content.size() < 3 || (content[0] != '<' && content[0] != '[')) return "";
  std::string out(content);
  return content[1] == '/' ? out.erase(1, 1) : out.insert(1, 1, '/');
}

bool is_structural(const AddedToken& token, const std::vector<std::string_view>* marker_texts) {
  if (token.special || marker_texts == nullptr) return true;
  const std::string_view content = token.content;
  // A template may put such a name together from parts, as in '<|' + role + '|>'.
  const auto framed = [&](std::string_view open, std::string_view close) {
    return content.starts_with(open) && content.ends_with(close);
  };
  if (framed("<|", "|>") || framed("<\uFF5C", "\uFF5C>")) return true;
  // Line breaks of a template's source are no markers.
  if (is_blank(content)) return false;
  // A template that only looks for the end of what a model thought has both as markers.
  const std::string other = counterpart(content);
  return std::any_of(marker_texts->begin(), marker_texts->end(), [&](std::string_view text) {
    return text.find(content) != text.npos || (!other.empty() && text.find(other) != text.npos);
  });
}

}  // namespace

void AddedTokens::Trie::add(std::string_view pattern, uint32_t token) {
  if (pattern.empty()) return;
  first_bytes_[static_cast<uint8_t>(pattern[0])] = 1;
  uint32_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<uint8_t>(c);
    auto& children = nodes_[node].children;
    const auto it =
        std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, uint32_t>{byte, 0});
    if (it != children.end() && it->first == byte) {
      node = it->second;
      continue;
    }
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    children.insert(it, {byte, fresh});
    nodes_.emplace_back();
    node = fresh;
  }
  nodes_[node].token = token;
}

template <typename Hit>
void AddedTokens::Trie::matches(std::string_view text, size_t at, Hit&& hit) const {
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const auto& children = nodes_[node].children;
    const auto it =
        std::lower_bound(children.begin(), children.end(), std::pair<uint8_t, uint32_t>{byte, 0});
    if (it == children.end() || it->first != byte) return;
    node = it->second;
    if (nodes_[node].token != kNoToken) hit(i + 1 - at, nodes_[node].token);
  }
}

AddedTokens::AddedTokens(const Json& list, const std::string& path, const Vocabulary& vocabulary,
                         const Normalizer* normalizer,
                         const std::vector<std::string_view>* marker_texts) {
  if (list.is_null()) return;
  if (!list.is_array())
    throw Error(Code::kInvalid, "{}: {} found, an array expected", path, list.kind_name());
  for (size_t i = 0; i < list.as_array().size(); ++i) {
    const Component component(list.as_array()[i], fmt::format("{}[{}]", path, i));
    AddedToken token = read_token(component);
    if (token.content.empty()) continue;  // the reference passes over these, too
    if (const AddedToken* twin = find(token.content)) {
      if (twin->id == token.id) continue;
      throw Error(Code::kInvalid, "{}: {} has the ids {} and {}, one expected", component.path(),
                  quote(token.content), twin->id, token.id);
    }
    const int32_t known = vocabulary.find(token.content);
    const bool taken = vocabulary.used(token.id) && known != token.id;
    if (taken || (known != Vocabulary::kNone && known != token.id) || find(token.id) != nullptr)
      throw Error(Code::kInvalid, "{}: id {} of {} does not agree with other tokens",
                  component.path(), token.id, quote(token.content));
    token.structural = is_structural(token, marker_texts);
    by_id_[token.id] = by_content_[token.content] = static_cast<uint32_t>(tokens_.size());
    tokens_.push_back(std::move(token));
  }
  // Special tokens first: of patterns that normalise to the same text the last wins.
  MatchScratch scratch;
  for (const bool special : {true, false}) {
    for (uint32_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].special != special) continue;
      AddedToken& token = tokens_[i];
      NormalizedText pattern{token.content, {}, true};
      if (token.normalized && normalizer != nullptr) normalizer->apply(pattern, scratch);
      (token.normalized ? normalized_ : raw_).add(pattern.text, i);
      token.decoded = std::move(pattern.text);
    }
  }
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens,
                         const std::vector<std::string_view>* marker_texts)
    : tokens_(std::move(tokens)) {
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    token.structural = is_structural(token, marker_texts);
    token.decoded = token.content;
    by_id_[token.id] = by_content_[token.content] = i;
    if (token.special) raw_.add(token.content, i);
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

std::vector<Section> AddedTokens::split(std::string_view text, bool normalized,
                                        const std::vector<Interval>& by_template) const {
  const Trie& trie = normalized ? normalized_ : raw_;
  std::vector<Section> out;
  size_t done = 0;
  const auto take = [&](const AddedToken& token, size_t begin, size_t end) {
    if (token.single_word && !alone(text, begin, end)) return;
    // White space that an earlier token took stays there.
    while (token.lstrip && begin > done) {
      const size_t start = previous_start(text, begin);
      if (!is_white_space(decode_at(text, start).code_point)) break;
      begin = start;
    }
    while (token.rstrip && end < text.size()) {
      const Decoded d = decode_at(text, end);
      if (!is_white_space(d.code_point)) break;
      end += d.bytes;
    }
    if (done < begin) out.push_back({done, begin, nullptr});
    out.push_back({begin, end, &token});
    done = end;
  };
  auto interval = by_template.begin();  // the first that ends behind `at`
  for (size_t at = 0; (at = trie.skip(text, at)) < text.size();) {
    while (interval != by_template.end() && interval->end <= at) ++interval;
    const size_t from = interval == by_template.end() ? text.size() : interval->begin;
    const size_t to = interval == by_template.end() ? text.size() : interval->end;
    size_t best = 0;
    const AddedToken* token = nullptr;
    trie.matches(text, at, [&](size_t length, uint32_t index) {
      const AddedToken& found = tokens_[index];
      const bool takes = !found.structural || (from <= at && at + length <= to);
      // Partly the template's: its bytes may belong to the next match.
      if (!takes && at + length > from) return;
      best = length;
      token = takes ? &found : nullptr;
    });
    if (token != nullptr) take(*token, at, at + best);
    at += std::max<size_t>(best, 1);
  }
  if (done < text.size()) out.push_back({done, text.size(), nullptr});
  return out;
}

}  // namespace flare::frontend::tokenizer
