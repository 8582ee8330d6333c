// Bytes to characters to languages, one step at a time.
#include "frontend/grammar/lexer.h"

#include <algorithm>

namespace flare::frontend::grammar {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15;
  return h ^ (h >> 29);
}

int hex_value(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const int lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// What a letter behind a backslash stands for; -1 if nothing.
int32_t short_escape(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return byte;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return -1;
  }
}

constexpr bool is_high(uint32_t v) { return v >= 0xD800 && v < 0xDC00; }
constexpr bool is_low(uint32_t v) { return v >= 0xDC00 && v < 0xE000; }
constexpr CodePoint join(uint32_t high, uint32_t low) {
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

const Arc* arc_of(std::span<const Arc> arcs, CodePoint c) {
  const auto after = std::upper_bound(arcs.begin(), arcs.end(), c,
                                      [](CodePoint v, const Arc& a) { return v < a.lo; });
  if (after == arcs.begin() || std::prev(after)->hi < c) return nullptr;
  return &*std::prev(after);
}

}  // namespace

void Lexer::clear() {
  states_.clear();
  rows_.clear();
  keys_.clear();
  index_.clear();
  key_index_.clear();
  bytes_ = 0;
}

void Lexer::open_row(State& s) {
  s.row = static_cast<int32_t>(rows_.size());
  rows_.emplace_back().fill(kUnknown);
  bytes_ += sizeof(rows_[0]);
}

Lex Lexer::compute(Lex lex, uint8_t byte) {
  const State s = at(lex);
  const Lex target = next(s, byte);
  rows_[static_cast<size_t>(s.row)][byte] = target;
  return target;
}

Lex Lexer::start(Lang language, Spelling spelling) {
  return intern({.spelling = spelling,
                 .phase = spelling == Spelling::kRaw ? Phase::kPlain : Phase::kStart,
                 .inner = language});
}

Lex Lexer::start_key(int32_t object, bool with_others) {
  Key k{.object = object, .node = 0, .others = {}};
  if (with_others) {
    for (const auto& other : program_.objects[static_cast<size_t>(object)].others)
      k.others.push_back(other.usable ? other.names : Languages::kNothing);
  }
  return intern({.spelling = Spelling::kKey, .phase = Phase::kStart, .inner = key(std::move(k))});
}

Lex Lexer::intern(State s) {
  uint64_t h = mix(static_cast<uint64_t>(s.spelling) << 8 | static_cast<uint64_t>(s.phase),
                   static_cast<uint64_t>(s.inner));
  h = mix(mix(h, uint64_t{s.value} << 16 | uint64_t{s.count} << 8 | s.length),
          static_cast<uint64_t>(s.tag));
  const auto [first, last] = index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const State& old = at(it->second);
    if (old.spelling == s.spelling && old.phase == s.phase && old.inner == s.inner &&
        old.value == s.value && old.count == s.count && old.length == s.length && old.tag == s.tag)
      return it->second;
  }
  s.accepts = s.phase == Phase::kEnd || (s.spelling == Spelling::kRaw && s.phase == Phase::kPlain &&
                                         languages_.nullable(s.inner));
  s.goes_on = s.phase != Phase::kEnd &&
              !(s.spelling == Spelling::kRaw && s.phase == Phase::kPlain && arcs(s).empty());
  if (s.spelling == Spelling::kKey && s.phase != Phase::kEnd) {
    const auto other = [&](int32_t k) { return keys_[static_cast<size_t>(k)].any_other; };
    s.free = other(s.inner);
    if (s.free && s.phase != Phase::kStart && s.phase != Phase::kPlain) {
      s.free = false;
      const Intervals reachable = reach(s);
      for (const Arc& arc : arcs(s))
        for (size_t i = 0; i < reachable.n; ++i)
          s.free |= arc.lo <= reachable.parts[i].hi && arc.hi >= reachable.parts[i].lo &&
                    other(arc.target);
    }
  }
  const auto id = static_cast<Lex>(states_.size());
  states_.push_back(s);
  index_.emplace(h, id);
  bytes_ += sizeof(State) + 48;
  return id;
}

std::span<const Arc> Lexer::arcs(const State& s) {
  return s.spelling == Spelling::kKey ? key_arcs(s.inner) : languages_.arcs(s.inner);
}

const Arc* Lexer::find_arc(const State& s, CodePoint c) { return arc_of(arcs(s), c); }

// The characters that the one under way may become.
Lexer::Intervals Lexer::reach(const State& s) {
  Intervals out;
  switch (s.phase) {
    case Phase::kUtf8: {
      const uint32_t shift = 6u * s.count;
      const CodePoint least = s.length == 2 ? 0x80 : s.length == 3 ? 0x800 : 0x10000;
      out.add(std::max(s.value << shift, least),
              std::min((s.value << shift) | ((1u << shift) - 1), kMaxCodePoint));
      break;
    }
    case Phase::kEscape:
      out.add(0, kMaxCodePoint);
      break;
    case Phase::kHex: {
      const uint32_t shift = 4u * (4u - s.count);
      const uint32_t lo = s.value << shift, hi = lo | ((1u << shift) - 1);
      out.add(lo, hi);
      const uint32_t first = std::max(lo, 0xD800u), last = std::min(hi, 0xDBFFu);
      if (first <= last) out.add(join(first, 0xDC00), join(last, 0xDFFF));
      break;
    }
    case Phase::kLowSlash:
    case Phase::kLowU:
      out.add(join(s.value, 0xDC00), join(s.value, 0xDFFF));
      break;
    case Phase::kLowHex: {
      const uint32_t high = s.value >> 16, shift = 4u * (4u - s.count);
      const uint32_t lo = (s.value & 0xFFFF) << shift, hi = lo | ((1u << shift) - 1);
      const uint32_t first = std::max(lo, 0xDC00u), last = std::min(hi, 0xDFFFu);
      if (first <= last) out.add(join(high, first), join(high, last));
      break;
    }
    default:
      break;
  }
  return out;
}

// A state inside a character, if any character that it may become leads on.
Lex Lexer::partial(State s) {
  const Intervals reachable = reach(s);
  const std::span<const Arc> all = arcs(s);
  for (size_t i = 0; i < reachable.n; ++i) {
    const CodePointInterval& part = reachable.parts[i];
    const auto it = std::lower_bound(all.begin(), all.end(), part.lo,
                                     [](const Arc& a, CodePoint v) { return a.hi < v; });
    if (it != all.end() && it->lo <= part.hi) return intern(s);
  }
  return kDead;
}

Lex Lexer::character(const State& s, CodePoint c) {
  const Arc* arc = find_arc(s, c);
  if (arc == nullptr) return kDead;
  return intern({.spelling = s.spelling, .phase = Phase::kPlain, .inner = arc->target});
}

Lex Lexer::close(const State& s) {
  State end{.spelling = s.spelling, .phase = Phase::kEnd};
  if (s.spelling == Spelling::kKey) {
    end.tag = key_tag(s.inner);
    if (end.tag < 0) return kDead;
    end.inner = s.inner;
  } else if (!languages_.nullable(s.inner)) {
    return kDead;
  }
  return intern(end);
}

Lex Lexer::next(const State& s, uint8_t byte) {
  State t = s;
  t.row = -1;
  t.clip = kUnknown;
  switch (s.phase) {
    case Phase::kStart:
      t.phase = Phase::kPlain;
      return byte == '"' ? intern(t) : kDead;
    case Phase::kPlain:
      return next_plain(s, byte);
    case Phase::kUtf8:
      if ((byte & 0xC0) != 0x80) return kDead;
      t.value = s.value << 6 | (byte & 0x3Fu);
      if (--t.count > 0) return partial(t);
      if (t.value < (s.length == 2 ? 0x80u : s.length == 3 ? 0x800u : 0x10000u)) return kDead;
      return character(s, t.value);
    case Phase::kEscape: {
      if (byte == 'u') {
        t.phase = Phase::kHex;
        return partial(t);
      }
      const int32_t c = short_escape(byte);
      return c < 0 ? kDead : character(s, static_cast<CodePoint>(c));
    }
    case Phase::kLowSlash:
      t.phase = Phase::kLowU;
      return byte == '\\' ? intern(t) : kDead;
    case Phase::kLowU:
      t.phase = Phase::kLowHex;
      t.value = s.value << 16;
      t.count = 0;
      return byte == 'u' ? intern(t) : kDead;
    case Phase::kHex:
    case Phase::kLowHex:
      return next_hex(s, byte);
    case Phase::kEnd:
      return kDead;
  }
  return kDead;
}

Lex Lexer::next_plain(const State& s, uint8_t byte) {
  State t{.spelling = s.spelling, .phase = Phase::kUtf8, .inner = s.inner};
  if (s.spelling != Spelling::kRaw) {
    if (byte == '"') return close(s);
    if (byte < 0x20) return kDead;
    if (byte == '\\') {
      t.phase = Phase::kEscape;
      return partial(t);
    }
  }
  if (byte < 0x80) return character(s, byte);
  if (byte < 0xC2 || byte > 0xF4) return kDead;
  t.length = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  t.count = static_cast<uint8_t>(t.length - 1);
  t.value = byte & (0x7Fu >> t.length);
  return partial(t);
}

Lex Lexer::next_hex(const State& s, uint8_t byte) {
  const int digit = hex_value(byte);
  if (digit < 0) return kDead;
  State t = s;
  t.row = -1;
  t.clip = kUnknown;
  t.value = s.value << 4 | static_cast<uint32_t>(digit);
  if (s.phase == Phase::kLowHex) {
    // The high half stays above the digits.
    t.value = (s.value & 0xFFFF0000u) | ((s.value << 4 | static_cast<uint32_t>(digit)) & 0xFFFFu);
    if (++t.count < 4) return partial(t);
    return is_low(t.value & 0xFFFF) ? character(s, join(t.value >> 16, t.value & 0xFFFF)) : kDead;
  }
  if (++t.count < 4) return partial(t);
  if (is_high(t.value)) {
    t.phase = Phase::kLowSlash;
    t.count = 0;
    return partial(t);
  }
  return is_low(t.value) ? kDead : character(s, t.value);
}

int32_t Lexer::completed(Lex lex, uint8_t byte) const {
  const State& s = at(lex);
  switch (s.phase) {
    case Phase::kPlain:
      return byte < 0x80 && byte != '"' && byte != '\\' ? byte : -1;
    case Phase::kUtf8:
      return s.count == 1 ? static_cast<int32_t>(s.value << 6 | (byte & 0x3Fu)) : -1;
    case Phase::kEscape:
      return short_escape(byte);
    case Phase::kHex: {
      const uint32_t value = s.value << 4 | static_cast<uint32_t>(hex_value(byte));
      return s.count == 3 && !is_high(value) ? static_cast<int32_t>(value) : -1;
    }
    case Phase::kLowHex: {
      const uint32_t low = (s.value << 4 | static_cast<uint32_t>(hex_value(byte))) & 0xFFFF;
      return s.count == 3 ? static_cast<int32_t>(join(s.value >> 16, low)) : -1;
    }
    default:
      return -1;
  }
}

Lex Lexer::step_marker(Lex lex, int32_t marker) {
  const State s = at(lex);
  if (s.spelling != Spelling::kRaw || s.phase != Phase::kPlain) return kDead;
  return character(s, kMarkerBase + static_cast<CodePoint>(marker));
}

void Lexer::markers(Lex lex, std::vector<int32_t>& out) {
  const State s = at(lex);
  if (s.spelling != Spelling::kRaw || s.phase != Phase::kPlain) return;
  const std::span<const Arc> all = languages_.arcs(s.inner);
  for (size_t i = all.size(); i-- > 0 && all[i].hi >= kMarkerBase;)
    for (CodePoint c = std::max(all[i].lo, kMarkerBase); c <= all[i].hi; ++c)
      out.push_back(static_cast<int32_t>(c - kMarkerBase));
}

void Lexer::next_letters(Lex lex, size_t most, std::vector<Lex>& out) {
  if (before_quote(lex)) {
    out.push_back(step(lex, '"'));
    return;
  }
  if (!plain(lex)) return;
  const State s = at(lex);
  const std::span<const Arc> known = arcs(s);
  const std::vector<Arc> all(known.begin(),
                             known.begin() + static_cast<ptrdiff_t>(std::min(known.size(), most)));
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].lo < kMarkerBase)
      out.push_back(
          intern({.spelling = s.spelling, .phase = Phase::kPlain, .inner = all[i].target}));
}

int32_t Lexer::key(Key k) {
  const bool any = std::any_of(k.others.begin(), k.others.end(),
                               [](Lang l) { return l != Languages::kNothing; });
  if (!any) k.others.clear();
  k.any_other = any;
  uint64_t h = mix(static_cast<uint64_t>(k.object), static_cast<uint64_t>(k.node));
  for (const Lang l : k.others) h = mix(h, static_cast<uint64_t>(l));
  const auto [first, last] = key_index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const Key& old = keys_[static_cast<size_t>(it->second)];
    if (old.object == k.object && old.node == k.node && old.others == k.others) return it->second;
  }
  const auto id = static_cast<int32_t>(keys_.size());
  bytes_ += sizeof(Key) + 64 + k.others.size() * sizeof(Lang);
  keys_.push_back(std::move(k));
  key_index_.emplace(h, id);
  return id;
}

int32_t Lexer::key_target(const Key& k, CodePoint c, std::vector<std::span<const Arc>>& others) {
  const ObjectSpec& spec = program_.objects[static_cast<size_t>(k.object)];
  Key out{.object = k.object, .node = -1, .others = {}};
  if (k.node >= 0) {
    const auto& children = spec.trie[static_cast<size_t>(k.node)].children;
    const auto it = std::lower_bound(children.begin(), children.end(), c,
                                     [](const auto& x, CodePoint v) { return x.first < v; });
    if (it != children.end() && it->first == c) out.node = it->second;
  }
  bool any = out.node >= 0;
  for (const std::span<const Arc>& other : others) {
    const Arc* arc = arc_of(other, c);
    out.others.push_back(arc ? arc->target : Languages::kNothing);
    any |= arc != nullptr;
  }
  return any ? key(std::move(out)) : -1;
}

std::span<const Arc> Lexer::key_arcs(int32_t id) {
  if (!keys_[static_cast<size_t>(id)].arcs_known) {
    const Key k = keys_[static_cast<size_t>(id)];
    std::vector<std::span<const Arc>> others;
    std::vector<CodePoint> cuts;
    for (const Lang l : k.others) {
      others.push_back(languages_.arcs(l));
      for (const Arc& arc : others.back()) {
        cuts.push_back(arc.lo);
        cuts.push_back(arc.hi + 1);
      }
    }
    if (k.node >= 0) {
      const ObjectSpec& spec = program_.objects[static_cast<size_t>(k.object)];
      for (const auto& [c, child] : spec.trie[static_cast<size_t>(k.node)].children) {
        cuts.push_back(c);
        cuts.push_back(c + 1);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Arc> out;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int32_t target = key_target(k, cuts[i], others);
      if (target >= 0) out.push_back({cuts[i], cuts[i + 1] - 1, target});
    }
    bytes_ += out.size() * sizeof(Arc);
    keys_[static_cast<size_t>(id)].arcs = std::move(out);
    keys_[static_cast<size_t>(id)].arcs_known = true;
  }
  return keys_[static_cast<size_t>(id)].arcs;
}

int32_t Lexer::key_tag(int32_t id) const {
  const Key& k = keys_[static_cast<size_t>(id)];
  const ObjectSpec& spec = program_.objects[static_cast<size_t>(k.object)];
  if (k.node >= 0 && spec.trie[static_cast<size_t>(k.node)].name >= 0)
    return spec.trie[static_cast<size_t>(k.node)].name;
  for (size_t i = 0; i < k.others.size(); ++i)
    if (languages_.nullable(k.others[i])) return static_cast<int32_t>(spec.names.size() + i);
  return -1;
}

bool Lexer::key_usable(Lex lex, const ObjectSpec::Bits& usable) {
  const State s = at(lex);
  if (s.free) return true;
  const auto below = [&](int32_t key_id) {
    const Key& k = keys_[static_cast<size_t>(key_id)];
    if (k.node < 0) return false;
    const ObjectSpec& spec = program_.objects[static_cast<size_t>(k.object)];
    const ObjectSpec::TrieNode& node = spec.trie[static_cast<size_t>(k.node)];
    for (int32_t i = node.first; i < node.last; ++i)
      if (usable[static_cast<size_t>(i) / 64] >> (i % 64) & 1) return true;
    return false;
  };
  if (s.phase == Phase::kStart || s.phase == Phase::kPlain) return below(s.inner);
  const Intervals reachable = reach(s);
  for (const Arc& arc : key_arcs(s.inner))
    for (size_t i = 0; i < reachable.n; ++i)
      if (arc.lo <= reachable.parts[i].hi && arc.hi >= reachable.parts[i].lo && below(arc.target))
        return true;
  return false;
}

Lex Lexer::clipped(Lex lex, uint32_t horizon) {
  const State s = at(lex);
  if (s.spelling == Spelling::kKey || s.phase == Phase::kEnd) return lex;
  if (s.clip != kUnknown) return s.clip;
  const Lang inner = languages_.clipped(s.inner, horizon);
  Lex out = lex;
  if (inner != s.inner) {
    State t = s;
    t.row = -1;
    t.inner = inner;
    out = intern(t);
  }
  states_[static_cast<size_t>(lex)].clip = out;
  return out;
}

uint32_t Lexer::free_letters(Lex lex, const CodePointSet& set) {
  const State s = at(lex);
  if (s.phase != Phase::kPlain) return 0;
  if (s.spelling != Spelling::kKey) return languages_.free_letters(s.inner, set);
  uint32_t most = 0;
  for (const Lang l : keys_[static_cast<size_t>(s.inner)].others)
    most = std::max(most, languages_.free_letters(l, set));
  return most;
}

uint32_t Lexer::most_letters(Lex lex) const {
  const State& s = at(lex);
  return s.spelling == Spelling::kKey ? Languages::kInfinite : languages_.max_length(s.inner);
}

bool Lexer::key_listed(Lex lex) const {
  const State& s = at(lex);
  const Key& k = keys_[static_cast<size_t>(s.inner)];
  if (k.node < 0) return false;
  if (s.phase == Phase::kStart || s.phase == Phase::kPlain) return true;
  const auto& children =
      program_.objects[static_cast<size_t>(k.object)].trie[static_cast<size_t>(k.node)].children;
  const Intervals reachable = reach(s);
  for (size_t i = 0; i < reachable.n; ++i) {
    const auto it = std::lower_bound(children.begin(), children.end(), reachable.parts[i].lo,
                                     [](const auto& x, CodePoint v) { return x.first < v; });
    if (it != children.end() && it->first <= reachable.parts[i].hi) return true;
  }
  return false;
}

bool Lexer::key_may_list(Lex lex, uint8_t byte) const {
  const State& s = at(lex);
  if (s.phase != Phase::kPlain || byte == '"' || byte == '\\') return true;
  const Key& k = keys_[static_cast<size_t>(s.inner)];
  if (k.node < 0) return false;
  const auto& children =
      program_.objects[static_cast<size_t>(k.object)].trie[static_cast<size_t>(k.node)].children;
  // The least letter that UTF-8 begins with this byte, and the least that it does not.
  const auto least = [](uint32_t lead) -> CodePoint {
    if (lead < 0x80) return lead;
    if (lead < 0xC0) return 0x80;
    if (lead < 0xE0) return (lead & 0x1F) << 6;
    if (lead < 0xF0) return (lead & 0x0F) << 12;
    return (lead & 0x0F) << 18;
  };
  const CodePoint end = byte == 0xDF ? 0x800 : byte == 0xEF ? 0x10000 : least(byte + 1u);
  const auto it = std::lower_bound(children.begin(), children.end(), least(byte),
                                   [](const auto& x, CodePoint v) { return x.first < v; });
  return it != children.end() && it->first < end;
}

bool Lexer::takes_any_name(Lex lex) {
  const State s = at(lex);
  if (s.spelling != Spelling::kKey || (s.phase != Phase::kStart && s.phase != Phase::kPlain))
    return false;
  // Names that match a pattern and those that do not: together all.
  const std::vector<Lang> others = keys_[static_cast<size_t>(s.inner)].others;
  return std::any_of(others.begin(), others.end(), [&](Lang l) {
    return l == Languages::kEverything ||
           (l != Languages::kNothing &&
            std::find(others.begin(), others.end(), languages_.except(l)) != others.end());
  });
}

int32_t Lexer::any_other_tag(Lex lex) const {
  const State& s = at(lex);
  if (s.spelling != Spelling::kKey || (s.phase != Phase::kStart && s.phase != Phase::kPlain))
    return -1;
  const Key& k = keys_[static_cast<size_t>(s.inner)];
  const auto it = std::find(k.others.begin(), k.others.end(), Languages::kEverything);
  if (it == k.others.end()) return -1;
  return static_cast<int32_t>(program_.objects[static_cast<size_t>(k.object)].names.size() +
                              static_cast<size_t>(it - k.others.begin()));
}

}  // namespace flare::frontend::grammar
