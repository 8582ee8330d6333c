// Masks: what each leaf allows is learnt once for the whole vocabulary, whatever surrounds it; a
// mask joins the leaves of a state and follows the stack only where a token leaves a leaf.
#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>

#include "base/json/json.h"
#include "frontend/grammar/machine.h"
#include "frontend/grammar/vocabulary_trie.h"

namespace flare::frontend::grammar {
namespace {

using Trie = Vocabulary::Trie;

constexpr int32_t kRootSet = 0;
constexpr int32_t kNoName = -1;
// More tokens than this are kept as a mask.
constexpr size_t kSparse = 1024;
// Counters above this are alike for every token of the trie.
constexpr uint32_t kHorizon = kLongestInTrie + 1;

void set_token(std::span<uint32_t> mask, int32_t token) {
  mask[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
}
bool is_plain(std::string_view bytes) { return bytes.find('\\') == std::string_view::npos; }

// The letters of a JSON string up to its closing quote; nullopt if that cannot be told.
std::optional<std::u32string> json_letters(std::string_view bytes) {
  bool escaped = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '"' && !escaped) {
      try {
        const Json text = parse_json('"' + std::string(bytes.substr(0, i + 1)), "token");
        return decode_utf8(text.as_string());
      } catch (const Error&) {
        return std::nullopt;
      }
    }
    escaped = bytes[i] == '\\' && !escaped;
  }
  return std::nullopt;
}

// The node below `node` that this byte leads to; 0 if none.
uint32_t child(const Trie& trie, uint32_t node, uint8_t byte) {
  for (uint32_t i = node + 1; i < trie.all.skip[node]; i = trie.all.skip[i]) {
    if (trie.all.byte[i] == byte) return i;
    if (trie.all.byte[i] > byte) break;
  }
  return 0;
}

// Calls enter(depth, byte) for the nodes of view [first, last), whose parents have depth `base`,
// and at(node, depth) where it says to stay; what is below others is passed over.
template <typename Enter, typename At>
void walk(const Trie::View& view, uint32_t first, uint32_t last, Enter enter, At at) {
  for (uint32_t i = first; i < last;) {
    if (!enter(view.depth[i], view.byte[i]) || !at(view.node[i], view.depth[i]))
      i = view.skip[i];
    else
      ++i;
  }
}

}  // namespace

struct Machine::Collect {
  State root;  // of which the mask is made
  std::span<uint32_t> mask;
  // Tokens to be tried one by one from the root in the end: both those that a leaf cannot judge
  // and those that would repeat a member name.
  std::vector<int32_t> retry = {};
  std::vector<std::pair<State, int32_t>> seen = {};
};

bool Machine::fill_mask(State state, std::span<uint32_t> mask) {
  Collect job{.root = state, .mask = mask};
  collect(job, state, kRootSet, false);
  std::vector<int32_t> markers;
  const std::vector<Config> configs = states_[static_cast<size_t>(state)].configs;
  for (const Config& c : configs) lexer_.markers(c.lex, markers);
  for (const int32_t marker : markers)
    for (const int32_t id : vocabulary_.trie().markers[static_cast<size_t>(marker)])
      set_token(mask, id);
  for (const int32_t token : job.retry) {
    const auto i = static_cast<size_t>(token);
    mask[i / 32] &= ~(1u << (i % 32));
    if (step_token(state, token) != kDead) set_token(mask, token);
  }
  if (accepts(state))
    for (const int32_t end : vocabulary_.end_tokens()) set_token(mask, end);
  return std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
}

void Machine::add_tokens(Collect& job, const Summary& s, Lex lex) {
  for (size_t w = 0; w < s.dense.size(); ++w) job.mask[w] |= s.dense[w];
  for (const std::vector<uint32_t>* shared : {s.shared, s.shared_closing})
    if (shared != nullptr)
      for (size_t w = 0; w < shared->size(); ++w) job.mask[w] |= (*shared)[w];
  for (const int32_t token : s.sparse) set_token(job.mask, token);
  job.retry.insert(job.retry.end(), s.leaving.begin(), s.leaving.end());
  if (s.staying.empty()) return;
  const Trie& trie = vocabulary_.trie();
  const bool exact = lexer_.spelling(lex) == Spelling::kKey || lexer_.clipped(lex, kHorizon) == lex;
  const uint32_t free = lexer_.free_letters(lex, trie.slices[0].letters);
  const bool no_more = free == lexer_.most_letters(lex);
  for (const uint32_t n : s.staying) {
    const Trie::LongToken& token = trie.long_tokens[n];
    if (exact || (token.letters > 0 && token.letters <= free))
      set_token(job.mask, token.id);
    else if (token.letters == 0 || !no_more)
      job.retry.push_back(token.id);
  }
}

// Adds the tokens whose bytes behind a node of the set are legal in `state`. `approximate`: the
// state stands for several that differ in a member name just written.
void Machine::collect(Collect& job, State state, int32_t nodes, bool approximate) {
  if (state == kDead) return;
  if (std::find(job.seen.begin(), job.seen.end(), std::pair{state, nodes}) != job.seen.end())
    return;
  job.seen.emplace_back(state, nodes);
  languages_->charge(0);
  const std::vector<Config> configs = states_[static_cast<size_t>(state)].configs;
  std::vector<std::pair<int32_t, Thread>> exits;  // node set, what goes on behind it
  for (const Config& c : configs) {
    if (lexer_.spelling(c.lex) == Spelling::kKey) {
      collect_key(job, c, nodes, approximate);
      continue;
    }
    const Summary& s = summary(lexer_.clipped(c.lex, kHorizon), nodes);
    add_tokens(job, s, c.lex);
    if (s.exits >= 0) exits.push_back({s.exits, {c.pc, c.frame}});
  }
  if (exits.empty()) return;
  std::sort(exits.begin(), exits.end());
  std::vector<int32_t> sets;
  for (const auto& [set, thread] : exits)
    if (sets.empty() || sets.back() != set) sets.push_back(set);
  // Leaves that end at one node go on together: apart, ambiguous grammars would have no end.
  for (const auto& [part, members] : partition(sets)) {
    std::vector<Thread> threads;
    for (const auto& [set, thread] : exits)
      if (std::binary_search(members.begin(), members.end(), set)) threads.push_back(thread);
    collect(job, behind(std::move(threads)), part, approximate);
  }
}

// The sets cut into parts of which each node is of the same sets; with these sets.
std::vector<std::pair<int32_t, std::vector<int32_t>>> Machine::partition(
    const std::vector<int32_t>& sets) {
  if (sets.size() == 1) return {{sets[0], sets}};
  const auto known = partitions_.find(sets);
  if (known != partitions_.end()) return known->second;
  std::vector<std::pair<uint32_t, int32_t>> members;
  for (const int32_t set : sets)
    for (const uint32_t node : node_sets_[static_cast<size_t>(set)])
      members.emplace_back(node, set);
  std::sort(members.begin(), members.end());
  std::map<std::vector<int32_t>, std::vector<uint32_t>> groups;
  for (size_t i = 0; i < members.size();) {
    std::vector<int32_t> of;
    const uint32_t node = members[i].first;
    for (; i < members.size() && members[i].first == node; ++i) of.push_back(members[i].second);
    groups[std::move(of)].push_back(node);
  }
  std::vector<std::pair<int32_t, std::vector<int32_t>>> out;
  for (auto& [of, part] : groups) out.emplace_back(node_set(std::move(part)), of);
  bytes_ += 64 + 32 * out.size();
  partitions_.emplace(sets, out);
  return out;
}

void Machine::collect_key(Collect& job, const Config& c, int32_t nodes, bool approximate) {
  const Summary& s = summary(c.lex, nodes);
  add_tokens(job, s, c.lex);
  const auto data = static_cast<size_t>(frames_[static_cast<size_t>(c.frame)].data);
  const ObjectSpec::Bits usable = object_states_[data].usable;
  const bool has_extras = !object_states_[data].extras.empty();
  const size_t n_names =
      program_.objects[static_cast<size_t>(object_states_[data].object)].names.size();
  for (const auto& [lex, tokens] : s.conditional)
    if (lexer_.key_usable(lex, usable))
      for (const int32_t token : tokens) set_token(job.mask, token);
  bool others = false;
  for (const Exit& exit : s.keys) {
    const bool listed = static_cast<size_t>(exit.tag) < n_names;
    if (!listed && has_extras && (approximate || lexer_.in_escape(c.lex))) {
      // Which names are taken depends on the token: all are tried.
      job.retry.insert(job.retry.end(), exit.tokens.begin(), exit.tokens.end());
      if (exit.closing != nullptr)
        for (int32_t t = 0; t < vocabulary_.size(); ++t)
          if ((*exit.closing)[static_cast<size_t>(t) / 32] >> (t % 32) & 1) job.retry.push_back(t);
      if (exit.nodes >= 0)
        for (const uint32_t node : node_sets_[static_cast<size_t>(exit.nodes)]) {
          const Trie& trie = vocabulary_.trie();
          for (uint32_t t = trie.first_token[node + 1]; t < trie.first_token[trie.all.skip[node]];
               ++t)
            job.retry.push_back(trie.tokens[t]);
        }
      continue;
    }
    const State next = behind_key(c, exit.tag);
    if (next == kDead) continue;
    for (const int32_t token : exit.tokens) set_token(job.mask, token);
    if (exit.closing != nullptr)
      for (size_t w = 0; w < exit.closing->size(); ++w) job.mask[w] |= (*exit.closing)[w];
    job.retry.insert(job.retry.end(), exit.doubtful.begin(), exit.doubtful.end());
    if (exit.nodes >= 0) collect(job, next, exit.nodes, approximate || !listed);
    others |= !listed;
    if (!listed && has_extras) recheck_rewritten(job, c, nodes, exit.rewritten);
    if (!listed && has_extras && exit.all_rewritten != nullptr)
      recheck_rewritten(job, c, nodes, *exit.all_rewritten);
  }
  if (others && has_extras && !approximate) recheck_duplicates(job, c, nodes);
}

// What is missing of the names that the object has already and that the one under way begins.
std::vector<std::u32string> Machine::names_left(const Config& c) const {
  std::vector<std::u32string> out;
  const auto data = static_cast<size_t>(frames_[static_cast<size_t>(c.frame)].data);
  for (const int32_t extra : object_states_[data].extras) {
    if (extra == kNoName || !is_prefix(c.name, extra)) continue;
    std::u32string rest;
    for (int32_t n = extra; n != c.name; n = names_[static_cast<size_t>(n)].parent)
      rest += static_cast<char32_t>(names_[static_cast<size_t>(n)].letter);
    std::reverse(rest.begin(), rest.end());
    out.push_back(std::move(rest));
  }
  return out;
}

// Marks the tokens that would complete a name the object has already.
void Machine::recheck_duplicates(Collect& job, const Config& c, int32_t nodes) {
  const Trie& trie = vocabulary_.trie();
  for (const std::u32string& rest : names_left(c)) {
    std::string bytes;
    for (const char32_t letter : rest) append_utf8(bytes, letter);
    bytes += '"';
    // The spelling up to here may end inside a letter: the machine knows where the bytes go on.
    if (!lexer_.plain(c.lex) && lexer_.step(c.lex, '"') != Lexer::kDead) bytes.insert(0, 1, '"');
    for (const uint32_t start : node_sets_[static_cast<size_t>(nodes)]) {
      for (size_t skip = 0; skip < std::min<size_t>(bytes.size(), 4); ++skip) {
        if (skip > 0 && lexer_.plain(c.lex)) break;
        uint32_t node = start;
        for (size_t i = skip; i < bytes.size(); ++i) {
          node = child(trie, node, static_cast<uint8_t>(bytes[i]));
          if (node == 0) break;
        }
        if (node == 0) continue;
        for (uint32_t t = trie.first_token[node]; t < trie.first_token[trie.all.skip[node]]; ++t)
          job.retry.push_back(trie.tokens[t]);
      }
    }
  }
}

// The same of tokens that spell with escapes, where they begin at a letter only if they spell one.
void Machine::recheck_rewritten(Collect& job, const Config& c, int32_t nodes,
                                std::span<const int32_t> tokens) {
  if (tokens.empty()) return;
  const std::vector<std::u32string> names = names_left(c);
  if (names.empty()) return;
  const bool before_quote = lexer_.before_quote(c.lex);
  const bool readable = nodes == kRootSet && (before_quote || lexer_.plain(c.lex));
  for (const int32_t token : tokens) {
    std::string_view bytes = vocabulary_.token(token).bytes;
    if (before_quote) bytes.remove_prefix(1);
    const std::optional<std::u32string> spelled = readable ? json_letters(bytes) : std::nullopt;
    if (!spelled || std::find(names.begin(), names.end(), *spelled) != names.end())
      job.retry.push_back(token);
  }
}

const Machine::Summary& Machine::summary(Lex lex, int32_t nodes) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(lex)} << 32 | static_cast<uint32_t>(nodes);
  const auto known = summaries_.find(key);
  languages_->charge(0);
  if (known != summaries_.end()) return *known->second;
  auto made = std::make_unique<Summary>(make_summary(lex, nodes));
  bytes_ += sizeof(Summary) + 64 + made->dense.size() * 4 + made->sparse.size() * 4;
  for (const auto& [l, tokens] : made->conditional) bytes_ += 32 + tokens.size() * 4;
  for (const Exit& exit : made->keys)
    bytes_ += sizeof(Exit) + (exit.tokens.size() + exit.rewritten.size()) * 4;
  return *summaries_.emplace(key, std::move(made)).first->second;
}

// Sets of the same nodes are one: so is what is learnt of them.
int32_t Machine::node_set(std::vector<uint32_t> nodes) {
  if (nodes.empty()) return -1;
  uint64_t h = nodes.size();
  for (const uint32_t node : nodes) h = (h ^ node) * 0x9E3779B97F4A7C15, h ^= h >> 29;
  const auto [first, last] = node_set_index_.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (node_sets_[static_cast<size_t>(it->second)] == nodes) return it->second;
  bytes_ += sizeof(nodes) + nodes.size() * 4 + 48;
  const auto id = static_cast<int32_t>(node_sets_.size());
  node_sets_.push_back(std::move(nodes));
  node_set_index_.emplace(h, id);
  return id;
}

int32_t Machine::any_exits(bool plain) {
  int32_t& known = any_exits_[plain ? 1 : 0];
  if (known < 0) known = node_set(vocabulary_.trie().any_string[plain ? 1 : 0].exits);
  return known;
}

void Machine::add_long_tokens(Lex lex, Summary& out) {
  const Trie& trie = vocabulary_.trie();
  const bool is_key = lexer_.spelling(lex) == Spelling::kKey;
  uint32_t min = 0, most = 0;  // letters that any token may have
  if (!lexer_.plain(lex) || !lexer_.counts_only(lex, min, most))
    most = is_key && lexer_.plain(lex) && lexer_.takes_any_name(lex) ? Languages::kInfinite : 0;
  for (uint32_t n = 0; n < trie.long_tokens.size(); ++n) {
    const auto& [id, letters] = trie.long_tokens[n];
    if (letters > 0 && most > 0) {
      if (letters <= most) out.staying.push_back(n);
      continue;
    }
    Lex here = lex;
    bool leaves = false;
    for (const char byte : vocabulary_.token(id).bytes) {
      leaves |= here != lex && lexer_.accepts(here);
      here = lexer_.step(here, static_cast<uint8_t>(byte));
      if (here == Lexer::kDead) break;
    }
    const bool stays = here != Lexer::kDead;
    if (stays && (!is_key || lexer_.key_free(here)))
      out.staying.push_back(n);
    else if (stays || leaves)
      out.leaving.push_back(id);
  }
}

// Of a string of any letters, as long as they are min..max: the vocabulary knows each token's.
Machine::Summary Machine::counted_string_summary(Lex lex, uint32_t min, uint32_t max) {
  const bool plain = lexer_.plain(lex);
  const Trie::AnyString& any = vocabulary_.trie().any_string[plain ? 1 : 0];
  Summary out;
  out.shared = &any.inside_up_to[std::min<size_t>(max, any.inside_up_to.size() - 1)];
  if (min == 0 && max >= kLongestInTrie) {
    out.shared_closing = &any.closing;
    out.exits = any_exits(plain);
  } else {
    const auto fits = [&](const Trie::AnyString::Counted& c) {
      return c.letters >= min && c.letters <= max;
    };
    for (const Trie::AnyString::Counted& closing : any.closings)
      if (fits(closing)) out.sparse.push_back(static_cast<int32_t>(closing.what));
    std::vector<uint32_t> nodes;
    for (const Trie::AnyString::Counted& exit : any.counted_exits)
      if (fits(exit)) nodes.push_back(exit.what);
    out.exits = node_set(std::move(nodes));
    make_dense(out);
  }
  add_long_tokens(lex, out);
  return out;
}

// Of an object that takes any name: as of any string, but for the few tokens that spell a listed
// name to its end.
Machine::Summary Machine::open_key_summary(Lex lex, int32_t other_tag) {
  const Trie& trie = vocabulary_.trie();
  const Trie::AnyString& any = trie.any_string[lexer_.plain(lex) ? 1 : 0];
  Summary out;
  out.shared = &any.inside();
  std::unordered_map<int32_t, std::pair<Exit, std::vector<uint32_t>>> listed;
  std::vector<int32_t> listed_tokens;
  std::vector<uint32_t> listed_nodes;
  Lex stack[kLongestInTrie + 1] = {lex};
  walk(
      trie.all, 1, static_cast<uint32_t>(trie.all.size()),
      [&](size_t depth, uint8_t byte) {
        const Lex before = stack[depth - 1];
        if (!lexer_.key_listed(before) || !lexer_.key_may_list(before, byte)) return false;
        stack[depth] = lexer_.step(before, byte);
        return stack[depth] != Lexer::kDead;
      },
      [&](uint32_t node, size_t depth) {
        const Lex here = stack[depth];
        if (!lexer_.accepts(here)) return lexer_.key_listed(here);
        if (lexer_.tag(here) == other_tag) return false;
        auto& [exit, behind] = listed[lexer_.tag(here)];
        for (uint32_t t = trie.first_token[node]; t < trie.first_token[node + 1]; ++t) {
          exit.tokens.push_back(trie.tokens[t]);
          listed_tokens.push_back(trie.tokens[t]);
        }
        if (trie.has_children(node)) {
          behind.push_back(node);
          listed_nodes.push_back(node);
        }
        return false;
      });
  Exit other{.tag = other_tag};
  other.closing = &any.closing;
  other.all_rewritten = &any.rewritten;
  other.doubtful = std::move(listed_tokens);
  other.nodes = any_exits(lexer_.plain(lex));
  if (!listed_nodes.empty()) {
    std::vector<uint32_t> nodes;
    std::set_difference(any.exits.begin(), any.exits.end(), listed_nodes.begin(),
                        listed_nodes.end(), std::back_inserter(nodes));
    other.nodes = node_set(std::move(nodes));
  }
  out.keys.push_back(std::move(other));
  for (auto& [tag, group] : listed) {
    group.first.tag = tag;
    group.first.nodes = node_set(std::move(group.second));
    out.keys.push_back(std::move(group.first));
  }
  add_long_tokens(lex, out);
  return out;
}

// One walk of the vocabulary through a leaf, which sorts the tokens.
class Machine::Walk {
 public:
  Walk(Machine& machine, Lex lex)
      : m_(machine),
        trie_(machine.vocabulary_.trie()),
        lexer_(machine.lexer_),
        lex_(lex),
        is_key_(lexer_.spelling(lex) == Spelling::kKey) {}

  // From where tokens begin: what a slice knows of is passed over.
  void from_root() {
    const Trie::View* view = &trie_.all;
    for (const Trie::Slice& slice : trie_.slices) {
      const uint32_t free = lexer_.free_letters(lex_, slice.letters);
      if (free < kSliceLetters && (free == 0 || free != lexer_.most_letters(lex_))) continue;
      view = &slice.rest;
      out_.dense = slice.up_to[std::min(free, kSliceLetters)];
      break;
    }
    stack_[0] = lex_;
    run(*view, 1, static_cast<uint32_t>(view->size()));
    m_.add_long_tokens(lex_, out_);
  }

  // From where tokens begin, of a leaf that any name may follow: only those through its closing
  // quote are told apart.
  void from_quote() {
    const Trie::AnyString& any = trie_.any_string[lexer_.plain(lex_) ? 1 : 0];
    out_.shared = &any.inside();
    stack_[0] = lex_;
    run(any.through, 1, static_cast<uint32_t>(any.through.size()));
    m_.add_long_tokens(lex_, out_);
  }

  // From behind nodes of the trie, where the leaf begins in the middle of tokens.
  void from_nodes(const std::vector<uint32_t>& nodes) {
    for (const uint32_t node : nodes) {
      stack_[trie_.all.depth[node]] = lex_;
      run(trie_.all, node + 1, trie_.all.skip[node]);
    }
  }

  Summary finish() {
    m_.make_dense(out_);
    out_.exits = m_.node_set(std::move(exits_));
    for (auto& [tag, group] : keys_) {
      group.first.tag = tag;
      group.first.nodes = m_.node_set(std::move(group.second));
      out_.keys.push_back(std::move(group.first));
    }
    for (auto& [here, tokens] : conditional_)
      out_.conditional.emplace_back(here, std::move(tokens));
    return std::move(out_);
  }

 private:
  void run(const Trie::View& view, uint32_t first, uint32_t last) {
    const auto enter = [this](size_t depth, uint8_t byte) {
      stack_[depth] = lexer_.step(stack_[depth - 1], byte);
      return stack_[depth] != Lexer::kDead;
    };
    if (is_key_)
      walk(view, first, last, enter,
           [this](uint32_t node, size_t depth) { return at_key(node, stack_[depth]); });
    else
      walk(view, first, last, enter,
           [this](uint32_t node, size_t depth) { return at_text(node, stack_[depth]); });
  }

  std::span<const int32_t> tokens_at(uint32_t node) const {
    return std::span(trie_.tokens)
        .subspan(trie_.first_token[node], trie_.first_token[node + 1] - trie_.first_token[node]);
  }

  // Whether what is below the node is of interest too.
  bool at_text(uint32_t node, Lex here) {
    const auto tokens = tokens_at(node);
    out_.sparse.insert(out_.sparse.end(), tokens.begin(), tokens.end());
    if (lexer_.accepts(here) && trie_.has_children(node)) exits_.push_back(node);
    return lexer_.goes_on(here);
  }

  bool at_key(uint32_t node, Lex here) {
    const auto tokens = tokens_at(node);
    if (!lexer_.accepts(here)) {
      if (out_.shared != nullptr) return true;  // it has them
      if (lexer_.key_free(here))
        out_.sparse.insert(out_.sparse.end(), tokens.begin(), tokens.end());
      else if (!tokens.empty())
        conditional_[here].insert(conditional_[here].end(), tokens.begin(), tokens.end());
      return true;
    }
    auto& [exit, behind] = keys_[lexer_.tag(here)];
    exit.tokens.insert(exit.tokens.end(), tokens.begin(), tokens.end());
    if (trie_.has_children(node)) behind.push_back(node);
    // An escape may spell a name in another way than it was spelled before.
    for (uint32_t t = trie_.first_token[node]; t < trie_.first_token[trie_.all.skip[node]]; ++t) {
      const int32_t id = trie_.tokens[t];
      if (!is_plain(m_.vocabulary_.token(id).bytes)) exit.rewritten.push_back(id);
    }
    return false;
  }

  Machine& m_;
  const Trie& trie_;
  Lexer& lexer_;
  const Lex lex_;
  const bool is_key_;
  Lex stack_[kLongestInTrie + 2];
  Summary out_;
  std::vector<uint32_t> exits_;
  std::unordered_map<int32_t, std::pair<Exit, std::vector<uint32_t>>> keys_;  // by tag
  std::unordered_map<Lex, std::vector<int32_t>> conditional_;
};

// Many tokens take less room as a mask.
void Machine::make_dense(Summary& summary) const {
  if (summary.dense.empty() && summary.sparse.size() <= kSparse) return;
  summary.dense.resize(vocabulary_.mask_words(), 0);
  for (const int32_t token : summary.sparse) set_token(summary.dense, token);
  summary.sparse.clear();
}

Machine::Summary Machine::make_summary(Lex lex, int32_t nodes) {
  if (nodes == kRootSet) {
    uint32_t min = 0, max = 0;
    if (lexer_.counts_only(lex, min, max)) return counted_string_summary(lex, min, max);
    if (const int32_t tag = lexer_.any_other_tag(lex); tag >= 0) return open_key_summary(lex, tag);
  }
  Walk walk(*this, lex);
  if (nodes == kRootSet && lexer_.takes_any_name(lex))
    walk.from_quote();
  else if (nodes == kRootSet)
    walk.from_root();
  else
    walk.from_nodes(std::vector(node_sets_[static_cast<size_t>(nodes)]));
  return walk.finish();
}

// Where leaves and member names begin.
std::vector<Lex> Machine::first_leaves() {
  std::vector<Lex> out;
  for (const Instruction& i : program_.code) {
    if (i.op == Op::kLeaf) {
      out.push_back(lexer_.start(i.a, static_cast<Spelling>(i.b)));
    } else if (i.op == Op::kKey) {
      const int32_t state =
          object_state({.object = i.a, .seen = {}, .needed = {}, .usable = {}, .extras = {}});
      out.push_back(lexer_.start_key(i.a, object_states_[static_cast<size_t>(state)].others));
    }
  }
  return out;
}

// Learns the mask of a leaf at this place, and adds the places that may be next.
void Machine::warm_leaf(Lex lex, std::vector<Lex>& ahead) {
  constexpr size_t kMostAhead = 4000;
  constexpr size_t kLettersOfOne = 64;
  if (lex == Lexer::kDead) return;
  const Lex clipped = lexer_.clipped(lex, kHorizon);
  const uint64_t key = uint64_t{static_cast<uint32_t>(clipped)} << 32 | kRootSet;
  if (summaries_.contains(key) || !lexer_.goes_on(clipped)) return;
  summary(clipped, kRootSet);
  if (ahead.size() < kMostAhead) lexer_.next_letters(clipped, kLettersOfOne, ahead);
}

}  // namespace flare::frontend::grammar
