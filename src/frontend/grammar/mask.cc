// Masks: what each leaf allows is learnt once for the whole vocabulary, whatever surrounds it; a
// mask joins the leaves of a state and follows the stack only where a token leaves a leaf.
#include <algorithm>
#include <bit>
#include <iterator>

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
    if (!listed && has_extras)
      job.retry.insert(job.retry.end(), exit.rewritten.begin(), exit.rewritten.end());
    if (!listed && has_extras && exit.all_rewritten != nullptr)
      job.retry.insert(job.retry.end(), exit.all_rewritten->begin(), exit.all_rewritten->end());
  }
  if (others && has_extras && !approximate) recheck_duplicates(job, c, nodes);
}

// Marks the tokens that would complete a name the object has already.
void Machine::recheck_duplicates(Collect& job, const Config& c, int32_t nodes) {
  const Trie& trie = vocabulary_.trie();
  const auto data = static_cast<size_t>(frames_[static_cast<size_t>(c.frame)].data);
  const std::vector<int32_t> extras = object_states_[data].extras;
  for (const int32_t extra : extras) {
    if (extra == kNoName || !is_prefix(c.name, extra)) continue;
    std::u32string rest;
    for (int32_t n = extra; n != c.name; n = names_[static_cast<size_t>(n)].parent)
      rest.insert(rest.begin(), names_[static_cast<size_t>(n)].letter);
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
  const bool any = lexer_.any_string(lex) || (is_key && lexer_.any_other_tag(lex) >= 0);
  for (uint32_t n = 0; n < trie.long_tokens.size(); ++n) {
    const int32_t id = trie.long_tokens[n].id;
    if (any && lexer_.plain(lex) && trie.long_tokens[n].letters > 0) {
      out.staying.push_back(n);
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

Machine::Summary Machine::any_string_summary(Lex lex) {
  const Trie::AnyString& any = vocabulary_.trie().any_string[lexer_.plain(lex) ? 1 : 0];
  Summary out;
  out.shared = &any.inside;
  out.shared_closing = &any.closing;
  out.exits = any_exits(lexer_.plain(lex));
  add_long_tokens(lex, out);
  return out;
}

// Of an object that takes any name: as of any string, but for the few tokens that spell a listed
// name to its end.
Machine::Summary Machine::open_key_summary(Lex lex, int32_t other_tag) {
  const Trie& trie = vocabulary_.trie();
  const Trie::AnyString& any = trie.any_string[lexer_.plain(lex) ? 1 : 0];
  Summary out;
  out.shared = &any.inside;
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

Machine::Summary Machine::make_summary(Lex lex, int32_t nodes) {
  const Trie& trie = vocabulary_.trie();
  if (nodes == kRootSet && lexer_.any_string(lex)) return any_string_summary(lex);
  if (nodes == kRootSet && lexer_.any_other_tag(lex) >= 0)
    return open_key_summary(lex, lexer_.any_other_tag(lex));
  Summary out;
  std::vector<uint32_t> exits;
  std::unordered_map<int32_t, std::pair<Exit, std::vector<uint32_t>>> keys;
  std::unordered_map<Lex, std::vector<int32_t>> conditional;
  const bool is_key = lexer_.spelling(lex) == Spelling::kKey;
  Lex stack[kLongestInTrie + 2];

  const auto tokens_at = [&](uint32_t node) {
    return std::span(trie.tokens)
        .subspan(trie.first_token[node], trie.first_token[node + 1] - trie.first_token[node]);
  };
  const auto enter = [&](size_t depth, uint8_t byte) {
    stack[depth] = lexer_.step(stack[depth - 1], byte);
    return stack[depth] != Lexer::kDead;
  };
  const auto at_text = [&](uint32_t node, size_t depth) {
    const Lex here = stack[depth];
    const auto tokens = tokens_at(node);
    out.sparse.insert(out.sparse.end(), tokens.begin(), tokens.end());
    if (lexer_.accepts(here) && trie.has_children(node)) exits.push_back(node);
    return lexer_.goes_on(here);
  };
  const auto at_key = [&](uint32_t node, size_t depth) {
    const Lex here = stack[depth];
    const auto tokens = tokens_at(node);
    if (!lexer_.accepts(here)) {
      if (lexer_.key_free(here))
        out.sparse.insert(out.sparse.end(), tokens.begin(), tokens.end());
      else if (!tokens.empty())
        conditional[here].insert(conditional[here].end(), tokens.begin(), tokens.end());
      return true;
    }
    auto& [exit, behind] = keys[lexer_.tag(here)];
    exit.tokens.insert(exit.tokens.end(), tokens.begin(), tokens.end());
    if (trie.has_children(node)) behind.push_back(node);
    // An escape may spell a name in another way than it was spelled before.
    for (uint32_t t = trie.first_token[node]; t < trie.first_token[trie.all.skip[node]]; ++t) {
      const int32_t id = trie.tokens[t];
      if (!is_plain(vocabulary_.token(id).bytes)) exit.rewritten.push_back(id);
    }
    return false;
  };
  const auto run = [&](const Trie::View& view, uint32_t first, uint32_t last) {
    if (is_key)
      walk(view, first, last, enter, at_key);
    else
      walk(view, first, last, enter, at_text);
  };

  const Trie::Slice* slice = nullptr;
  if (nodes == kRootSet) {
    for (const Trie::Slice& s : trie.slices) {
      const uint32_t free = lexer_.free_letters(lex, s.letters);
      if (free >= kSliceLetters || (free > 0 && free == lexer_.most_letters(lex))) {
        slice = &s;
        out.dense = s.up_to[std::min(free, kSliceLetters)];
        break;
      }
    }
    stack[0] = lex;
    const Trie::View& view = slice ? slice->rest : trie.all;
    run(view, 1, static_cast<uint32_t>(view.size()));
    add_long_tokens(lex, out);
  } else {
    const std::vector<uint32_t> members = node_sets_[static_cast<size_t>(nodes)];
    for (const uint32_t node : members) {
      stack[trie.all.depth[node]] = lex;
      run(trie.all, node + 1, trie.all.skip[node]);
    }
  }

  if (!out.dense.empty() || out.sparse.size() > kSparse) {
    out.dense.resize(vocabulary_.mask_words(), 0);
    for (const int32_t token : out.sparse) set_token(out.dense, token);
    out.sparse.clear();
  }
  out.exits = node_set(std::move(exits));
  for (auto& [tag, group] : keys) {
    group.first.tag = tag;
    group.first.nodes = node_set(std::move(group.second));
    out.keys.push_back(std::move(group.first));
  }
  for (auto& [here, tokens] : conditional) out.conditional.emplace_back(here, std::move(tokens));
  return out;
}

void Machine::warm_leaf(size_t pc) {
  const Instruction& i = program_.code[pc];
  if (i.op != Op::kLeaf) return;
  Lex lex = lexer_.start(i.a, static_cast<Spelling>(i.b));
  summary(lexer_.clipped(lex, kHorizon), kRootSet);
  if (lexer_.spelling(lex) == Spelling::kRaw) return;
  lex = lexer_.step(lex, '"');
  if (lex != Lexer::kDead) summary(lexer_.clipped(lex, kHorizon), kRootSet);
}

}  // namespace flare::frontend::grammar
