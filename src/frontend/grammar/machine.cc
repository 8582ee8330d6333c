// Steps of the automaton: leaves advance, procedures are called and return, states are numbered.
#include "frontend/grammar/machine.h"

#include <algorithm>
#include <unordered_set>

#include "base/processor_time.h"
#include "frontend/grammar/compiled_grammar.h"

namespace flare::frontend::grammar {
namespace {

constexpr int32_t kNoName = -1;
constexpr int32_t kEmptyName = 0;

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15;
  return h ^ (h >> 29);
}
uint64_t pair_key(int32_t a, int32_t b) {
  return uint64_t{static_cast<uint32_t>(a)} << 32 | static_cast<uint32_t>(b);
}

}  // namespace

// A closure under way: threads of this place of the text, and calls that wait until every caller
// is known.
struct Machine::Work {
  std::vector<Config> configs;
  std::vector<Thread> todo;
  bool accepts = false;
  // Calls by rank of the procedure and its data: callers that call before any letter come first.
  std::map<std::pair<int32_t, int32_t>, Pending> pending = {};
  // Few as a rule; a set takes over where they are many.
  std::vector<Thread> seen = {};
  std::unordered_set<uint64_t> many_seen = {};

  // Whether it is the first of its kind.
  bool see(Thread thread) {
    constexpr size_t kFew = 32;
    if (seen.size() < kFew) {
      if (std::find(seen.begin(), seen.end(), thread) != seen.end()) return false;
      seen.push_back(thread);
      return true;
    }
    if (many_seen.empty())
      for (const Thread& t : seen) many_seen.insert(pair_key(t.pc, t.frame));
    return many_seen.insert(pair_key(thread.pc, thread.frame)).second;
  }
};

Machine::Machine(std::unique_ptr<Languages> languages, Program program,
                 const Vocabulary& vocabulary, size_t max_bytes, int step_ms)
    : languages_(std::move(languages)),
      program_(std::move(program)),
      vocabulary_(vocabulary),
      max_bytes_(max_bytes),
      step_ms_(step_ms),
      n_expressions_(languages_->n_expressions()),
      lexer_(*languages_, program_) {
  languages_->set_limit(languages_->bytes() + 2 * max_bytes);
  trim(true);
}

Machine::~Machine() = default;

void Machine::compiled() {
  languages_->set_check([this] { check_operation(); });
}

void Machine::begin_operation() {
  deadline_ = Clock::now() + std::chrono::milliseconds(step_ms_);
  processor_deadline_.reset();
  languages_->restart_check();
}

void Machine::check_operation() {
  if (Clock::now() < deadline_) return;
  // Reading the time that this thread had costs more, so it is asked only when the wall's is over:
  // a process that was held up gets its share again.
  const double spent = thread_processor_ms();
  if (!processor_deadline_) processor_deadline_ = spent + step_ms_;
  if (spent >= *processor_deadline_)
    throw ConstraintError(kConstraintTooLarge, "", "constraint: one token took longer than {} ms",
                          step_ms_);
}

size_t Machine::bytes() const { return bytes_ + lexer_.bytes() + languages_->bytes(); }

bool Machine::trim(bool always) {
  if (!always && bytes() < kept_bytes_ + trim_bytes_) return false;
  ++generation_;
  start_.reset();
  states_.clear();
  frames_.clear();
  object_states_.clear();
  names_.assign(1, {kNoName, 0, 0});
  state_index_.clear();
  frame_index_.clear();
  object_index_.clear();
  name_index_.clear();
  steps_.clear();
  behind_.clear();
  node_sets_.assign(1, {0});
  node_set_index_.clear();
  any_exits_[0] = any_exits_[1] = -1;
  partitions_.clear();
  summaries_.clear();
  lexer_.clear();
  if (generation_ > 1) languages_->forget(n_expressions_);
  bytes_ = 0;
  kept_bytes_ = bytes();
  trim_bytes_ = max_bytes_;
  return true;
}

void Machine::keep_walked() {
  constexpr size_t kMostBytes = size_t{256} << 20;
  const size_t walked = bytes() - std::min(bytes(), kept_bytes_);
  if (walked > std::max(kMostBytes, max_bytes_))
    throw ConstraintError(kConstraintTooLarge, "", "constraint: the answer so far takes {} bytes",
                          walked);
  trim_bytes_ = std::max(trim_bytes_, 2 * walked);
}

Machine::State Machine::start() {
  if (start_) return *start_;
  const int32_t root = frame(program_.root, 0, {});
  start_ = closure({}, {{program_.procedures[static_cast<size_t>(program_.root)].entry, root}});
  return *start_;
}

Machine::State Machine::closure(std::vector<Config> kernel, std::vector<Thread> threads) {
  Work work{.configs = std::move(kernel), .todo = std::move(threads)};
  const auto drain = [&](int32_t fresh_frame) {
    while (!work.todo.empty()) {
      const Thread thread = work.todo.back();
      work.todo.pop_back();
      if (!work.see(thread)) continue;
      languages_->charge(0);
      run_thread(work, thread, thread.frame == fresh_frame);
    }
  };
  drain(-1);
  while (!work.pending.empty()) {
    // The caller-most procedure: nothing that is still to run can call it.
    Pending next = std::move(work.pending.begin()->second);
    work.pending.erase(work.pending.begin());
    std::sort(next.parents.begin(), next.parents.end());
    next.parents.erase(std::unique(next.parents.begin(), next.parents.end()), next.parents.end());
    const int32_t made = frame(next.procedure, next.data, std::move(next.parents));
    work.todo.push_back({program_.procedures[static_cast<size_t>(next.procedure)].entry, made});
    drain(made);
  }
  std::sort(work.configs.begin(), work.configs.end());
  work.configs.erase(std::unique(work.configs.begin(), work.configs.end()), work.configs.end());
  return intern({std::move(work.configs), work.accepts});
}

void Machine::run_thread(Work& work, Thread thread, bool fresh_frame) {
  const Instruction& i = program_.code[static_cast<size_t>(thread.pc)];
  const Thread next{thread.pc + 1, thread.frame};
  switch (i.op) {
    case Op::kLeaf: {
      const Lex lex = lexer_.start(i.a, static_cast<Spelling>(i.b));
      if (lexer_.goes_on(lex)) work.configs.push_back({lex, next.pc, thread.frame, kNoName});
      if (lexer_.accepts(lex)) work.todo.push_back(next);
      break;
    }
    case Op::kSplit:
      for (int32_t t = 0; t < i.b; ++t)
        work.todo.push_back({program_.targets[static_cast<size_t>(i.a + t)], thread.frame});
      break;
    case Op::kJump:
      work.todo.push_back({i.a, thread.frame});
      break;
    case Op::kCall:
    case Op::kCount: {
      const Procedure& callee = program_.procedures[static_cast<size_t>(i.a)];
      int32_t data = 0;
      if (callee.kind == Procedure::kObject)
        data = object_state(
            {.object = callee.object, .seen = {}, .needed = {}, .usable = {}, .extras = {}});
      // The last call of a plain procedure returns to its caller's callers.
      int32_t after = next.pc;
      while (program_.code[static_cast<size_t>(after)].op == Op::kJump)
        after = program_.code[static_cast<size_t>(after)].a;
      const Frame& current = frames_[static_cast<size_t>(thread.frame)];
      const bool last =
          program_.code[static_cast<size_t>(after)].op == Op::kReturn &&
          program_.procedures[static_cast<size_t>(current.procedure)].kind == Procedure::kPlain &&
          !current.parents.empty();
      if (last)
        call(work, i.a, data, current.parents);
      else
        call(work, i.a, data, {&next, 1});
      if (callee.nullable) work.todo.push_back(next);
      break;
    }
    case Op::kMembers: {
      const ObjectState& o =
          object_states_[static_cast<size_t>(frames_[static_cast<size_t>(thread.frame)].data)];
      if (o.closable) work.todo.push_back({i.b, thread.frame});
      if (o.more) work.todo.push_back({i.c, thread.frame});
      break;
    }
    case Op::kKey: {
      const ObjectState& o =
          object_states_[static_cast<size_t>(frames_[static_cast<size_t>(thread.frame)].data)];
      work.configs.push_back(
          {lexer_.start_key(i.a, o.others), 0, thread.frame, o.others ? kEmptyName : kNoName});
      break;
    }
    case Op::kReturn:
      // Of a call made at this very place the caller went on already: the callee is nullable.
      if (!fresh_frame) return_from(work, thread);
      break;
  }
}

void Machine::call(Work& work, int32_t procedure, int32_t data, std::span<const Thread> parents) {
  const int32_t rank = program_.procedures[static_cast<size_t>(procedure)].rank;
  Pending& p = work.pending.try_emplace({rank, data}, Pending{procedure, data, {}}).first->second;
  p.parents.insert(p.parents.end(), parents.begin(), parents.end());
}

void Machine::return_from(Work& work, const Thread& thread) {
  const Frame& f = frames_[static_cast<size_t>(thread.frame)];
  const Procedure& p = program_.procedures[static_cast<size_t>(f.procedure)];
  if (p.kind == Procedure::kCounter) {
    const int32_t done = f.data + 1;
    if (p.max < 0 || done < p.max)
      call(work, f.procedure, p.max < 0 ? std::min(done, p.min) : done, f.parents);
    if (done < p.min) return;
  }
  if (f.parents.empty()) work.accepts = true;
  for (const Thread& parent : f.parents) work.todo.push_back(parent);
}

Machine::State Machine::intern(StateData data) {
  if (data.configs.empty() && !data.accepts) return kDead;
  uint64_t h = data.accepts ? 1 : 0;
  for (const Config& c : data.configs)
    h = mix(mix(h, pair_key(c.lex, c.pc)), pair_key(c.frame, c.name));
  const auto [first, last] = state_index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const StateData& old = states_[static_cast<size_t>(it->second)];
    if (old.accepts == data.accepts && old.configs == data.configs) return it->second;
  }
  const auto id = static_cast<State>(states_.size());
  bytes_ += sizeof(StateData) + 48 + data.configs.size() * sizeof(Config);
  states_.push_back(std::move(data));
  state_index_.emplace(h, id);
  return id;
}

int32_t Machine::frame(int32_t procedure, int32_t data, std::vector<Thread> parents) {
  uint64_t h = pair_key(procedure, data);
  for (const Thread& t : parents) h = mix(h, pair_key(t.pc, t.frame));
  const auto [first, last] = frame_index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const Frame& old = frames_[static_cast<size_t>(it->second)];
    if (old.procedure == procedure && old.data == data && old.parents == parents) return it->second;
  }
  const auto id = static_cast<int32_t>(frames_.size());
  bytes_ += sizeof(Frame) + 48 + parents.size() * sizeof(Thread);
  frames_.push_back({procedure, data, std::move(parents)});
  frame_index_.emplace(h, id);
  return id;
}

// Numbers an object state by object, seen and extras; the rest follows from them.
int32_t Machine::object_state(ObjectState o) {
  const ObjectSpec& spec = program_.objects[static_cast<size_t>(o.object)];
  const size_t words = spec.required.size();
  o.seen.resize(words, 0);
  uint64_t h = static_cast<uint64_t>(o.object);
  for (const uint64_t word : o.seen) h = mix(h, word);
  for (const int32_t extra : o.extras) h = mix(h, static_cast<uint64_t>(extra) + 1);
  const auto [first, last] = object_index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const ObjectState& old = object_states_[static_cast<size_t>(it->second)];
    if (old.object == o.object && old.seen == o.seen && old.extras == o.extras) return it->second;
  }
  o.needed = spec.required;
  o.usable = spec.usable;
  for (size_t w = 0; w < words; ++w) o.needed[w] |= o.seen[w];
  if (!spec.needs.empty()) {
    const ObjectSpec::Bits asked = o.needed;
    for (size_t i = 0; i < spec.names.size(); ++i)
      if (bit(asked, i))
        for (size_t w = 0; w < words; ++w) o.needed[w] |= spec.needs[i][w];
  }
  for (size_t w = 0; w < words; ++w) o.usable[w] &= ~o.seen[w];
  const size_t n_needed = count(o.needed) + o.extras.size();
  if (spec.max != UINT32_MAX) {
    for (size_t i = 0; i < spec.names.size(); ++i) {
      if (!bit(o.usable, i)) continue;
      ObjectSpec::Bits with = o.needed;
      set_bit(with, i);
      if (!spec.needs.empty())
        for (size_t w = 0; w < words; ++w) with[w] |= spec.needs[i][w];
      if (count(with) + o.extras.size() > spec.max) o.usable[i / 64] &= ~(uint64_t{1} << (i % 64));
    }
  }
  o.closable = o.needed == o.seen && n_needed >= spec.min;
  o.others = n_needed + 1 <= spec.max &&
             std::any_of(spec.others.begin(), spec.others.end(),
                         [](const ObjectSpec::Others& other) { return other.usable; });
  o.more = o.others || count(o.usable) > 0;
  const auto id = static_cast<int32_t>(object_states_.size());
  bytes_ += sizeof(ObjectState) + 48 + 3 * words * 8 + o.extras.size() * 4;
  object_states_.push_back(std::move(o));
  object_index_.emplace(h, id);
  return id;
}

int32_t Machine::add_member(int32_t state, int32_t tag, int32_t name) {
  const ObjectState& before = object_states_[static_cast<size_t>(state)];
  ObjectState after{.object = before.object,
                    .seen = before.seen,
                    .needed = {},
                    .usable = {},
                    .extras = before.extras};
  const auto n_names = program_.objects[static_cast<size_t>(after.object)].names.size();
  if (static_cast<size_t>(tag) < n_names)
    set_bit(after.seen, static_cast<size_t>(tag));
  else
    after.extras.insert(std::lower_bound(after.extras.begin(), after.extras.end(), name), name);
  return object_state(std::move(after));
}

int32_t Machine::extend_name(int32_t name, CodePoint c) {
  const auto [it, fresh] = name_index_.try_emplace(pair_key(name, static_cast<int32_t>(c)),
                                                   static_cast<int32_t>(names_.size()));
  if (fresh) {
    names_.push_back({name, c, names_[static_cast<size_t>(name)].length + 1});
    bytes_ += sizeof(Name) + 40;
  }
  return it->second;
}

bool Machine::is_prefix(int32_t name, int32_t of) const {
  const int32_t length = names_[static_cast<size_t>(name)].length;
  while (names_[static_cast<size_t>(of)].length > length)
    of = names_[static_cast<size_t>(of)].parent;
  return of == name;
}

Machine::State Machine::step(State state, uint8_t byte) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(state)} << 8 | byte;
  const auto known = steps_.find(key);
  if (known != steps_.end()) return known->second;
  const State next = step_uncached(state, byte);
  steps_.emplace(key, next);
  bytes_ += 40;
  return next;
}

Machine::State Machine::step_uncached(State state, uint8_t byte) {
  std::vector<Config> kernel;
  std::vector<Thread> threads;
  const std::vector<Config> configs = states_[static_cast<size_t>(state)].configs;
  for (const Config& c : configs) {
    if (lexer_.spelling(c.lex) == Spelling::kKey) {
      step_key(c, byte, kernel, threads);
      continue;
    }
    const Lex lex = lexer_.step_once(c.lex, byte);
    if (lex == Lexer::kDead) continue;
    if (lexer_.goes_on(lex)) kernel.push_back({lex, c.pc, c.frame, kNoName});
    if (lexer_.accepts(lex)) threads.push_back({c.pc, c.frame});
  }
  if (kernel.empty() && threads.empty()) return kDead;
  return closure(std::move(kernel), std::move(threads));
}

void Machine::step_key(const Config& c, uint8_t byte, std::vector<Config>& kernel,
                       std::vector<Thread>& threads) {
  const Lex lex = lexer_.step_once(c.lex, byte);
  if (lex == Lexer::kDead) return;
  if (lexer_.accepts(lex)) {
    end_name(c, lexer_.tag(lex), c.name, threads);
    return;
  }
  const auto data = static_cast<size_t>(frames_[static_cast<size_t>(c.frame)].data);
  if (!lexer_.key_usable(lex, object_states_[data].usable)) return;
  int32_t name = c.name;
  if (name != kNoName) {
    const int32_t letter = lexer_.completed(c.lex, byte);
    if (letter >= 0) name = extend_name(name, static_cast<CodePoint>(letter));
  }
  kernel.push_back({lex, 0, c.frame, name});
}

// Goes on behind a member name, if the object may have it. The name kNoName is one never met.
bool Machine::end_name(const Config& c, int32_t tag, int32_t name, std::vector<Thread>& threads) {
  const Frame f = frames_[static_cast<size_t>(c.frame)];
  const ObjectState& o = object_states_[static_cast<size_t>(f.data)];
  const ObjectSpec& spec = program_.objects[static_cast<size_t>(o.object)];
  const bool listed = static_cast<size_t>(tag) < spec.names.size();
  if (listed && !bit(o.usable, static_cast<size_t>(tag))) return false;
  if (!listed && std::binary_search(o.extras.begin(), o.extras.end(), name)) return false;
  const int32_t after = frame(f.procedure, add_member(f.data, tag, name), f.parents);
  threads.push_back({spec.value_code[static_cast<size_t>(tag)], after});
  return true;
}

Machine::State Machine::behind(std::vector<Thread> threads) {
  if (threads.size() > 1) return closure({}, std::move(threads));
  const uint64_t key = pair_key(threads[0].pc, threads[0].frame);
  const auto known = behind_.find(key);
  if (known != behind_.end()) return known->second;
  const State state = closure({}, std::move(threads));
  behind_.emplace(key, state);
  bytes_ += 40;
  return state;
}

Machine::State Machine::behind_key(const Config& c, int32_t tag) {
  const uint64_t key = pair_key(-2 - tag, c.frame);
  const auto known = behind_.find(key);
  if (known != behind_.end()) return known->second;
  std::vector<Thread> threads;
  const State state = end_name(c, tag, kNoName, threads) ? closure({}, std::move(threads)) : kDead;
  behind_.emplace(key, state);
  bytes_ += 40;
  return state;
}

Machine::State Machine::step_text(State state, std::string_view bytes) {
  constexpr size_t kAtOnce = 256;  // of a long prefill each part has the time of a token
  for (size_t i = 0; i < bytes.size() && state != kDead; ++i) {
    if (i > 0 && i % kAtOnce == 0) begin_operation();
    state = step(state, static_cast<uint8_t>(bytes[i]));
  }
  return state;
}

Machine::State Machine::step_token(State state, int32_t token) {
  if (token < 0 || token >= vocabulary_.size()) return kDead;
  const Token& t = vocabulary_.token(token);
  if (t.bytes.empty()) return kDead;
  if (t.kind == Token::Kind::kText) return step_text(state, t.bytes);
  if (t.kind == Token::Kind::kUnused) return kDead;
  const int32_t marker = *vocabulary_.marker(t.bytes);
  std::vector<Config> kernel;
  std::vector<Thread> threads;
  const std::vector<Config> configs = states_[static_cast<size_t>(state)].configs;
  for (const Config& c : configs) {
    const Lex lex = lexer_.step_marker(c.lex, marker);
    if (lex == Lexer::kDead) continue;
    if (lexer_.goes_on(lex)) kernel.push_back({lex, c.pc, c.frame, kNoName});
    if (lexer_.accepts(lex)) threads.push_back({c.pc, c.frame});
  }
  if (kernel.empty() && threads.empty()) return kDead;
  return closure(std::move(kernel), std::move(threads));
}

int Machine::forced_byte(State state) {
  if (accepts(state)) return -1;
  int forced = -1;
  std::vector<int32_t> markers;
  const std::vector<Config> configs = states_[static_cast<size_t>(state)].configs;
  for (const Config& c : configs) lexer_.markers(c.lex, markers);
  if (!markers.empty()) return -1;
  for (int byte = 0; byte < 256; ++byte) {
    const bool possible = std::any_of(configs.begin(), configs.end(), [&](const Config& c) {
      return lexer_.step(c.lex, static_cast<uint8_t>(byte)) != Lexer::kDead;
    });
    if (!possible || step(state, static_cast<uint8_t>(byte)) == kDead) continue;
    if (forced >= 0) return -1;
    forced = byte;
  }
  return forced;
}

}  // namespace flare::frontend::grammar
