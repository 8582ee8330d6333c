// Compiles grammars for a vocabulary, keeps the latest, and walks them for one sequence.
#include "frontend/grammar/compiled_grammar.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>
#include <unordered_map>

#include "base/processor_time.h"
#include "frontend/grammar/lower.h"
#include "frontend/grammar/machine.h"

namespace flare::frontend::grammar {

CompiledGrammar::CompiledGrammar() = default;
CompiledGrammar::~CompiledGrammar() = default;

std::shared_ptr<CompiledGrammar> compile(const Grammar& grammar,
                                         std::shared_ptr<const Vocabulary> vocabulary,
                                         const CompileLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  const double processor_started = thread_processor_ms();
  const auto spent_ms = [&] {
    return std::chrono::duration<double, std::milli>(Clock::now() - started).count();
  };
  const auto check = [&] {
    if (spent_ms() > limits.timeout_ms &&
        thread_processor_ms() - processor_started > limits.timeout_ms)
      throw ConstraintError(kConstraintTooLarge, "",
                            "constraint: it takes longer than {} ms to compile", limits.timeout_ms);
  };
  std::shared_ptr<CompiledGrammar> out(new CompiledGrammar);
  try {
    auto languages = std::make_unique<Languages>();
    languages->set_limit(limits.max_bytes);
    languages->set_check(check);
    Lowered lowered = lower(grammar, *vocabulary, *languages, check);
    out->relaxed_ = std::move(lowered.relaxed);
    out->machine_ = std::make_unique<Machine>(std::move(languages), std::move(lowered.program),
                                              *vocabulary, limits.max_cache_bytes, limits.step_ms);
    out->machine_->start();
    // The first masks are the dearest: part of them is made here, off the engine's thread.
    const double warm_until = std::min(spent_ms() + limits.warm_ms, limits.timeout_ms * 1.0);
    out->machine_->warm([&] { return spent_ms() > warm_until; });
    out->machine_->compiled();
    out->bytes_ = out->machine_->bytes();
  } catch (const Languages::Overflow&) {
    throw ConstraintError(kConstraintTooLarge, "",
                          "constraint: it takes more than {} bytes to compile", limits.max_bytes);
  }
  out->vocabulary_ = std::move(vocabulary);
  return out;
}

struct GrammarCache::Impl {
  struct Entry {
    std::string content;
    std::shared_ptr<CompiledGrammar> compiled;
  };
  std::shared_ptr<const Vocabulary> vocabulary;
  size_t capacity, max_bytes;
  std::mutex mutex;          // guards the two below
  std::list<Entry> entries;  // the latest first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index;

  // Drops the oldest ones that are too many or too large. Grammars grow while they are used, so
  // their sizes are asked for each time.
  void drop_old() {
    size_t bytes = 0, kept = 0;
    for (auto it = entries.begin(); it != entries.end();) {
      bytes += it->compiled->bytes();
      if (kept == 0 || (kept < capacity && bytes <= max_bytes)) {
        ++kept;
        ++it;
        continue;
      }
      index.erase(it->content);
      it = entries.erase(it);
    }
  }
};

GrammarCache::GrammarCache(std::shared_ptr<const Vocabulary> vocabulary, size_t capacity,
                           size_t max_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->vocabulary = std::move(vocabulary);
  impl_->capacity = std::max<size_t>(capacity, 1);
  impl_->max_bytes = max_bytes;
}

GrammarCache::~GrammarCache() = default;

std::shared_ptr<CompiledGrammar> GrammarCache::get(const Grammar& grammar,
                                                   const CompileLimits& limits) {
  std::string content = grammar.content();
  const auto find = [&]() -> std::shared_ptr<CompiledGrammar> {
    const auto it = impl_->index.find(content);
    if (it == impl_->index.end()) return nullptr;
    impl_->entries.splice(impl_->entries.begin(), impl_->entries, it->second);
    return it->second->compiled;
  };
  {
    const std::lock_guard lock(impl_->mutex);
    if (auto known = find()) {
      impl_->drop_old();
      return known;
    }
  }
  std::shared_ptr<CompiledGrammar> made = compile(grammar, impl_->vocabulary, limits);
  const std::lock_guard lock(impl_->mutex);
  if (auto known = find()) return known;  // another thread was faster
  impl_->entries.push_front({std::move(content), made});
  impl_->index.emplace(impl_->entries.front().content, impl_->entries.begin());
  impl_->drop_old();
  return made;
}

struct Matcher::Impl {
  // Stands for the state behind an end token.
  static constexpr Machine::State kEnded = -2;

  struct Step {
    int32_t token;  // -1: text
    std::string text = {};
  };

  std::shared_ptr<CompiledGrammar> grammar;
  std::vector<Machine::State> states;  // states[n]: after n steps
  std::vector<Step> steps;
  uint64_t generation = 0;

  Machine& machine() { return *grammar->machine_; }

  Machine::State apply(Machine::State state, const Step& step) {
    if (state == kEnded || state == Machine::kDead) return Machine::kDead;
    if (step.token < 0) return machine().step_text(state, step.text);
    const Machine::State next = machine().step_token(state, step.token);
    const bool ends = next == Machine::kDead && step.token < grammar->vocabulary().size() &&
                      grammar->vocabulary().token(step.token).kind == Token::Kind::kEnd &&
                      machine().accepts(state);
    return ends ? kEnded : next;
  }

  // The current state; walks the sequence again if the machine has forgotten it.
  Machine::State current() {
    machine().trim();
    if (generation != machine().generation()) {
      generation = machine().generation();
      states = {machine().start()};
      for (const Step& step : steps) {
        machine().begin_operation();
        states.push_back(apply(states.back(), step));
      }
      machine().keep_walked();
      machine().begin_operation();
    }
    return states.back();
  }

  // Runs `work` under the lock. Where it needs more memory than there is it is tried once more with
  // everything forgotten.
  template <typename Work>
  auto guarded(Work work) {
    const std::lock_guard lock(machine().mutex());
    struct Note {
      CompiledGrammar& grammar;
      ~Note() { grammar.bytes_.store(grammar.machine_->bytes(), std::memory_order_relaxed); }
    } const note{*grammar};
    try {
      machine().begin_operation();
      return work();
    } catch (const Languages::Overflow&) {
      machine().trim(true);
    }
    try {
      machine().begin_operation();
      return work();
    } catch (const Languages::Overflow&) {
      machine().trim(true);
      throw ConstraintError(kConstraintTooLarge, "", "constraint: one token took too much memory");
    }
  }

  bool take(Step step) {
    return guarded([&] {
      const Machine::State next = apply(current(), step);
      if (next == Machine::kDead) return false;
      states.push_back(next);
      steps.push_back(std::move(step));
      return true;
    });
  }
};

Matcher::Matcher(std::shared_ptr<CompiledGrammar> grammar) : impl_(std::make_unique<Impl>()) {
  impl_->grammar = std::move(grammar);
}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;

bool Matcher::fill_mask(std::span<uint32_t> mask) {
  return impl_->guarded([&] {
    const Machine::State state = impl_->current();
    return state >= 0 && impl_->machine().fill_mask(state, mask);
  });
}

bool Matcher::allows(int32_t token) {
  return impl_->guarded(
      [&] { return impl_->apply(impl_->current(), {.token = token}) != Machine::kDead; });
}

bool Matcher::advance(int32_t token) {
  if (token < 0) return false;
  return impl_->take({.token = token});
}

bool Matcher::advance_text(std::string_view bytes) {
  return impl_->take({.token = -1, .text = std::string(bytes)});
}

void Matcher::rollback(int n) {
  FLARE_ASSERT(n >= 0 && n <= advances());
  const size_t left = impl_->steps.size() - static_cast<size_t>(n);
  impl_->steps.resize(left, {.token = -1});
  if (impl_->states.size() > left + 1) impl_->states.resize(left + 1);
}

int Matcher::advances() const { return static_cast<int>(impl_->steps.size()); }

bool Matcher::can_end() {
  return impl_->guarded([&] {
    const Machine::State state = impl_->current();
    return state == Impl::kEnded || (state >= 0 && impl_->machine().accepts(state));
  });
}

std::string Matcher::forced_bytes(size_t limit) {
  return impl_->guarded([&] {
    std::string out;
    Machine::State state = impl_->current();
    while (state >= 0 && out.size() < limit) {
      impl_->machine().begin_operation();
      const int byte = impl_->machine().forced_byte(state);
      if (byte < 0) break;
      out += static_cast<char>(byte);
      state = impl_->machine().step(state, static_cast<uint8_t>(byte));
    }
    return out;
  });
}

}  // namespace flare::frontend::grammar
