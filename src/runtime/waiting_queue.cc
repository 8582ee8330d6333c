// Priorities with a bound on who passes whom.
#include "runtime/waiting_queue.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace flare::runtime {

// Of those that were passed often enough the earliest comes first, whatever its priority: what
// passed a later one has passed every earlier one too, so that no count outgrows the bound.
bool goes_before(const Active& a, const Active& b) {
  const bool a_passed = a.bypassed >= kMaxBypass, b_passed = b.bypassed >= kMaxBypass;
  if (a_passed != b_passed) return a_passed;
  if (!a_passed && a.request.priority != b.request.priority)
    return a.request.priority > b.request.priority;
  return a.arrival < b.arrival;
}

void WaitingQueue::push(std::unique_ptr<Active> request) {
  const auto later = std::ranges::upper_bound(entries_, request->arrival, {},
                                              [](const auto& entry) { return entry->arrival; });
  entries_.insert(later, std::move(request));
}

size_t WaitingQueue::next() const {
  const auto first = std::ranges::min_element(
      entries_, [](const auto& a, const auto& b) { return goes_before(*a, *b); });
  return static_cast<size_t>(first - entries_.begin());
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

void WaitingQueue::each(const std::function<void(Active&)>& visit) {
  for (const auto& entry : entries_)
    if (entry) visit(*entry);  // null: moved along by an erase_if in progress
}

}  // namespace flare::runtime
