// The two interfaces that the service fills from `frontend`: what may be drawn, and what is kept.
#pragma once

#include <cstdint>
#include <span>

namespace flare::runtime {

// Restricts the next token. Confined to the engine thread.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // Sets bit id of `mask` (ceil(V/32) words, zero at entry) for every legal next id. Returns false
  // if everything is legal (the mask is then ignored). No bit set is a dead end.
  virtual bool fill_mask(std::span<uint32_t> mask) = 0;
  virtual void advance(int32_t token) = 0;
  // Undoes the last n advances.
  virtual void rollback(int n) = 0;
};

// Decides how many of the offered tokens stay in the answer. Confined to the engine thread.
class OutputGate {
 public:
  struct Verdict {
    int kept = 0;       // of the offered tokens, from the front
    bool stop = false;  // the answer ends behind the kept ones
  };
  virtual ~OutputGate() = default;
  // Looks at tokens that are about to be committed; changes nothing.
  virtual Verdict preview(std::span<const int32_t> offered) = 0;
  // The first `kept` offered tokens of the last preview are part of the answer now.
  virtual void commit(int kept) = 0;
};

}  // namespace flare::runtime
