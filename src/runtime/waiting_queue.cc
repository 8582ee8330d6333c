// Priorities with a bound on who passes whom.
#include "runtime/waiting_queue.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace flare::runtime {

void WaitingQueue::push(std::unique_ptr<Active> request) {
  const auto later = std::ranges::upper_bound(entries_, request->arrival, {},
                                              [](const auto& entry) { return entry->arrival; });
  entries_.insert(later, std::move(request));
}

// Whoever was passed as often as may be comes first. It is the earliest of those: what passed a
// later one has passed every earlier one too, so no count outgrows the bound.
size_t WaitingQueue::next() const {
  const auto passed = std::ranges::find_if(
      entries_, [](const auto& entry) { return entry->bypassed >= kMaxBypass; });
  if (passed != entries_.end()) return static_cast<size_t>(passed - entries_.begin());
  const auto highest = std::ranges::max_element(
      entries_, {}, [](const auto& entry) { return entry->request.priority; });
  return static_cast<size_t>(highest - entries_.begin());
}

Active* WaitingQueue::front() const { return entries_.empty() ? nullptr : entries_[next()].get(); }

std::unique_ptr<Active> WaitingQueue::pop() {
  FLARE_ASSERT(!entries_.empty());
  const size_t index = next();
  for (size_t i = 0; i < index; ++i) ++entries_[i]->bypassed;
  std::unique_ptr<Active> taken = std::move(entries_[index]);
  entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(index));
  return taken;
}

void WaitingQueue::erase_if(const std::function<bool(Active&)>& gone) {
  std::erase_if(entries_, [&gone](const auto& entry) { return gone(*entry); });
}

}  // namespace flare::runtime
