// Regular languages as expressions that are shared, and taken apart letter by letter: derivatives
// (Brzozowski 1964; Owens, Reppy, Turon 2009) make counters, intersection and complement cheap.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/grammar/code_points.h"

namespace flare::frontend::grammar {

using Lang = int32_t;

// The letters [lo, hi] lead to `target`.
struct Arc {
  CodePoint lo, hi;
  Lang target;
};

// An arena of hash-consed expressions: equal structure, equal id. Letters are code points and
// markers. Confined to one thread at a time. Methods throw Overflow beyond the limit.
class Languages {
 public:
  static constexpr uint32_t kInfinite = UINT32_MAX;
  static constexpr Lang kNothing = 0;     // no word
  static constexpr Lang kEmptyWord = 1;   // ""
  static constexpr Lang kEverything = 2;  // any*

  struct Overflow {};  // thrown when memory passes the limit, or check() asks for it

  Languages();

  Lang letters(const CodePointSet& set);
  Lang letter(CodePoint c) { return letters({{c, c}}); }
  Lang text(std::u32string_view text);
  Lang text(std::string_view utf8) { return this->text(decode_utf8(utf8)); }
  // Exactly these words, sharing their beginnings.
  Lang words(std::vector<std::u32string> words);
  Lang concat(Lang a, Lang b);
  Lang concat(std::initializer_list<Lang> parts);
  Lang either(std::vector<Lang> options);
  Lang both(std::vector<Lang> parts);
  Lang except(Lang a);  // every word over any_code_point() that is not in a
  Lang repeat(Lang body, uint32_t min, uint32_t max);  // max may be kInfinite
  Lang optional(Lang a) { return repeat(a, 0, 1); }
  // Decimal digits that continue a number of remainder r to a multiple of m (0 < m < 2^32). A point
  // among them counts for nothing.
  Lang multiple(uint32_t m, uint32_t r);

  bool nullable(Lang a) const { return node(a).nullable; }
  uint32_t min_length(Lang a) const { return node(a).min_length; }
  uint32_t max_length(Lang a) const { return node(a).max_length; }
  // The largest counter inside.
  uint32_t largest_bound(Lang a) const { return node(a).largest_bound; }
  // Where a letter leads; letters that lead to nothing are left out. Ascending.
  std::span<const Arc> arcs(Lang a);
  // Whether a is every text of min..max code points; the bounds then.
  bool counts_only(Lang a, uint32_t& min, uint32_t& max) const;
  // Whether any word is in a. Exact but for intersections too large to explore (taken as true).
  bool live(Lang a);
  bool matches(Lang a, std::u32string_view word);

  // The same language for words of fewer than `horizon` letters still to come: larger counters are
  // made alike, so that what is known of one is known of all.
  Lang clipped(Lang a, uint32_t horizon);
  // How many letters of `set`, whichever they are, may follow for sure; at most kInfinite.
  uint32_t free_letters(Lang a, const CodePointSet& set);

  // Forgets every expression made after the first `n_kept`, and all that was derived.
  void forget(size_t n_kept);
  size_t bytes() const { return bytes_; }
  // Counts memory that others hold for the same grammar, and calls the check now and then.
  void charge(size_t bytes);
  size_t n_expressions() const { return nodes_.size(); }
  void set_limit(size_t bytes) { limit_ = bytes; }
  // Called now and then during long work; may throw.
  void set_check(std::function<void()> check) {
    check_ = std::move(check);
    restart_check();
  }
  // The next check is a whole interval away.
  void restart_check() { work_ = 0; }

 private:
  enum class Op : uint8_t {
    kNothing,
    kEmptyWord,
    kLetters,
    kConcat,
    kEither,
    kBoth,
    kExcept,
    kRepeat,
    kMultiple
  };
  struct Node {
    Op op;
    bool nullable = false;
    bool may_be_dead = false;  // holds an intersection or a complement
    bool marked = false;       // holds a marker
    uint32_t min_length = 0, max_length = 0;
    uint32_t largest_bound = 0;       // of the counters inside
    uint32_t a = 0, b = 0, c = 0;     // operands, see the makers
    std::vector<Lang> children = {};  // kEither, kBoth: ascending
  };
  enum class Life : uint8_t { kUnknown, kLive, kDead };
  struct Memo {
    bool raw_known = false, arcs_known = false;
    Life life = Life::kUnknown;
    std::vector<Arc> raw, arcs;
  };
  struct Freedom {
    uint32_t letters, completion;
  };
  using Freedoms = std::unordered_map<Lang, Freedom>;

  const Node& node(Lang a) const { return nodes_[static_cast<size_t>(a)]; }
  Memo& memo(Lang a) { return memos_[static_cast<size_t>(a)]; }
  Lang intern(Node node);
  void fold_bounded_prefixes(std::vector<Lang>& options);
  const std::vector<Arc>& raw_arcs(Lang a);
  std::vector<Arc> derive(Lang a);
  std::vector<Arc> derive_concat(Lang a);
  std::vector<Arc> unite(std::vector<Arc> arcs);
  std::vector<Arc> meet(const std::vector<Arc>& x, const std::vector<Arc>& y);
  std::vector<Arc> negate(const std::vector<Arc>& x);
  bool explore(Lang a);
  bool endless_multiple(Lang a) const;
  Freedom freedom(Lang a, const CodePointSet& set, Freedoms& known);

  std::deque<Node> nodes_;  // references survive growth
  std::deque<Memo> memos_;
  std::deque<CodePointSet> sets_;
  std::unordered_multimap<uint64_t, Lang> index_;
  std::unordered_multimap<uint64_t, uint32_t> set_index_;
  std::unordered_map<uint64_t, Lang> clips_;
  size_t bytes_ = 0;
  size_t limit_ = size_t{64} << 20;
  std::function<void()> check_;
  uint32_t work_ = 0;
  int level_ = 0;  // of derive() within itself
  Lang any_ = kNothing;
};

}  // namespace flare::frontend::grammar
