// The automaton behind a compiled grammar: sets of leaves under way, each with its shared stack.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/grammar/lexer.h"
#include "frontend/grammar/program.h"
#include "frontend/grammar/vocabulary.h"

namespace flare::frontend::grammar {

// States, stacks and what masks need of them are made once and numbered, so that two equal
// situations are one number; a stack entry knows all its callers (Tomita 1986), so ambiguity costs
// no copies. Guarded by mutex(): hold it for every call. What is remembered is forgotten when it
// grows beyond the limit: generation() then changes and all states of before are void.
class Machine {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  Machine(std::unique_ptr<Languages> languages, Program program, const Vocabulary& vocabulary,
          size_t max_bytes, int step_ms);
  ~Machine();

  // Until this is called the check of the compilation applies.
  void compiled();
  // Gives the operation that follows (one token, one mask) an end: where leaves multiply beyond
  // `step_ms` of work it throws ConstraintError.
  void begin_operation();
  std::mutex& mutex() { return mutex_; }
  uint64_t generation() const { return generation_; }
  // Forgets if more than the limit is remembered (or always). Whether it did.
  bool trim(bool always = false);
  // What is remembered is what a sequence needs to go on: the next trim is as far away again, so
  // that sequences are walked again seldom. Throws ConstraintError if that is too much.
  void keep_walked();

  State start();
  // These return kDead where nothing may follow.
  State step(State state, uint8_t byte);
  State step_token(State state, int32_t token);
  State step_text(State state, std::string_view bytes);
  bool accepts(State state) const { return states_[static_cast<size_t>(state)].accepts; }
  // Sets the bits of all tokens that may follow; whether any was set.
  bool fill_mask(State state, std::span<uint32_t> mask);
  // The one byte that may follow if the text cannot end; -1 otherwise.
  int forced_byte(State state);
  // Learns masks ahead, those of what comes first first, until the check says stop.
  template <typename Stop>
  void warm(Stop stop) {
    std::vector<Lex> ahead = first_leaves();
    for (size_t i = 0; i < ahead.size() && !stop(); ++i) warm_leaf(ahead[i], ahead);
  }
  size_t bytes() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Config {  // a leaf under way
    Lex lex;
    int32_t pc;  // where it goes on; unused of a member name
    int32_t frame;
    int32_t name;  // letters so far of a member name that the object may not list
    auto operator<=>(const Config&) const = default;
  };
  struct Thread {
    int32_t pc, frame;
    auto operator<=>(const Thread&) const = default;
  };
  struct StateData {
    std::vector<Config> configs;  // ascending
    bool accepts = false;
  };
  struct Frame {  // one call of a procedure at one place of the text
    int32_t procedure;
    int32_t data;                 // counter, or object state
    std::vector<Thread> parents;  // where it returns to; ascending
  };
  struct ObjectState {
    int32_t object;
    ObjectSpec::Bits seen, needed, usable;
    std::vector<int32_t> extras;  // names seen that are not listed; ascending
    bool closable = false, others = false, more = false;
  };
  struct Name {
    int32_t parent;
    CodePoint letter;
    int32_t length;
  };
  struct Pending {
    int32_t procedure, data;
    std::vector<Thread> parents;
  };
  struct Work;   // of one closure
  struct Exit {  // what ends a member name
    int32_t tag = 0;
    int32_t nodes = -1;           // node set behind it
    std::vector<int32_t> tokens;  // that end with it
    // Of an object open for any name: all tokens of the vocabulary that end a string, but for those
    // of listed names, which are to be tried.
    const std::vector<uint32_t>* closing = nullptr;
    const std::vector<int32_t>* all_rewritten = nullptr;
    std::vector<int32_t> doubtful = {};
    std::vector<int32_t> rewritten;  // of those and of those behind, the ones that hold escapes
  };
  // What a leaf allows behind the nodes of a set, whatever surrounds it.
  struct Summary {
    std::vector<uint32_t> dense;  // mask, or empty
    std::vector<int32_t> sparse;
    // Masks of the vocabulary that belong to it too.
    const std::vector<uint32_t>* shared = nullptr;
    const std::vector<uint32_t>* shared_closing = nullptr;
    int32_t exits = -1;             // nodes where the leaf may end
    std::vector<uint32_t> staying;  // long tokens, by index, that do not leave it but for counters
    std::vector<int32_t> leaving;   // long tokens to be tried
    std::vector<Exit> keys;
    std::vector<std::pair<Lex, std::vector<int32_t>>> conditional;
  };
  struct Collect;
  class Walk;

  void check_operation();
  State closure(std::vector<Config> kernel, std::vector<Thread> threads);
  void run_thread(Work& work, Thread thread, bool fresh_frame);
  void call(Work& work, int32_t procedure, int32_t data, std::span<const Thread> parents);
  void return_from(Work& work, const Thread& thread);
  State intern(StateData data);
  int32_t frame(int32_t procedure, int32_t data, std::vector<Thread> parents);
  int32_t object_state(ObjectState state);
  int32_t add_member(int32_t object_state, int32_t tag, int32_t name);
  int32_t extend_name(int32_t name, CodePoint c);
  bool is_prefix(int32_t name, int32_t of) const;
  State step_uncached(State state, uint8_t byte);
  void step_key(const Config& config, uint8_t byte, std::vector<Config>& kernel,
                std::vector<Thread>& threads);
  bool end_name(const Config& config, int32_t tag, int32_t name, std::vector<Thread>& threads);
  State behind(std::vector<Thread> threads);
  State behind_key(const Config& config, int32_t tag);

  const Summary& summary(Lex lex, int32_t nodes);
  Summary make_summary(Lex lex, int32_t nodes);
  Summary counted_string_summary(Lex lex, uint32_t min, uint32_t max);
  Summary open_key_summary(Lex lex, int32_t other_tag);
  void add_long_tokens(Lex lex, Summary& out);
  void make_dense(Summary& summary) const;
  int32_t node_set(std::vector<uint32_t> nodes);
  int32_t any_exits(bool plain);
  std::vector<std::pair<int32_t, std::vector<int32_t>>> partition(const std::vector<int32_t>& sets);
  std::vector<Lex> first_leaves();
  void warm_leaf(Lex lex, std::vector<Lex>& ahead);
  void collect(Collect& job, State state, int32_t nodes, bool approximate);
  void collect_key(Collect& job, const Config& config, int32_t nodes, bool approximate);
  void recheck_duplicates(Collect& job, const Config& config, int32_t nodes);
  void recheck_rewritten(Collect& job, const Config& config, int32_t nodes,
                         std::span<const int32_t> tokens);
  std::vector<std::u32string> names_left(const Config& config) const;
  void add_tokens(Collect& job, const Summary& s, Lex lex);

  std::unique_ptr<Languages> languages_;
  Program program_;
  const Vocabulary& vocabulary_;
  const size_t max_bytes_;
  const int step_ms_;
  Clock::time_point deadline_;                // of the operation, on the wall
  std::optional<double> processor_deadline_;  // once that is over, of the thread
  size_t kept_bytes_ = 0;                     // of what is never forgotten
  size_t trim_bytes_ = 0;                     // beyond those: forget
  const size_t n_expressions_;
  std::mutex mutex_;
  Lexer lexer_;
  uint64_t generation_ = 0;
  size_t bytes_ = 0;

  std::optional<State> start_;
  std::vector<StateData> states_;
  std::vector<Frame> frames_;
  std::vector<ObjectState> object_states_;
  std::vector<Name> names_;
  std::unordered_multimap<uint64_t, int32_t> state_index_, frame_index_, object_index_;
  std::unordered_map<uint64_t, int32_t> name_index_;
  std::unordered_map<uint64_t, State> steps_;     // state, byte
  std::unordered_map<uint64_t, State> behind_;    // pc or tag, frame
  std::vector<std::vector<uint32_t>> node_sets_;  // 0: the root
  std::unordered_multimap<uint64_t, int32_t> node_set_index_;
  int32_t any_exits_[2] = {-1, -1};  // node sets of what ends any string
  std::map<std::vector<int32_t>, std::vector<std::pair<int32_t, std::vector<int32_t>>>> partitions_;
  std::unordered_map<uint64_t, std::unique_ptr<Summary>> summaries_;
};

}  // namespace flare::frontend::grammar
