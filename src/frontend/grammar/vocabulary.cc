// Builds the trie of a vocabulary and its slices.
#include "frontend/grammar/vocabulary.h"

#include <algorithm>
#include <numeric>

#include "frontend/grammar/lexer.h"
#include "frontend/grammar/vocabulary_trie.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::grammar {
namespace {

using Trie = Vocabulary::Trie;

void build_tree(const std::vector<Token>& tokens, std::vector<int32_t> order, Trie& trie) {
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const std::string& x = tokens[static_cast<size_t>(a)].bytes;
    const std::string& y = tokens[static_cast<size_t>(b)].bytes;
    return x != y ? x < y : a < b;
  });
  trie.all.push(0, 0, 0);
  trie.first_token = {0};
  std::string_view previous;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string_view bytes = tokens[static_cast<size_t>(order[i])].bytes;
    const auto differ = std::mismatch(bytes.begin(), bytes.end(), previous.begin(), previous.end());
    for (auto at = static_cast<size_t>(differ.first - bytes.begin()); at < bytes.size(); ++at) {
      trie.all.push(static_cast<uint8_t>(bytes[at]), static_cast<uint8_t>(at + 1),
                    static_cast<uint32_t>(trie.all.size()));
      trie.first_token.push_back(static_cast<uint32_t>(i));
    }
    previous = bytes;
  }
  trie.all.close();
  trie.first_token.push_back(static_cast<uint32_t>(order.size()));
  trie.tokens = std::move(order);
}

// Letters of a token that is whole characters of the set; 0 otherwise.
uint32_t plain_letters(std::string_view bytes, const CodePointSet& set) {
  uint32_t n = 0;
  for (size_t at = 0; at < bytes.size(); ++n) {
    const tokenizer::Utf8Part part = tokenizer::utf8_part(bytes, at);
    if (part.kind != tokenizer::Utf8Part::kCharacter ||
        !contains(set, tokenizer::decode_at(bytes, at).code_point))
      return 0;
    at += part.bytes;
  }
  return n;
}

Trie::Slice make_slice(const std::vector<Token>& tokens, const Trie& trie, CodePointSet letters) {
  Trie::Slice slice{.letters = std::move(letters), .up_to = {}, .rest = {}};
  std::vector<bool> in_slice(tokens.size());
  const size_t words = (tokens.size() + 31) / 32;
  slice.up_to.assign(kSliceLetters + 1, std::vector<uint32_t>(words, 0));
  for (const int32_t id : trie.tokens) {
    const auto i = static_cast<size_t>(id);
    const uint32_t n = plain_letters(tokens[i].bytes, slice.letters);
    if (n == 0 || n > kSliceLetters) continue;
    in_slice[i] = true;
    slice.up_to[n][i / 32] |= 1u << (i % 32);
  }
  for (size_t n = 1; n <= kSliceLetters; ++n)
    for (size_t w = 0; w < words; ++w) slice.up_to[n][w] |= slice.up_to[n - 1][w];
  // Others that end at or below a node keep it.
  std::vector<uint32_t> others(trie.tokens.size() + 1, 0);
  for (size_t k = 0; k < trie.tokens.size(); ++k)
    others[k + 1] = others[k] + (in_slice[static_cast<size_t>(trie.tokens[k])] ? 0 : 1);
  for (uint32_t node = 0; node < trie.all.size(); ++node) {
    const uint32_t first = trie.first_token[node];
    const uint32_t last = trie.first_token[trie.all.skip[node]];
    if (node == 0 || others[last] > others[first])
      slice.rest.push(trie.all.byte[node], trie.all.depth[node], node);
  }
  slice.rest.close();
  return slice;
}

// Walks the vocabulary once through a string without constraints.
Trie::AnyString any_string(const std::vector<Token>& tokens, const Trie& trie, bool open) {
  Languages languages;
  const Program program;
  Lexer lexer(languages, program);
  const Lex start = lexer.start(Languages::kEverything, Spelling::kJson);
  Trie::AnyString out;
  const std::vector<uint32_t> none((tokens.size() + 31) / 32, 0);
  out.inside_up_to.assign(kLongestInTrie + 1, none);
  out.closing = none;
  const auto set = [](std::vector<uint32_t>& mask, int32_t token) {
    mask[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
  };
  Lex stack[kLongestInTrie + 1] = {open ? lexer.step(start, '"') : start};
  uint32_t letters[kLongestInTrie + 1] = {0};  // whole ones
  uint32_t path[kLongestInTrie + 1] = {0};
  std::vector<bool> leads_out(trie.all.size());
  for (uint32_t node = 1; node < trie.all.size();) {
    const size_t depth = trie.all.depth[node];
    const uint8_t byte = trie.all.byte[node];
    path[depth] = node;
    stack[depth] = lexer.step(stack[depth - 1], byte);
    const uint32_t end = trie.all.skip[node];
    if (stack[depth] == Lexer::kDead) {
      node = end;
      continue;
    }
    letters[depth] = letters[depth - 1] + (lexer.completed(stack[depth - 1], byte) >= 0 ? 1 : 0);
    const bool closed = lexer.accepts(stack[depth]);
    const bool whole = closed || lexer.plain(stack[depth]);
    for (uint32_t t = trie.first_token[node]; t < trie.first_token[node + 1]; ++t) {
      const int32_t token = trie.tokens[t];
      set(closed ? out.closing : out.inside_up_to[letters[depth] + (whole ? 0 : 1)], token);
      if (closed) out.closings.push_back({letters[depth], static_cast<uint32_t>(token)});
    }
    if (!closed) {
      ++node;
      continue;
    }
    for (size_t d = 0; d <= depth; ++d) leads_out[path[d]] = true;
    if (trie.has_children(node)) {
      out.exits.push_back(node);
      out.counted_exits.push_back({letters[depth], node});
    }
    for (uint32_t t = trie.first_token[node]; t < trie.first_token[end]; ++t)
      if (tokens[static_cast<size_t>(trie.tokens[t])].bytes.find('\\') != std::string::npos)
        out.rewritten.push_back(trie.tokens[t]);
    node = end;
  }
  for (uint32_t node = 0; node < trie.all.size(); ++node)
    if (node == 0 || leads_out[node])
      out.through.push(trie.all.byte[node], trie.all.depth[node], node);
  out.through.close();
  for (size_t n = 1; n < out.inside_up_to.size(); ++n)
    for (size_t w = 0; w < none.size(); ++w) out.inside_up_to[n][w] |= out.inside_up_to[n - 1][w];
  return out;
}

// A token that ends the turn may stand for a marker too, where a grammar asks for it.
bool is_marker(const Token& t) {
  return (t.kind == Token::Kind::kMarker || t.kind == Token::Kind::kEnd) && !t.bytes.empty();
}

}  // namespace

void Vocabulary::Trie::View::close() {
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < size(); ++i) {
    while (!open.empty() && depth[open.back()] >= depth[i]) {
      skip[open.back()] = i;
      open.pop_back();
    }
    open.push_back(i);
  }
  for (const uint32_t i : open) skip[i] = static_cast<uint32_t>(size());
}

Vocabulary::Vocabulary(std::vector<Token> tokens)
    : tokens_(std::move(tokens)), trie_(std::make_unique<Trie>()) {
  std::vector<int32_t> in_trie;
  for (int32_t id = 0; id < size(); ++id) {
    const Token& t = token(id);
    switch (t.kind) {
      case Token::Kind::kText:
        if (t.bytes.size() > kLongestInTrie)
          trie_->long_tokens.push_back({id, 0});
        else if (!t.bytes.empty())
          in_trie.push_back(id);
        break;
      case Token::Kind::kMarker:
        if (!t.bytes.empty()) markers_.push_back(t.bytes);
        break;
      case Token::Kind::kEnd:
        end_tokens_.push_back(id);
        if (!t.bytes.empty()) markers_.push_back(t.bytes);
        break;
      case Token::Kind::kUnused:
        break;
    }
  }
  std::sort(markers_.begin(), markers_.end());
  markers_.erase(std::unique(markers_.begin(), markers_.end()), markers_.end());
  trie_->markers.resize(markers_.size());
  for (int32_t id = 0; id < size(); ++id)
    if (is_marker(token(id)))
      trie_->markers[static_cast<size_t>(*marker(token(id).bytes))].push_back(id);
  build_tree(tokens_, std::move(in_trie), *trie_);
  for (const bool open : {false, true})
    trie_->any_string[open ? 1 : 0] = any_string(tokens_, *trie_, open);
  // What strings may hold, without the line ends that `.` of a pattern leaves out; then less and
  // less of it, for patterns of classes such as [^/], \S, \w and [a-z].
  const CodePointSet plain = intersection(
      complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x2028, 0x2029}}), any_code_point());
  const CodePointSet letters = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
  const CodePointSet foreign =
      intersection(complement(union_of(space_characters(), {{0, 0x7F}})), any_code_point());
  const CodePointSet sets[] = {plain, union_of(union_of(letters, foreign), {{' ', ' '}}),
                               union_of(letters, foreign), letters, CodePointSet{{'a', 'z'}}};
  for (Trie::LongToken& t : trie_->long_tokens) t.letters = plain_letters(token(t.id).bytes, plain);
  for (const CodePointSet& set : sets) trie_->slices.push_back(make_slice(tokens_, *trie_, set));
}

Vocabulary::~Vocabulary() = default;

std::optional<int32_t> Vocabulary::marker(std::string_view text) const {
  const auto it = std::lower_bound(markers_.begin(), markers_.end(), text);
  if (it == markers_.end() || *it != text) return std::nullopt;
  return static_cast<int32_t>(it - markers_.begin());
}

}  // namespace flare::frontend::grammar
