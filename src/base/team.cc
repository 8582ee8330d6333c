// Spin-then-sleep hand-over between the caller and its workers.
#include "base/team.h"

#include <immintrin.h>

#include <exception>
#include <system_error>

#include "base/cpu.h"
#include "base/error.h"

namespace flare {
namespace {
// About 50 µs of polling: longer than the gap between two steps of a busy engine, short enough
// that an idle server sleeps. With more members than cores polling only steals time.
constexpr int kSpins = 4000;
}  // namespace

int64_t Member::take() { return team_->dealt_.fetch_add(1, std::memory_order_relaxed); }

void Member::barrier() {
  Team& team = *team_;
  if (count_ == 1) return team.dealt_.store(0, std::memory_order_relaxed);
  const uint32_t generation = team.generation_.load(std::memory_order_acquire);
  if (team.arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    team.arrived_.store(0, std::memory_order_relaxed);
    team.dealt_.store(0, std::memory_order_relaxed);
    team.generation_.fetch_add(1, std::memory_order_release);
    team.generation_.notify_all();
    return;
  }
  team.wait_for(team.generation_, generation);
}

Team::Team(int n_members)
    : n_members_(n_members),
      spin_limit_(n_members <= static_cast<int>(usable_cores().size()) ? kSpins : 0) {
  FLARE_ASSERT(n_members >= 1);
  try {
    for (int i = 1; i < n_members; ++i) threads_.emplace_back([this, i] { worker(i); });
  } catch (const std::system_error& e) {
    stop();  // those that did start would be joined for ever
    throw Error(Code::kInternal, "worker thread {} of {} cannot be started: {}",
                threads_.size() + 1, n_members - 1, e.what());
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
}

void Team::wait_for(const std::atomic<uint32_t>& word, uint32_t old_value) const {
  for (int i = 0; i < spin_limit_; ++i) {
    if (word.load(std::memory_order_acquire) != old_value) return;
    _mm_pause();
  }
  while (word.load(std::memory_order_acquire) == old_value) word.wait(old_value);
}

void Team::worker(int index) {
  uint32_t seen = 0;
  while (true) {
    wait_for(epoch_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    Member member(this, index, n_members_);
    try {
      (*work_)(member);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    member.barrier();
  }
}

void Team::run(const std::function<void(Member&)>& work) {
  Member member(this, 0, n_members_);
  if (n_members_ == 1) {
    dealt_.store(0, std::memory_order_relaxed);
    return work(member);
  }
  work_ = &work;
  failed_.store(false);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  try {
    work(member);
  } catch (...) {
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
  member.barrier();
  work_ = nullptr;
  if (failed_.load()) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::for_range(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  run([&](Member& member) {
    const auto [begin, end] = member.share(n, grain);
    if (begin < end) body(begin, end);
  });
}

}  // namespace flare
