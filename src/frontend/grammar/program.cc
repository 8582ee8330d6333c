// Trees of parts become code: what cannot produce any text is left out, plain text becomes leaves.
#include "frontend/grammar/program.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace flare::frontend::grammar {
namespace {

void make_trie(ObjectSpec& spec, Languages& languages) {
  const auto n_names = static_cast<int32_t>(spec.names.size());
  spec.trie.assign(1, {.children = {}, .first = 0, .last = n_names});
  for (int32_t i = 0; i < n_names; ++i) {
    size_t at = 0;
    for (const char32_t c : spec.names[static_cast<size_t>(i)]) {
      auto& children = spec.trie[at].children;
      if (children.empty() || children.back().first != c) {
        children.emplace_back(c, static_cast<int32_t>(spec.trie.size()));
        languages.charge(sizeof(ObjectSpec::TrieNode) + sizeof(children[0]));
        spec.trie.push_back({.children = {}, .first = i, .last = i});
      }
      at = static_cast<size_t>(spec.trie[at].children.back().second);
      spec.trie[at].last = i + 1;
    }
    spec.trie[at].name = i;
  }
}

// Callers before callees, over the calls that may happen before any letter. False on a cycle.
int32_t rank_procedures(Program& program, Languages& languages) {
  const size_t n = program.procedures.size();
  std::vector<std::vector<int32_t>> calls(n);
  std::vector<uint32_t> seen(program.code.size(), UINT32_MAX);
  for (size_t p = 0; p < n; ++p) {
    std::vector<int32_t> work = {program.procedures[p].entry};
    while (!work.empty()) {
      const int32_t pc = work.back();
      work.pop_back();
      if (seen[static_cast<size_t>(pc)] == p) continue;
      seen[static_cast<size_t>(pc)] = static_cast<uint32_t>(p);
      const Instruction& i = program.code[static_cast<size_t>(pc)];
      switch (i.op) {
        case Op::kLeaf:
          if (i.b == static_cast<int32_t>(Spelling::kRaw) && languages.nullable(i.a))
            work.push_back(pc + 1);
          break;
        case Op::kSplit:
          for (int32_t t = 0; t < i.b; ++t)
            work.push_back(program.targets[static_cast<size_t>(i.a + t)]);
          break;
        case Op::kJump:
          work.push_back(i.a);
          break;
        case Op::kCall:
        case Op::kCount:
          calls[p].push_back(i.a);
          if (program.procedures[static_cast<size_t>(i.a)].nullable) work.push_back(pc + 1);
          break;
        case Op::kMembers:
        case Op::kKey:
        case Op::kReturn:
          break;
      }
    }
  }
  auto next_rank = static_cast<int32_t>(n);
  std::vector<uint8_t> state(n, 0);
  for (size_t root = 0; root < n; ++root) {
    if (state[root] != 0) continue;
    std::vector<std::pair<size_t, size_t>> stack = {{root, 0}};
    state[root] = 1;
    while (!stack.empty()) {
      auto& [p, next] = stack.back();
      if (next == calls[p].size()) {
        program.procedures[p].rank = --next_rank;
        state[p] = 2;
        stack.pop_back();
        continue;
      }
      const auto callee = static_cast<size_t>(calls[p][next++]);
      if (state[callee] == 1) return static_cast<int32_t>(callee);
      if (state[callee] == 0) {
        state[callee] = 1;
        stack.emplace_back(callee, 0);
      }
    }
  }
  return -1;
}

}  // namespace

ProgramBuilder::Part ProgramBuilder::add(Node node) {
  languages_.charge(sizeof(Node) + node.children.size() * sizeof(Part));
  parts_.push_back(std::move(node));
  return static_cast<Part>(parts_.size() - 1);
}

ProgramBuilder::Part ProgramBuilder::leaf(Lang language, Spelling spelling) {
  return add({.kind = Kind::kLeaf, .spelling = spelling, .a = language});
}

Lang ProgramBuilder::as_language(Part part) const {
  const Node& n = at(part);
  return n.kind == Kind::kLeaf && n.spelling == Spelling::kRaw ? n.a : -1;
}

ProgramBuilder::Part ProgramBuilder::sequence(std::vector<Part> parts) {
  std::vector<Part> flat;
  for (const Part part : parts) {
    if (at(part).kind == Kind::kSequence)
      flat.insert(flat.end(), at(part).children.begin(), at(part).children.end());
    else
      flat.push_back(part);
  }
  std::vector<Part> joined;
  for (size_t i = 0; i < flat.size();) {
    size_t end = i;
    while (end < flat.size() && as_language(flat[end]) >= 0) ++end;
    if (end - i < 2) {
      joined.push_back(flat[i++]);
      continue;
    }
    Lang language = Languages::kEmptyWord;
    for (size_t k = end; k-- > i;) language = languages_.concat(as_language(flat[k]), language);
    joined.push_back(leaf(language));
    i = end;
  }
  if (joined.empty()) return leaf(Languages::kEmptyWord);
  if (joined.size() == 1) return joined[0];
  return add({.kind = Kind::kSequence, .children = std::move(joined)});
}

ProgramBuilder::Part ProgramBuilder::choice(std::vector<Part> options) {
  std::vector<Part> kept;
  std::vector<Lang> languages;
  for (const Part option : options) {
    if (const Lang l = as_language(option); l >= 0)
      languages.push_back(l);
    else
      kept.push_back(option);
  }
  const Lang joined = languages_.either(std::move(languages));
  if (joined != Languages::kNothing || kept.empty()) kept.push_back(leaf(joined));
  if (kept.size() == 1) return kept[0];
  return add({.kind = Kind::kChoice, .children = std::move(kept)});
}

ProgramBuilder::Part ProgramBuilder::repeat(Part body, uint32_t min, uint32_t max) {
  if (min > max) return nothing();
  if (const Lang l = as_language(body); l >= 0) return leaf(languages_.repeat(l, min, max));
  if (max == 0) return leaf(Languages::kEmptyWord);
  if (min == 1 && max == 1) return body;
  return add({.kind = Kind::kRepeat, .min = min, .max = max, .children = {body}});
}

ProgramBuilder::Part ProgramBuilder::call(int32_t procedure) {
  return add({.kind = Kind::kCall, .a = procedure});
}

ProgramBuilder::Part ProgramBuilder::object(ObjectSpec spec) {
  objects_.push_back(std::move(spec));
  return add({.kind = Kind::kObject, .a = static_cast<int32_t>(objects_.size() - 1)});
}

// What can produce a text, and what the empty one: the least fixpoint. Each fact is passed on once
// to those that use its item, so the work is that of the program's size; objects look at all their
// members, but only after everything else that was learnt.
class ProgramBuilder::Fixpoint {
 public:
  explicit Fixpoint(ProgramBuilder& builder)
      : b_(builder),
        first_body_(b_.parts_.size()),
        first_object_(first_body_ + b_.bodies_.size()),
        n_items_(first_object_ + b_.objects_.size()) {
    b_.body_productive_.assign(b_.bodies_.size(), false);
    b_.body_nullable_.assign(b_.bodies_.size(), false);
    b_.object_productive_.assign(b_.objects_.size(), false);
    for (std::vector<uint32_t>& missing : missing_) missing.assign(b_.parts_.size(), 0);
    find_users();
  }

  void run() {
    for (size_t i = 0; i < b_.parts_.size(); ++i) begin(i);
    is_dirty_.assign(b_.objects_.size(), true);
    for (size_t i = 0; i < b_.objects_.size(); ++i) dirty_.push_back(i);
    spread();
    while (!dirty_.empty()) {
      for (const size_t object : std::exchange(dirty_, {})) {
        is_dirty_[object] = false;
        if (b_.update_object(object)) learn(first_object_ + object, kProductive);
      }
      spread();
    }
  }

 private:
  enum Fact : uint8_t { kProductive, kNullable };

  // users_[first_user_[i] .. first_user_[i + 1]) use item i; who uses it twice is there twice.
  void find_users() {
    std::vector<std::pair<size_t, size_t>> uses;  // used, user
    for (size_t i = 0; i < b_.parts_.size(); ++i) {
      const Node& node = b_.parts_[i];
      for (const Part child : node.children) uses.emplace_back(static_cast<size_t>(child), i);
      if (node.kind == Kind::kCall)
        uses.emplace_back(first_body_ + static_cast<size_t>(node.a), i);
      else if (node.kind == Kind::kObject)
        uses.emplace_back(first_object_ + static_cast<size_t>(node.a), i);
    }
    for (size_t i = 0; i < b_.bodies_.size(); ++i)
      if (b_.bodies_[i] >= 0)
        uses.emplace_back(static_cast<size_t>(b_.bodies_[i]), first_body_ + i);
    for (size_t i = 0; i < b_.objects_.size(); ++i) {
      const auto value = [&](int32_t procedure) {
        if (procedure >= 0)
          uses.emplace_back(first_body_ + static_cast<size_t>(procedure), first_object_ + i);
      };
      for (const int32_t procedure : b_.objects_[i].procedures) value(procedure);
      for (const ObjectSpec::Others& other : b_.objects_[i].others) value(other.procedure);
    }
    b_.languages_.charge(uses.size() * (sizeof(uses[0]) + sizeof(users_[0])));
    first_user_.assign(n_items_ + 1, 0);
    for (const auto& [used, user] : uses) ++first_user_[used + 1];
    for (size_t i = 0; i < n_items_; ++i) first_user_[i + 1] += first_user_[i];
    users_.resize(uses.size());
    std::vector<size_t> next(first_user_.begin(), first_user_.end() - 1);
    for (const auto& [used, user] : uses) users_[next[used]++] = user;
  }

  // What a part has of its own.
  void begin(size_t i) {
    Node& node = b_.parts_[i];
    node.productive = node.nullable = false;
    const auto n_children = static_cast<uint32_t>(node.children.size());
    missing_[kProductive][i] = missing_[kNullable][i] = n_children;
    bool productive = false, nullable = false;
    if (node.kind == Kind::kLeaf) {
      productive = b_.languages_.live(node.a);
      nullable = productive && node.spelling == Spelling::kRaw && b_.languages_.nullable(node.a);
    } else if (node.kind == Kind::kRepeat) {
      productive = nullable = node.min == 0;
    } else if (node.kind == Kind::kSequence) {
      productive = nullable = n_children == 0;
    }
    if (productive) learn(i, kProductive);
    if (nullable) learn(i, kNullable);
  }

  void learn(size_t item, Fact fact) {
    if (item < first_body_) {
      Node& node = b_.parts_[item];
      bool& known = fact == kProductive ? node.productive : node.nullable;
      if (std::exchange(known, true)) return;
    } else if (item < first_object_) {
      std::vector<bool>& known = fact == kProductive ? b_.body_productive_ : b_.body_nullable_;
      if (known[item - first_body_]) return;
      known[item - first_body_] = true;
    }
    todo_.emplace_back(item, fact);
  }

  void spread() {
    while (!todo_.empty()) {
      const auto [item, fact] = todo_.back();
      todo_.pop_back();
      for (size_t u = first_user_[item]; u < first_user_[item + 1]; ++u) tell(users_[u], fact);
    }
  }

  void tell(size_t user, Fact fact) {
    b_.languages_.charge(0);
    if (user >= first_object_) {
      const size_t object = user - first_object_;
      if (fact == kProductive && !is_dirty_[object]) {
        is_dirty_[object] = true;
        dirty_.push_back(object);
      }
    } else if (user >= first_body_ || b_.parts_[user].kind != Kind::kSequence ||
               --missing_[fact][user] == 0) {
      learn(user, fact);
    }
  }

  ProgramBuilder& b_;
  // Items are parts, then procedures by their bodies, then objects.
  const size_t first_body_, first_object_, n_items_;
  std::vector<size_t> first_user_, users_;
  std::vector<uint32_t> missing_[2];  // of a sequence, by fact: parts of which it is not known
  std::vector<std::pair<size_t, Fact>> todo_;
  std::vector<bool> is_dirty_;
  std::vector<size_t> dirty_;  // objects with news of a member
};

bool ProgramBuilder::update_object(size_t index) {
  ObjectSpec& spec = objects_[index];
  const size_t n = spec.names.size();
  languages_.charge(0);
  const auto value_exists = [&](int32_t procedure) {
    return procedure >= 0 && body_productive_[static_cast<size_t>(procedure)];
  };
  ObjectSpec::Bits exists((n + 63) / 64, 0);
  for (size_t i = 0; i < n; ++i)
    if (value_exists(spec.procedures[i])) set_bit(exists, i);
  const auto all_exist = [&](const ObjectSpec::Bits& bits) {
    for (size_t w = 0; w < bits.size(); ++w)
      if (bits[w] & ~exists[w]) return false;
    return true;
  };
  spec.usable = exists;
  ObjectSpec::Bits needed = spec.required;
  if (!spec.needs.empty()) {
    for (size_t i = 0; i < n; ++i) {
      languages_.charge(0);
      if (bit(spec.required, i))
        for (size_t w = 0; w < needed.size(); ++w) needed[w] |= spec.needs[i][w];
      if (bit(exists, i) && !all_exist(spec.needs[i]))
        spec.usable[i / 64] &= ~(uint64_t{1} << (i % 64));
    }
  }
  bool any_other = false;
  for (ObjectSpec::Others& other : spec.others) {
    other.usable = value_exists(other.procedure) && languages_.live(other.names);
    any_other |= other.usable;
  }
  const bool possible = all_exist(needed) && count(needed) <= spec.max && spec.min <= spec.max &&
                        (any_other || count(spec.usable) >= spec.min);
  const bool changed = possible != object_productive_[index];
  object_productive_[index] = possible;
  return changed;
}

int32_t ProgramBuilder::use_procedure(int32_t declared, Program& program) {
  int32_t& id = procedure_of_[static_cast<size_t>(declared)];
  if (id < 0) {
    id = static_cast<int32_t>(program.procedures.size());
    program.procedures.push_back({.nullable = body_nullable_[static_cast<size_t>(declared)]});
    pending_.push_back({id, bodies_[static_cast<size_t>(declared)]});
  }
  return id;
}

bool ProgramBuilder::build(Part root, Program& program,
                           std::optional<LeftRecursion>& left_recursion) {
  Fixpoint(*this).run();
  left_recursion.reset();
  if (!at(root).productive) return false;
  procedure_of_.assign(bodies_.size(), -1);
  program = {};
  program.objects = std::move(objects_);
  program.procedures.push_back({.nullable = at(root).nullable});
  pending_ = {{0, root}};
  while (!pending_.empty()) {
    const Pending next = pending_.back();
    pending_.pop_back();
    const auto entry = static_cast<int32_t>(program.code.size());
    program.procedures[static_cast<size_t>(next.procedure)].entry = entry;
    if (next.body < 0) {
      emit_object(next, program);
    } else {
      emit(next.body, program);
      program.code.push_back({Op::kReturn});
    }
    languages_.charge((program.code.size() - static_cast<size_t>(entry)) * sizeof(Instruction) +
                      sizeof(Procedure));
  }
  const int32_t culprit = rank_procedures(program, languages_);
  if (culprit < 0) return true;
  left_recursion.emplace();
  const auto declared = std::ranges::find(procedure_of_, culprit);
  if (declared != procedure_of_.end())
    left_recursion->declared = static_cast<int32_t>(declared - procedure_of_.begin());
  return true;
}

void ProgramBuilder::emit(Part part, Program& program) {
  const Node& node = at(part);
  switch (node.kind) {
    case Kind::kLeaf:
      if (node.a != Languages::kEmptyWord || node.spelling != Spelling::kRaw)
        program.code.push_back({Op::kLeaf, node.a, static_cast<int32_t>(node.spelling)});
      break;
    case Kind::kSequence:
      for (const Part child : node.children) emit(child, program);
      break;
    case Kind::kChoice:
      emit_choice(node, program);
      break;
    case Kind::kRepeat:
      if (at(node.children[0]).productive) emit_repeat(part, program);
      break;
    case Kind::kCall: {
      const Part body = bodies_[static_cast<size_t>(node.a)];
      if (at(body).kind == Kind::kLeaf)
        emit(body, program);
      else
        program.code.push_back({Op::kCall, use_procedure(node.a, program)});
      break;
    }
    case Kind::kObject: {
      const auto id = static_cast<int32_t>(program.procedures.size());
      program.procedures.push_back({.kind = Procedure::kObject, .object = node.a});
      pending_.push_back({id, -1});
      program.code.push_back({Op::kCall, id});
      break;
    }
  }
}

void ProgramBuilder::emit_choice(const Node& node, Program& program) {
  std::vector<Part> options;
  for (const Part child : node.children)
    if (at(child).productive) options.push_back(child);
  const size_t split = program.code.size();
  const auto first_target = static_cast<int32_t>(program.targets.size());
  program.code.push_back({Op::kSplit, first_target, static_cast<int32_t>(options.size())});
  program.targets.resize(program.targets.size() + options.size());
  std::vector<size_t> exits;
  for (size_t i = 0; i < options.size(); ++i) {
    program.targets[static_cast<size_t>(first_target) + i] =
        static_cast<int32_t>(program.code.size());
    emit(options[i], program);
    exits.push_back(program.code.size());
    program.code.push_back({Op::kJump});
  }
  FLARE_ASSERT(split < program.code.size());
  for (const size_t exit : exits) program.code[exit].a = static_cast<int32_t>(program.code.size());
}

void ProgramBuilder::emit_repeat(Part part, Program& program) {
  const Node& node = at(part);
  const Part body = node.children[0];
  const bool unbounded = node.max == Languages::kInfinite;
  const bool may_skip = node.min == 0 || at(body).nullable;
  if (node.max == 1 || (unbounded && node.min <= 1)) {
    // (body)? and loops: split to the body or behind it.
    const auto targets = static_cast<int32_t>(program.targets.size());
    program.targets.resize(program.targets.size() + 2);
    const auto start = static_cast<int32_t>(program.code.size());
    if (may_skip || !unbounded) program.code.push_back({Op::kSplit, targets, 2});
    const auto body_start = static_cast<int32_t>(program.code.size());
    emit(body, program);
    if (unbounded) {
      if (may_skip)
        program.code.push_back({Op::kJump, start});
      else
        program.code.push_back({Op::kSplit, targets, 2});
    }
    program.targets[static_cast<size_t>(targets)] = body_start;
    program.targets[static_cast<size_t>(targets) + 1] = static_cast<int32_t>(program.code.size());
    return;
  }
  const auto id = static_cast<int32_t>(program.procedures.size());
  program.procedures.push_back(
      {.kind = Procedure::kCounter,
       .nullable = may_skip,
       .min = at(body).nullable ? 0 : static_cast<int32_t>(std::min<uint32_t>(node.min, INT32_MAX)),
       .max = unbounded ? -1 : static_cast<int32_t>(std::min<uint32_t>(node.max, INT32_MAX))});
  pending_.push_back({id, body});
  program.code.push_back({Op::kCount, id});
}

void ProgramBuilder::emit_object(const Pending& pending, Program& program) {
  const int32_t object = program.procedures[static_cast<size_t>(pending.procedure)].object;
  ObjectSpec& spec = program.objects[static_cast<size_t>(object)];
  make_trie(spec, languages_);
  const Lang space = languages_.letter(' ');
  const Lang newline = languages_.concat(languages_.letter('\n'), languages_.repeat(space, 0, 16));
  const Lang white = languages_.either({Languages::kEmptyWord, space, newline});
  const auto leaf = [&](Lang l) {
    program.code.push_back({Op::kLeaf, l, static_cast<int32_t>(Spelling::kRaw)});
  };
  const auto here = [&] { return static_cast<int32_t>(program.code.size()); };
  leaf(languages_.letter('{'));
  const int32_t open = here();
  program.code.push_back({Op::kMembers, object});
  const int32_t comma = here();
  leaf(languages_.concat(white, languages_.letter(',')));
  const int32_t key = here();
  leaf(white);
  program.code.push_back({Op::kKey, object});
  const int32_t close = here();
  leaf(languages_.concat(white, languages_.letter('}')));
  program.code.push_back({Op::kReturn});
  program.code[static_cast<size_t>(open)].b = close;
  program.code[static_cast<size_t>(open)].c = key;

  std::unordered_map<int32_t, int32_t> known;  // value procedure → code
  const auto value_code = [&](int32_t procedure, bool usable) -> int32_t {
    if (!usable) return -1;
    if (const auto found = known.find(procedure); found != known.end()) return found->second;
    const int32_t start = here();
    leaf(languages_.concat({white, languages_.letter(':'), white}));
    const Part body = bodies_[static_cast<size_t>(procedure)];
    if (at(body).kind == Kind::kLeaf)
      emit(body, program);
    else
      program.code.push_back({Op::kCall, use_procedure(procedure, program)});
    program.code.push_back({Op::kMembers, object, close, comma});
    known.emplace(procedure, start);
    return start;
  };
  std::vector<int32_t> codes;
  for (size_t i = 0; i < spec.names.size(); ++i)
    codes.push_back(value_code(spec.procedures[i], bit(spec.usable, i)));
  for (const ObjectSpec::Others& other : spec.others)
    codes.push_back(value_code(other.procedure, other.usable));
  spec.value_code = std::move(codes);
}

}  // namespace flare::frontend::grammar
