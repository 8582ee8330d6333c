// How leaves are written as bytes: UTF-8, JSON strings with their escapes, and member names.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "frontend/grammar/language.h"
#include "frontend/grammar/program.h"

namespace flare::frontend::grammar {

// The state of one leaf between two bytes.
using Lex = int32_t;

// A byte automaton made as it is walked: states are (language still to come, character under way).
// Confined to one thread at a time; may throw Languages::Overflow.
class Lexer {
 public:
  static constexpr Lex kDead = -1;

  Lexer(Languages& languages, const Program& program) : languages_(languages), program_(program) {}

  Lex start(Lang language, Spelling spelling);
  // With or without the names that the object does not list.
  Lex start_key(int32_t object, bool with_others);

  Lex step(Lex lex, uint8_t byte) {
    State& s = states_[static_cast<size_t>(lex)];
    if (s.row < 0) open_row(s);
    const Lex known = rows_[static_cast<size_t>(s.row)][byte];
    return known != kUnknown ? known : compute(lex, byte);
  }

  // The same without room for all steps of the state: for states that are met once.
  Lex step_once(Lex lex, uint8_t byte) {
    const State& s = states_[static_cast<size_t>(lex)];
    if (s.row >= 0) return step(lex, byte);
    const State copy = s;
    return next(copy, byte);
  }

  // Whether the leaf may end here, and whether it may go on.
  bool accepts(Lex lex) const { return at(lex).accepts; }
  bool goes_on(Lex lex) const { return at(lex).goes_on; }
  Spelling spelling(Lex lex) const { return at(lex).spelling; }
  // Between two characters inside.
  bool plain(Lex lex) const { return at(lex).phase == Phase::kPlain; }
  bool in_escape(Lex lex) const {
    return at(lex).phase >= Phase::kEscape && at(lex).phase <= Phase::kLowHex;
  }
  // Where the marker leads that stands here, kDead if none may.
  Lex step_marker(Lex lex, int32_t marker);
  // The markers that may stand here.
  void markers(Lex lex, std::vector<int32_t>& out);

  // Of a name that ended: its number, or the number of names plus that of the others it belongs to.
  int32_t tag(Lex lex) const { return at(lex).tag; }
  // Of a name under way. `free`: it can be completed whatever names the object has already.
  // Otherwise it needs one of the listed names that `usable` has.
  bool key_free(Lex lex) const { return at(lex).free; }
  bool key_usable(Lex lex, const ObjectSpec::Bits& usable);
  // Whether the name so far begins one that the object lists.
  bool key_listed(Lex lex) const;
  // Whether this byte may go on towards a listed name; of some that may not it says so too.
  bool key_may_list(Lex lex, uint8_t byte) const;
  // The tag of unlisted names if these may be any, and the leaf is before a name's quote or between
  // two of its letters; -1 otherwise.
  int32_t any_other_tag(Lex lex) const;
  // Whether every name may follow, of whichever kind it is, and the leaf is before a name's quote
  // or between two of its letters.
  bool takes_any_name(Lex lex);
  // Whether the leaf is a JSON string of any content but for its length, before its quote or
  // between two letters; the bounds of what is to come.
  bool counts_only(Lex lex, uint32_t& min, uint32_t& max) const {
    const State& s = at(lex);
    return s.spelling == Spelling::kJson &&
           (s.phase == Phase::kStart || s.phase == Phase::kPlain) &&
           languages_.counts_only(s.inner, min, max);
  }
  // Before the opening quote.
  bool before_quote(Lex lex) const { return at(lex).phase == Phase::kStart; }
  // States behind the next letters, one of each kind; behind the quote where that comes first.
  void next_letters(Lex lex, size_t most, std::vector<Lex>& out);
  // The character that this byte completes, -1 if none.
  int32_t completed(Lex lex, uint8_t byte) const;

  // The same state with counters cut at the horizon.
  Lex clipped(Lex lex, uint32_t horizon);
  // Letters of the set that may follow for sure, and the most that may follow at all.
  uint32_t free_letters(Lex lex, const CodePointSet& set);
  uint32_t most_letters(Lex lex) const;

  size_t bytes() const { return bytes_; }
  void clear();

 private:
  static constexpr Lex kUnknown = -2;
  enum class Phase : uint8_t {
    kStart,  // before the opening quote
    kPlain,
    kUtf8,      // count bytes are missing of a character of `length`
    kEscape,    // behind a backslash
    kHex,       // behind \u and count digits
    kLowSlash,  // behind a high surrogate: the backslash of the low one, its u, its digits
    kLowU,
    kLowHex,
    kEnd
  };
  struct State {
    Spelling spelling;
    Phase phase;
    uint8_t count = 0, length = 0;
    bool accepts = false, goes_on = true, free = true;
    int32_t inner = 0;   // language, or key state
    uint32_t value = 0;  // of the character under way
    int32_t tag = -1;
    int32_t row = -1;
    Lex clip = kUnknown;
  };
  struct Key {  // which names and others are still possible
    int32_t object;
    int32_t node;              // of the trie, -1: none of the listed names
    std::vector<Lang> others;  // empty if none
    bool arcs_known = false, any_other = false;
    std::vector<Arc> arcs = {};  // targets are key states
  };
  struct Intervals {
    std::array<CodePointInterval, 2> parts;
    size_t n = 0;
    void add(CodePoint lo, CodePoint hi) {
      if (lo <= hi) parts[n++] = {lo, hi};
    }
  };

  const State& at(Lex lex) const { return states_[static_cast<size_t>(lex)]; }
  void open_row(State& s);
  Lex compute(Lex lex, uint8_t byte);
  Lex next(const State& s, uint8_t byte);
  Lex next_plain(const State& s, uint8_t byte);
  Lex next_hex(const State& s, uint8_t byte);
  Lex intern(State s);
  Lex partial(State s);
  Lex character(const State& s, CodePoint c);
  Lex close(const State& s);
  std::span<const Arc> arcs(const State& s);
  const Arc* find_arc(const State& s, CodePoint c);
  static Intervals reach(const State& s);
  int32_t key(Key key);
  std::span<const Arc> key_arcs(int32_t id);
  int32_t key_target(const Key& k, CodePoint c, std::vector<std::span<const Arc>>& others);
  int32_t key_tag(int32_t id) const;

  Languages& languages_;
  const Program& program_;
  std::vector<State> states_;
  std::deque<std::array<Lex, 256>> rows_;
  std::vector<Key> keys_;
  std::unordered_multimap<uint64_t, Lex> index_;
  std::unordered_multimap<uint64_t, int32_t> key_index_;
  size_t bytes_ = 0;
};

}  // namespace flare::frontend::grammar
