// Makers of expressions: each keeps one normal form, so that derivatives of one word are few.
#include "frontend/grammar/language.h"

#include <algorithm>
#include <map>

namespace flare::frontend::grammar {
namespace {

constexpr uint32_t kInf = Languages::kInfinite;

uint32_t plus(uint32_t a, uint32_t b) {
  return a == kInf || b == kInf || a > kInf - 1 - b ? kInf : a + b;
}
uint32_t times(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kInf || b == kInf) return kInf;
  const uint64_t product = uint64_t{a} * b;
  return product >= kInf ? kInf : static_cast<uint32_t>(product);
}
uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15;
  return h ^ (h >> 29);
}

}  // namespace

Languages::Languages() {
  nodes_.push_back({.op = Op::kNothing, .min_length = kInf});
  nodes_.push_back({.op = Op::kEmptyWord, .nullable = true});
  memos_.resize(2);
  memos_[0] = {true, true, Life::kDead, {}, {}};
  memos_[1] = {true, true, Life::kLive, {}, {}};
  any_ = -1;
  // The third expression must be any*; its body comes after it, so it is patched.
  nodes_.push_back({.op = Op::kRepeat, .nullable = true, .max_length = kInf});
  memos_.emplace_back();
  any_ = letters(any_code_point());
  nodes_[2].a = static_cast<uint32_t>(any_);
  nodes_[2].c = kInf;
  memos_[2] = {true, true, Life::kLive, {}, {}};
  for (const CodePointInterval& i : any_code_point()) memos_[2].raw.push_back({i.lo, i.hi, 2});
  memos_[2].arcs = memos_[2].raw;
}

void Languages::charge(size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limit_) throw Overflow{};
  if ((++work_ & 0x3F) == 0 && check_) check_();
}

Lang Languages::intern(Node n) {
  uint64_t h = static_cast<uint64_t>(n.op);
  h = mix(mix(mix(h, n.a), n.b), n.c);
  for (const Lang child : n.children) h = mix(h, static_cast<uint64_t>(child));
  const auto [first, last] = index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const Node& old = node(it->second);
    if (old.op == n.op && old.a == n.a && old.b == n.b && old.c == n.c &&
        old.children == n.children)
      return it->second;
  }
  charge(sizeof(Node) + sizeof(Memo) + 48 + n.children.size() * sizeof(Lang));
  const auto id = static_cast<Lang>(nodes_.size());
  nodes_.push_back(std::move(n));
  memos_.emplace_back();
  index_.emplace(h, id);
  return id;
}

Lang Languages::letters(const CodePointSet& set) {
  if (set.empty()) return kNothing;
  uint64_t h = 0;
  for (const CodePointInterval& i : set) h = mix(mix(h, i.lo), i.hi);
  uint32_t index = UINT32_MAX;
  const auto [first, last] = set_index_.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (sets_[it->second] == set) index = it->second;
  if (index == UINT32_MAX) {
    charge(set.size() * sizeof(CodePointInterval) + 64);
    index = static_cast<uint32_t>(sets_.size());
    sets_.push_back(set);
    set_index_.emplace(h, index);
  }
  return intern({.op = Op::kLetters,
                 .marked = set.back().hi >= kMarkerBase,
                 .min_length = 1,
                 .max_length = 1,
                 .a = index});
}

Lang Languages::text(std::u32string_view text) {
  Lang out = kEmptyWord;
  for (size_t i = text.size(); i-- > 0;) out = concat(letter(text[i]), out);
  return out;
}

Lang Languages::words(std::vector<std::u32string> words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  // Suffix languages of groups that share a beginning, made from the longest beginning up: a stack
  // of open groups instead of recursion, for words may be long.
  struct Open {
    std::vector<Lang> options;
  };
  std::vector<Open> open(1);  // open[d]: what may follow the first d letters of the previous word
  std::u32string_view previous;
  const auto close_to = [&](size_t depth) {
    while (open.size() > depth + 1) {
      const Lang rest = either(std::move(open.back().options));
      open.pop_back();
      open.back().options.push_back(concat(letter(previous[open.size() - 1]), rest));
    }
  };
  for (const std::u32string& word : words) {
    size_t shared = 0;
    while (shared < word.size() && shared < previous.size() && word[shared] == previous[shared])
      ++shared;
    close_to(std::min(shared, open.size() - 1));
    while (open.size() < word.size() + 1) open.emplace_back();
    open.back().options.push_back(kEmptyWord);
    previous = word;
  }
  close_to(0);
  return either(std::move(open[0].options));
}

Lang Languages::concat(Lang a, Lang b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kEmptyWord) return b;
  if (b == kEmptyWord) return a;
  std::vector<Lang> parts;  // of a, whose right spine may be long
  Lang rest = a;
  while (node(rest).op == Op::kConcat) {
    parts.push_back(static_cast<Lang>(node(rest).a));
    rest = static_cast<Lang>(node(rest).b);
  }
  parts.push_back(rest);
  Lang out = b;
  for (size_t i = parts.size(); i-- > 0;) {
    const Lang left = parts[i];
    if (left == kEverything && out == kEverything) continue;
    if (out == kEverything && node(left).op == Op::kRepeat && node(left).c != kInf &&
        !node(left).may_be_dead) {
      // r{m,n} any* = r{m} any*: more copies are covered by any*, if they are code points.
      const uint32_t body = node(left).a, min = node(left).b;
      if (node(static_cast<Lang>(body)).op == Op::kLetters && !node(left).marked) {
        const Lang exact = repeat(static_cast<Lang>(body), min, min);
        if (exact != left) {
          out = concat(exact, out);
          continue;
        }
      }
    }
    const Node& x = node(left);
    const Node& y = node(out);
    out = intern({.op = Op::kConcat,
                  .nullable = x.nullable && y.nullable,
                  .may_be_dead = x.may_be_dead || y.may_be_dead,
                  .marked = x.marked || y.marked,
                  .min_length = plus(x.min_length, y.min_length),
                  .max_length = plus(x.max_length, y.max_length),
                  .largest_bound = std::max(x.largest_bound, y.largest_bound),
                  .a = static_cast<uint32_t>(left),
                  .b = static_cast<uint32_t>(out)});
  }
  return out;
}

Lang Languages::concat(std::initializer_list<Lang> parts) {
  Lang out = kEmptyWord;
  for (auto it = std::rbegin(parts); it != std::rend(parts); ++it) out = concat(*it, out);
  return out;
}

// Of C{m,n} any* and C{k,l} any* with one C the shorter holds the longer: an unanchored search for
// a counted class stays one expression.
void Languages::fold_bounded_prefixes(std::vector<Lang>& options) {
  std::map<uint32_t, std::pair<uint32_t, Lang>> shortest;  // body → (min, option)
  std::vector<Lang> kept;
  for (const Lang option : options) {
    const Node& n = node(option);
    const Node* const left = n.op == Op::kConcat ? &node(static_cast<Lang>(n.a)) : nullptr;
    const bool open_ended = left && static_cast<Lang>(n.b) == kEverything;
    uint32_t body = 0, count = 0;
    if (open_ended && left->op == Op::kRepeat && left->b == left->c) {
      body = left->a;
      count = left->b;
    } else if (open_ended && left->op == Op::kLetters) {
      body = n.a;
      count = 1;
    }
    if (count == 0 || n.marked || node(static_cast<Lang>(body)).op != Op::kLetters) {
      kept.push_back(option);
      continue;
    }
    const auto [it, fresh] = shortest.try_emplace(body, count, option);
    if (!fresh && count < it->second.first) it->second = {count, option};
  }
  for (const auto& [body, best] : shortest) kept.push_back(best.second);
  options = std::move(kept);
}

Lang Languages::either(std::vector<Lang> options) {
  std::vector<Lang> flat;
  CodePointSet set;
  bool nullable = false, everything = false, empty_word = false;
  const auto add = [&](Lang x) {
    const Node& n = node(x);
    if (x == kNothing) return;
    nullable |= n.nullable;
    if (x == kEverything) everything = true;
    if (x == kEmptyWord)
      empty_word = true;
    else if (n.op == Op::kLetters)
      set.insert(set.end(), sets_[n.a].begin(), sets_[n.a].end());
    else
      flat.push_back(x);
  };
  for (const Lang option : options) {
    if (node(option).op == Op::kEither)
      for (const Lang child : node(option).children) add(child);
    else
      add(option);
  }
  if (everything) {  // it holds all but what has markers
    std::erase_if(flat, [&](Lang x) { return !node(x).marked; });
    std::erase_if(set, [](const CodePointInterval& i) { return i.hi < kMarkerBase; });
    flat.push_back(kEverything);
  }
  if (!set.empty()) flat.push_back(letters(normalised(std::move(set))));
  if (flat.size() > 1) fold_bounded_prefixes(flat);
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  const bool others_nullable =
      std::any_of(flat.begin(), flat.end(), [&](Lang x) { return node(x).nullable; });
  if (empty_word && !others_nullable) {
    if (flat.size() == 1) return repeat(flat[0], 0, 1);
    flat.insert(flat.begin(), kEmptyWord);
  }
  if (flat.empty()) return empty_word ? kEmptyWord : kNothing;
  if (flat.size() == 1) return flat[0];
  Node n{.op = Op::kEither, .nullable = nullable, .min_length = kInf};
  for (const Lang x : flat) {
    n.may_be_dead |= node(x).may_be_dead;
    n.marked |= node(x).marked;
    n.min_length = std::min(n.min_length, node(x).min_length);
    n.max_length = std::max(n.max_length, node(x).max_length);
    n.largest_bound = std::max(n.largest_bound, node(x).largest_bound);
  }
  n.children = std::move(flat);
  return intern(std::move(n));
}

Lang Languages::both(std::vector<Lang> parts) {
  std::vector<Lang> flat;
  uint32_t lo = 0, hi = kInf;  // of any{lo,hi}
  for (const Lang part : parts) {
    const auto add = [&](Lang x) {
      const Node& n = node(x);
      if (n.op == Op::kRepeat && static_cast<Lang>(n.a) == any_) {
        lo = std::max(lo, n.b);
        hi = std::min(hi, n.c);
      } else {
        flat.push_back(x);
      }
    };
    if (part == kNothing) return kNothing;
    if (node(part).op == Op::kBoth)
      for (const Lang child : node(part).children) add(child);
    else
      add(part);
  }
  if (lo > hi) return kNothing;
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  // A length that all words of another part have need not be asked for.
  const bool implied = std::any_of(flat.begin(), flat.end(), [&](Lang x) {
    return node(x).min_length >= lo && node(x).max_length <= hi;
  });
  if (!implied) flat.push_back(repeat(any_, lo, hi));
  if (flat.size() > 1) std::erase(flat, kEverything);
  std::sort(flat.begin(), flat.end());
  if (flat.size() == 1) return flat[0];
  Node n{.op = Op::kBoth, .nullable = true, .may_be_dead = true, .max_length = kInf};
  for (const Lang x : flat) {
    n.nullable &= node(x).nullable;
    n.min_length = std::max(n.min_length, node(x).min_length);
    n.max_length = std::min(n.max_length, node(x).max_length);
    n.largest_bound = std::max(n.largest_bound, node(x).largest_bound);
  }
  if (n.min_length > n.max_length) return kNothing;
  if (n.max_length == 0) return n.nullable ? kEmptyWord : kNothing;
  n.children = std::move(flat);
  return intern(std::move(n));
}

Lang Languages::except(Lang a) {
  if (a == kNothing) return kEverything;
  if (a == kEverything) return kNothing;
  const Node& n = node(a);
  if (n.op == Op::kExcept) return both({static_cast<Lang>(n.a), kEverything});
  return intern({.op = Op::kExcept,
                 .nullable = !n.nullable,
                 .may_be_dead = true,
                 .min_length = n.nullable ? 1u : 0u,
                 .max_length = kInf,
                 .largest_bound = n.largest_bound,
                 .a = static_cast<uint32_t>(a)});
}

Lang Languages::repeat(Lang body, uint32_t min, uint32_t max) {
  if (min > max) return kNothing;
  if (max == 0 || body == kEmptyWord) return kEmptyWord;
  if (body == kNothing) return min == 0 ? kEmptyWord : kNothing;
  const Node n = node(body);
  if (n.nullable) min = 0;
  if (min == 1 && max == 1) return body;
  if (n.op == Op::kRepeat && n.b == 0 && n.c == kInf) return body;  // (r*){m,n}: nullable, so r*
  if (body == any_ && min == 0 && max == kInf) return kEverything;
  if (n.op == Op::kRepeat && n.b == 0 && n.c == 1 && min == 0)  // (r?){0,n} = r{0,n}
    return repeat(static_cast<Lang>(n.a), 0, max);
  const uint32_t bound = max == kInf ? min : max;
  return intern({.op = Op::kRepeat,
                 .nullable = min == 0,
                 .may_be_dead = n.may_be_dead,
                 .marked = n.marked,
                 .min_length = times(n.min_length, min),
                 .max_length = times(n.max_length, max),
                 .largest_bound = std::max(n.largest_bound, bound),
                 .a = static_cast<uint32_t>(body),
                 .b = min,
                 .c = max});
}

Lang Languages::multiple(uint32_t m, uint32_t r) {
  return intern({.op = Op::kMultiple, .nullable = r == 0, .max_length = kInf, .a = m, .b = r});
}

Lang Languages::clipped(Lang a, uint32_t horizon) {
  const Node n = node(a);
  if (n.largest_bound <= horizon) return a;
  const uint64_t key = uint64_t{static_cast<uint32_t>(a)} << 32 | horizon;
  const auto found = clips_.find(key);
  if (found != clips_.end()) return found->second;
  Lang out = a;
  switch (n.op) {
    case Op::kConcat: {
      std::vector<Lang> parts;
      Lang rest = a;
      for (; node(rest).op == Op::kConcat; rest = static_cast<Lang>(node(rest).b))
        parts.push_back(clipped(static_cast<Lang>(node(rest).a), horizon));
      out = clipped(rest, horizon);
      for (size_t i = parts.size(); i-- > 0;) out = concat(parts[i], out);
      break;
    }
    case Op::kEither:
    case Op::kBoth: {
      // A length that others need to be completed must not be lengthened: the horizon of an
      // intersection reaches over its shortest words.
      uint32_t reach = horizon;
      if (n.op == Op::kBoth)
        for (const Lang child : n.children) reach = plus(reach, node(child).min_length);
      std::vector<Lang> children;
      for (const Lang child : n.children) children.push_back(clipped(child, reach));
      out = n.op == Op::kEither ? either(std::move(children)) : both(std::move(children));
      break;
    }
    case Op::kExcept:
      break;  // kept exact
    case Op::kRepeat: {
      const Lang body = clipped(static_cast<Lang>(n.a), horizon);
      out = repeat(body, std::min(n.b, horizon), n.c > horizon ? kInf : n.c);
      break;
    }
    default:
      break;
  }
  clips_.emplace(key, out);
  charge(32);
  return out;
}

void Languages::forget(size_t n_kept) {
  const auto gone = [&](const auto& entry) { return static_cast<size_t>(entry.second) >= n_kept; };
  std::erase_if(index_, gone);
  nodes_.resize(n_kept, Node{.op = Op::kNothing});
  memos_.resize(n_kept);
  for (size_t i = 3; i < n_kept; ++i) memos_[i] = {};
  clips_.clear();
  bytes_ = n_kept * (sizeof(Node) + sizeof(Memo) + 48);
}

bool Languages::counts_only(Lang a, uint32_t& min, uint32_t& max) const {
  const Node& n = node(a);
  const bool repeats = n.op == Op::kRepeat && static_cast<Lang>(n.a) == any_;
  min = repeats ? n.b : a == any_ ? 1 : 0;
  max = repeats ? n.c : min;
  return repeats || a == any_ || a == kEmptyWord;
}

uint32_t Languages::free_letters(Lang a, const CodePointSet& set) {
  Freedoms known;
  return freedom(a, set, known).letters;
}

// `letters`: how many letters of the set may follow in any order; `completion`: how many more may
// be needed afterwards, and suffice at any time before. `known`: of parts, which may be shared.
Languages::Freedom Languages::freedom(Lang a, const CodePointSet& set, Freedoms& known) {
  const Node& n = node(a);
  const bool composed = n.op == Op::kConcat || n.op == Op::kEither || n.op == Op::kBoth;
  if (composed) {
    if (const auto found = known.find(a); found != known.end()) return found->second;
  }
  Freedom out{0, 0};
  switch (n.op) {
    case Op::kLetters:
      out = {includes(sets_[n.a], set) ? 1u : 0u, 1};
      break;
    case Op::kRepeat: {
      const Node& body = node(static_cast<Lang>(n.a));
      const bool free = body.op == Op::kLetters && includes(sets_[body.a], set);
      out = {free ? n.c : 0, n.b};
      break;
    }
    case Op::kConcat: {
      const Freedom left = freedom(static_cast<Lang>(n.a), set, known);
      out = {left.letters, plus(left.completion, node(static_cast<Lang>(n.b)).min_length)};
      break;
    }
    case Op::kEither:
      for (const Lang child : n.children) {
        if (node(child).op == Op::kEither) continue;
        const Freedom f = freedom(child, set, known);
        if (f.letters > out.letters) out = f;
      }
      break;
    case Op::kBoth:
      out.letters = kInf;
      for (const Lang child : n.children) {
        const Freedom f = freedom(child, set, known);
        out.letters = std::min(out.letters, f.letters);
        out.completion = plus(out.completion, f.completion);
      }
      if (out.letters != kInf)
        out.letters = out.letters > out.completion ? out.letters - out.completion : 0;
      break;
    default:
      break;
  }
  if (composed) known.emplace(a, out);
  return out;
}

}  // namespace flare::frontend::grammar
