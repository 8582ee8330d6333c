// Spin-then-sleep hand-over between the caller and its workers.
#include "base/team.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <limits>
#include <system_error>

#include "base/cpu.h"
#include "base/error.h"

namespace flare {
namespace {

// How long a member looks at the word before it gives its core away, and how often it does that
// before it sleeps. Longer than the gap between two launches, and than that between two steps of a
// busy engine; short beside a time slice, which polling would burn if the others are held up.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kYields = 4;

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  static_assert(sizeof word == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
  // A wait ends without a wake-up too (the word changed, a signal): its callers look again.
  ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

bool changes_while_spinning(const std::atomic<uint32_t>& word, uint32_t old_value) {
  constexpr int kLooks = 32;  // between two looks at the clock, which costs as much as two of them
  const auto look = [&] {
    for (int i = 0; i < kLooks; ++i) {
      if (word.load(std::memory_order_acquire) != old_value) return true;
      _mm_pause();
    }
    return false;
  };
  if (look()) return true;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (std::chrono::steady_clock::now() < end)
    if (look()) return true;
  for (int i = 0; i < kYields; ++i) {
    ::sched_yield();
    if (look()) return true;
  }
  return false;
}

bool pin_thread(pthread_t thread, int core) {
  std::vector<cpu_set_t> set(static_cast<size_t>(core / CPU_SETSIZE + 1));
  const size_t bytes = set.size() * sizeof(cpu_set_t);
  CPU_SET_S(core, bytes, set.data());
  return ::pthread_setaffinity_np(thread, bytes, set.data()) == 0;
}

}  // namespace

void Team::Signal::raise() {
  // Sequentially consistent on both sides: either this sees the sleeper, or the sleeper the word.
  word.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0)
    futex(word, FUTEX_WAKE, std::numeric_limits<int>::max());
}

void Team::Signal::wait(uint32_t old_value, bool spins) {
  if (spins && changes_while_spinning(word, old_value)) return;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (word.load(std::memory_order_seq_cst) == old_value) futex(word, FUTEX_WAIT, old_value);
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

int64_t Member::take() { return team_->dealt_.fetch_add(1, std::memory_order_relaxed); }

void Member::barrier() {
  Team& team = *team_;
  if (count_ == 1) return team.dealt_.store(0, std::memory_order_relaxed);
  const uint32_t generation = team.opened_.word.load(std::memory_order_acquire);
  if (team.arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    team.arrived_.store(0, std::memory_order_relaxed);
    team.dealt_.store(0, std::memory_order_relaxed);
    team.opened_.raise();
    return;
  }
  team.opened_.wait(generation, team.spins_);
}

Team::Team(int n_members)
    : n_members_(n_members),
      cores_(own_cores()),
      spins_(n_members <= static_cast<int>(usable_cores().size())) {
  FLARE_ASSERT(n_members >= 1);
  try {
    for (int i = 1; i < n_members; ++i) threads_.emplace_back([this, i] { worker(i); });
  } catch (const std::system_error& e) {
    stop();  // those that did start would be joined for ever
    throw Error(Code::kDoesNotFit, "{} threads: only {} can be started: {}", n_members,
                threads_.size() + 1, e.code().message())
        .set_hint("lower --threads, or raise the limit of processes (ulimit -u)");
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  started_.raise();
}

bool Team::pin() {
  if (n_members_ != static_cast<int>(cores_.size())) return false;
  bool all = pin_thread(::pthread_self(), cores_[0]);
  for (size_t i = 0; i < threads_.size(); ++i)
    all = pin_thread(threads_[i].native_handle(), cores_[i + 1]) && all;
  return all;
}

void Team::worker(int index) {
  uint32_t seen = 0;
  while (true) {
    started_.wait(seen, spins_);
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
  started_.raise();
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
