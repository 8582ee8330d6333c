// A grammar made ready for one vocabulary: the automaton that all sequences with it share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/grammar/grammar.h"
#include "frontend/grammar/vocabulary.h"

namespace flare::frontend::grammar {

class Machine;

struct CompileLimits {
  int timeout_ms = 1000;                      // of processor time: a busy machine refuses nothing
  int warm_ms = 20;                           // of that on masks made ahead
  size_t max_bytes = size_t{64} << 20;        // of the automaton; beyond: constraint_too_large
  size_t max_cache_bytes = size_t{64} << 20;  // of what matching remembers; beyond: forgotten
  // Of one token or mask while matching, some hundred times what it takes; beyond: an error.
  int step_ms = 250;
};

// Immutable for its users, who may be on any thread: what matching learns is guarded inside.
class CompiledGrammar {
 public:
  ~CompiledGrammar();
  // What was widened, as "POINTER: what" (S7.3); for the header x-flare-relaxed.
  const std::vector<std::string>& relaxed() const { return relaxed_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  // What it took in memory behind the last token or mask: automaton, and what matching learnt.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class Matcher;
  friend std::shared_ptr<CompiledGrammar> compile(const Grammar&, std::shared_ptr<const Vocabulary>,
                                                  const CompileLimits&);
  CompiledGrammar();
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<Machine> machine_;
  std::vector<std::string> relaxed_;
  std::atomic<size_t> bytes_{0};
};

// Errors: ConstraintError. Takes at most about limits.timeout_ms; shared because sequences of
// several requests and the cache own it together.
std::shared_ptr<CompiledGrammar> compile(const Grammar& grammar,
                                         std::shared_ptr<const Vocabulary> vocabulary,
                                         const CompileLimits& limits = {});

// What a cache keeps at most beside the grammar that was asked for last.
inline constexpr size_t kCachedGrammarBytes = size_t{64} << 20;

// The most recently used compiled grammars of one vocabulary, by content. Locked; any thread.
class GrammarCache {
 public:
  // Keeps up to `capacity` grammars of up to `max_bytes` in all, but always the last.
  GrammarCache(std::shared_ptr<const Vocabulary> vocabulary, size_t capacity,
               size_t max_bytes = kCachedGrammarBytes);
  ~GrammarCache();
  // Compiles outside the lock what it does not have.
  std::shared_ptr<CompiledGrammar> get(const Grammar& grammar, const CompileLimits& limits = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Where one sequence stands. Confined to one thread; several may share a CompiledGrammar. Methods
// throw ConstraintError (constraint_too_large) where a grammar takes more time or memory for one
// token than its limits say: never is that a dead end.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<CompiledGrammar> grammar);
  ~Matcher();
  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;

  // Sets bit id of `mask` (mask_words() words or more, zero at entry) for every token that may
  // follow, ends included where can_end(). False if no bit was set: a dead end.
  bool fill_mask(std::span<uint32_t> mask);
  // Whether this token may follow; costs little.
  bool allows(int32_t token);
  // Takes one token. False, and nothing changes, if it may not follow. An end token where the
  // answer may end is taken; nothing may follow it.
  bool advance(int32_t token);
  // Takes text that was written already, a prefill: bytes of text, no markers. False, and nothing
  // changes, if it is no legal beginning. Counts as one advance.
  bool advance_text(std::string_view bytes);
  // Undoes the last n advances (n <= advances()).
  void rollback(int n);
  int advances() const;
  // Whether the answer may end here.
  bool can_end();
  // The only bytes that may follow, as far as they are certain (at most `limit`).
  std::string forced_bytes(size_t limit = 256);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flare::frontend::grammar
