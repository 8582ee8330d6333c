// A grammar as code for the machine: leaves that match letters, calls, counters and objects.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "frontend/grammar/language.h"

namespace flare::frontend::grammar {

// How the letters of a leaf are written as bytes.
enum class Spelling : uint8_t {
  kRaw,   // UTF-8
  kJson,  // a JSON string: quotes, UTF-8 and escapes
  kKey    // the same, of a member name
};

enum class Op : uint8_t {
  kLeaf,     // a: language, b: spelling; then the next instruction
  kSplit,    // goes on at targets[a .. a+b)
  kJump,     // to a
  kCall,     // procedure a, then the next instruction
  kCount,    // procedure a between its bounds, then the next instruction
  kMembers,  // of object a: to b if it may close, to c if another member may follow
  kKey,      // a member name of object a, then where its value is read
  kReturn
};
struct Instruction {
  Op op;
  int32_t a = 0, b = 0, c = 0;
};

// What an object may hold. Names are in ascending order of code points.
struct ObjectSpec {
  using Bits = std::vector<uint64_t>;
  // A name by its letters: below a node are the names [first, last).
  struct TrieNode {
    std::vector<std::pair<CodePoint, int32_t>> children;  // ascending
    int32_t first = 0, last = 0;
    int32_t name = -1;  // that ends here
  };
  // Names that are not listed, by their language; disjoint.
  struct Others {
    Lang names;
    int32_t procedure;
    bool usable = true;
  };
  std::vector<std::u32string> names;
  std::vector<int32_t> procedures;  // of the value of each name
  std::vector<Others> others;
  Bits required;
  std::vector<Bits>
      needs;    // of each name, closed, itself included; empty without dependentRequired
  Bits usable;  // names whose value can exist
  uint32_t min = 0, max = UINT32_MAX;
  std::vector<TrieNode> trie;
  std::vector<int32_t> value_code;  // per name, then per others: where the value is read
};

inline bool bit(const ObjectSpec::Bits& bits, size_t i) { return bits[i / 64] >> (i % 64) & 1; }
inline void set_bit(ObjectSpec::Bits& bits, size_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
inline size_t count(const ObjectSpec::Bits& bits) {
  size_t n = 0;
  for (const uint64_t word : bits) n += static_cast<size_t>(std::popcount(word));
  return n;
}

struct Procedure {
  enum Kind : uint8_t { kPlain, kCounter, kObject } kind = kPlain;
  int32_t entry = 0;
  int32_t rank = 0;  // callers that call before any letter come first
  bool nullable = false;
  int32_t min = 0, max = -1;  // of a counter; -1: no bound
  int32_t object = -1;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<int32_t> targets;
  std::vector<Procedure> procedures;
  std::vector<ObjectSpec> objects;
  int32_t root = 0;  // procedure
};

// Makes programs from trees of parts. Confined to one thread.
class ProgramBuilder {
 public:
  using Part = int32_t;

  explicit ProgramBuilder(Languages& languages) : languages_(languages) {}

  Languages& languages() { return languages_; }
  Part leaf(Lang language, Spelling spelling = Spelling::kRaw);
  Part sequence(std::vector<Part> parts);
  Part choice(std::vector<Part> options);
  Part repeat(Part body, uint32_t min, uint32_t max);
  Part call(int32_t procedure);
  Part object(ObjectSpec spec);
  Part nothing() { return leaf(Languages::kNothing); }
  // The language of a part that is one raw leaf, -1 otherwise.
  Lang as_language(Part part) const;

  int32_t declare() {
    bodies_.push_back(-1);
    return static_cast<int32_t>(bodies_.size() - 1);
  }
  void define(int32_t procedure, Part body) { bodies_[static_cast<size_t>(procedure)] = body; }

  size_t n_parts() const { return parts_.size(); }

  // A way from a procedure back to itself before any letter.
  struct LeftRecursion {
    int32_t declared = -1;  // one of those on it; -1: none of them was declared
  };
  // The program whose whole text is `root`. False if no text matches. Sets left_recursion instead
  // if there is one.
  bool build(Part root, Program& program, std::optional<LeftRecursion>& left_recursion);

 private:
  enum class Kind : uint8_t { kLeaf, kSequence, kChoice, kRepeat, kCall, kObject };
  struct Node {
    Kind kind;
    Spelling spelling = Spelling::kRaw;
    int32_t a = 0;  // language, procedure, object
    uint32_t min = 0, max = 0;
    std::vector<Part> children = {};
    bool productive = false, nullable = false;
    int32_t counter = -1;  // procedure of a counted body
  };

  struct Pending {  // a procedure whose code is still to be written
    int32_t procedure;
    Part body;  // -1: an object
  };

  const Node& at(Part p) const { return parts_[static_cast<size_t>(p)]; }
  Part add(Node node);
  class Fixpoint;
  bool update_object(size_t index);
  int32_t use_procedure(int32_t declared, Program& program);
  void emit(Part part, Program& program);
  void emit_choice(const Node& node, Program& program);
  void emit_repeat(Part part, Program& program);
  void emit_object(const Pending& pending, Program& program);

  Languages& languages_;
  std::vector<Node> parts_;
  std::vector<Part> bodies_;  // of declared procedures
  std::vector<ObjectSpec> objects_;
  std::vector<bool> object_productive_;
  std::vector<bool> body_productive_, body_nullable_;
  std::vector<int32_t> procedure_of_;  // declared → program, -1: not used yet
  std::vector<Pending> pending_;
};

}  // namespace flare::frontend::grammar
