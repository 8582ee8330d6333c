// The order in which waiting requests get their turn.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/active.h"

namespace flare::runtime {

// Higher priority first, then arrival; but nobody is passed by more than kMaxBypass that came later
// (serving.md S9.2). Confined to the engine thread.
class WaitingQueue {
 public:
  static constexpr uint32_t kMaxBypass = 8;

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  void push(std::unique_ptr<Active> request);
  // Whose turn it is; null if nobody waits.
  Active* front() const;
  // Takes that one out; those before it in arrival have been passed once more.
  std::unique_ptr<Active> pop();
  // Calls `gone` for everyone, in order of arrival, and drops those for whom it is true.
  void erase_if(const std::function<bool(Active&)>& gone);

 private:
  size_t next() const;
  std::vector<std::unique_ptr<Active>> entries_;  // by arrival
};

}  // namespace flare::runtime
