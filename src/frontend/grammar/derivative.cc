// Derivatives: where each letter leads, and whether anything can still follow.
#include <algorithm>
#include <map>

#include "frontend/grammar/language.h"

namespace flare::frontend::grammar {
namespace {

// Expressions looked at before an intersection is taken to hold a word.
constexpr size_t kExplored = 2000;

// Parts within parts that derive() goes down: the stack of a thread holds several times as many.
constexpr int kMaxLevels = 1000;

struct Deeper {
  explicit Deeper(int& level) : level_(level) {
    if (level_ == kMaxLevels) throw Languages::Overflow{};
    ++level_;
  }
  ~Deeper() { --level_; }
  int& level_;
};

void append(std::vector<Arc>& arcs, Arc arc) {
  if (!arcs.empty() && arcs.back().target == arc.target && arcs.back().hi + 1 == arc.lo)
    arcs.back().hi = arc.hi;
  else
    arcs.push_back(arc);
}

}  // namespace

std::span<const Arc> Languages::arcs(Lang a) {
  Memo& m = memo(a);
  if (!m.arcs_known) {
    std::vector<Arc> live_arcs;
    for (const Arc& arc : raw_arcs(a))
      if (live(arc.target)) append(live_arcs, arc);
    charge(live_arcs.size() * sizeof(Arc));
    m.arcs = std::move(live_arcs);
    m.arcs_known = true;
  }
  return m.arcs;
}

const std::vector<Arc>& Languages::raw_arcs(Lang a) {
  Memo& m = memo(a);
  if (!m.raw_known) {
    const Deeper deeper(level_);
    std::vector<Arc> arcs = derive(a);
    charge(arcs.size() * sizeof(Arc));
    m.raw = std::move(arcs);
    m.raw_known = true;
  }
  return m.raw;
}

std::vector<Arc> Languages::derive(Lang a) {
  const Node n = node(a);
  std::vector<Arc> out;
  switch (n.op) {
    case Op::kNothing:
    case Op::kEmptyWord:
      break;
    case Op::kLetters:
      for (const CodePointInterval& i : sets_[n.a]) out.push_back({i.lo, i.hi, kEmptyWord});
      break;
    case Op::kConcat:
      return derive_concat(a);
    case Op::kEither:
      for (const Lang child : n.children) {
        const std::vector<Arc>& arcs = raw_arcs(child);
        out.insert(out.end(), arcs.begin(), arcs.end());
      }
      return unite(std::move(out));
    case Op::kBoth:
      out = raw_arcs(n.children[0]);
      for (size_t i = 1; i < n.children.size(); ++i) out = meet(out, raw_arcs(n.children[i]));
      break;
    case Op::kExcept:
      return negate(raw_arcs(static_cast<Lang>(n.a)));
    case Op::kRepeat: {
      const Lang rest =
          repeat(static_cast<Lang>(n.a), n.b > 0 ? n.b - 1 : 0, n.c == kInfinite ? n.c : n.c - 1);
      for (const Arc& arc : raw_arcs(static_cast<Lang>(n.a)))
        append(out, {arc.lo, arc.hi, concat(arc.target, rest)});
      break;
    }
    case Op::kMultiple:
      out.push_back({'.', '.', a});
      for (uint32_t digit = 0; digit < 10; ++digit) {
        const auto r = static_cast<uint32_t>((uint64_t{n.b} * 10 + digit) % n.a);
        out.push_back({'0' + digit, '0' + digit, multiple(n.a, r)});
      }
      break;
  }
  return out;
}

// The derivatives of every part that may come first. Along the spine, not by recursion.
std::vector<Arc> Languages::derive_concat(Lang a) {
  std::vector<Arc> all;
  Lang rest = a;
  size_t n_parts = 0;
  for (;; ++n_parts) {
    const Node& n = node(rest);
    const bool chain = n.op == Op::kConcat;
    const Lang first = chain ? static_cast<Lang>(n.a) : rest;
    const Lang behind = chain ? static_cast<Lang>(n.b) : kEmptyWord;
    Lang last_target = -1, last_result = -1;
    for (const Arc& arc : raw_arcs(first)) {
      if (arc.target != last_target) {
        last_target = arc.target;
        last_result = concat(arc.target, behind);
      }
      all.push_back({arc.lo, arc.hi, last_result});
    }
    charge(0);
    if (!chain || !nullable(first)) break;
    rest = behind;
  }
  return n_parts == 0 ? all : unite(std::move(all));
}

// Overlapping arcs become disjoint ones to the union of their targets.
std::vector<Arc> Languages::unite(std::vector<Arc> arcs) {
  std::sort(arcs.begin(), arcs.end(), [](const Arc& x, const Arc& y) { return x.lo < y.lo; });
  std::vector<CodePoint> cuts;
  for (const Arc& arc : arcs) {
    cuts.push_back(arc.lo);
    cuts.push_back(arc.hi + 1);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Arc> out, active;
  std::map<std::vector<Lang>, Lang> unions;
  size_t next = 0;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::erase_if(active, [&](const Arc& arc) { return arc.hi < cuts[i]; });
    for (; next < arcs.size() && arcs[next].lo == cuts[i]; ++next) active.push_back(arcs[next]);
    if (active.empty()) continue;
    charge(0);
    Lang target = active[0].target;
    if (active.size() > 1) {
      std::vector<Lang> targets;
      for (const Arc& arc : active) targets.push_back(arc.target);
      std::sort(targets.begin(), targets.end());
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      const auto known = unions.find(targets);
      target = known != unions.end() ? known->second
                                     : unions.emplace(targets, either(targets)).first->second;
    }
    append(out, {cuts[i], cuts[i + 1] - 1, target});
  }
  return out;
}

std::vector<Arc> Languages::meet(const std::vector<Arc>& x, const std::vector<Arc>& y) {
  std::vector<Arc> out;
  std::map<std::pair<Lang, Lang>, Lang> meets;
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    const CodePoint lo = std::max(x[i].lo, y[j].lo);
    const CodePoint hi = std::min(x[i].hi, y[j].hi);
    if (lo <= hi) {
      charge(0);
      const auto [it, fresh] = meets.try_emplace({x[i].target, y[j].target}, kNothing);
      if (fresh) it->second = both({x[i].target, y[j].target});
      if (it->second != kNothing) append(out, {lo, hi, it->second});
    }
    (x[i].hi < y[j].hi ? i : j)++;
  }
  return out;
}

std::vector<Arc> Languages::negate(const std::vector<Arc>& x) {
  std::vector<Arc> out;
  for (const CodePointInterval& part : any_code_point()) {
    CodePoint next = part.lo;
    for (const Arc& arc : x) {
      const CodePoint lo = std::max(arc.lo, part.lo), hi = std::min(arc.hi, part.hi);
      if (lo > hi) continue;
      if (lo > next) append(out, {next, lo - 1, kEverything});
      const Lang rest = except(arc.target);
      if (rest != kNothing) append(out, {lo, hi, rest});
      next = hi + 1;
    }
    if (next <= part.hi) append(out, {next, part.hi, kEverything});
  }
  return out;
}

bool Languages::live(Lang a) {
  Memo& m = memo(a);
  if (m.life == Life::kUnknown) {
    if (node(a).nullable || (!node(a).may_be_dead && a != kNothing) || endless_multiple(a))
      m.life = Life::kLive;
    else
      explore(a);
  }
  return m.life == Life::kLive;
}

// Multiples among numbers of any length: with enough digits every remainder can be made 0.
bool Languages::endless_multiple(Lang a) const {
  const Node& n = node(a);
  const auto is_multiple = [&](Lang child) { return node(child).op == Op::kMultiple; };
  return n.op == Op::kBoth && n.max_length == kInfinite &&
         std::any_of(n.children.begin(), n.children.end(), is_multiple);
}

// Breadth first until a word ends: everything on the way to it lives. If nothing does, all that was
// seen is dead.
bool Languages::explore(Lang a) {
  std::vector<std::pair<Lang, size_t>> seen = {{a, 0}};  // expression, where it was met first
  std::unordered_map<Lang, bool> known = {{a, true}};
  const auto revive = [&](size_t at) {
    for (; at != 0; at = seen[at].second) memo(seen[at].first).life = Life::kLive;
    memo(a).life = Life::kLive;
    return true;
  };
  for (size_t at = 0; at < seen.size(); ++at) {
    if (seen.size() > kExplored) return revive(seen.size() - 1);
    const std::vector<Arc> arcs = raw_arcs(seen[at].first);
    for (const Arc& arc : arcs) {
      if (memo(arc.target).life == Life::kDead || !known.try_emplace(arc.target, true).second)
        continue;
      seen.emplace_back(arc.target, at);
      const Node& n = node(arc.target);
      if (n.nullable || !n.may_be_dead || memo(arc.target).life == Life::kLive)
        return revive(seen.size() - 1);
    }
  }
  for (const auto& [dead, from] : seen) memo(dead).life = Life::kDead;
  return false;
}

bool Languages::matches(Lang a, std::u32string_view word) {
  for (const char32_t c : word) {
    const std::vector<Arc>& arcs = raw_arcs(a);
    const auto after = std::upper_bound(arcs.begin(), arcs.end(), CodePoint{c},
                                        [](CodePoint v, const Arc& x) { return v < x.lo; });
    if (after == arcs.begin() || std::prev(after)->hi < c) return false;
    a = std::prev(after)->target;
  }
  return nullable(a);
}

}  // namespace flare::frontend::grammar
