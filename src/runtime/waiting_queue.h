// The order in which waiting requests get their turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/active.h"

namespace flare::runtime {

// Nobody is passed by more that came later (serving.md S9.2).
inline constexpr uint32_t kMaxBypass = 8;

// Whether a's claim on a place and on memory is the stronger: who was passed as often as may be,
// then higher priority, then arrival.
bool goes_before(const Active& a, const Active& b);

// Requests that have no place: new ones, and those that had to give theirs up. Confined to the
// engine thread.
class WaitingQueue {
 public:
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  void push(std::unique_ptr<Active> request);
  // Whose turn it is; null if nobody waits.
  Active* front() const;
  // Takes that one out; those before it in arrival have been passed once more.
  std::unique_ptr<Active> pop();
  // Calls `gone` for everyone, in order of arrival, and drops those for whom it is true. Within it
  // each() may be called, nothing else.
  void erase_if(const std::function<bool(Active&)>& gone);
  void each(const std::function<void(Active&)>& visit);

 private:
  size_t next() const;
  std::vector<std::unique_ptr<Active>> entries_;  // by arrival
};

}  // namespace flare::runtime
