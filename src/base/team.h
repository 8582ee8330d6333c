// A worker team: a fixed set of threads that run one function together, with the caller as member
// 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace flare {

class Team;

// One member's view of a running team. Confined to its thread.
class Member {
 public:
  Member(Team* team, int index, int count) : team_(team), index_(index), count_(count) {}
  int index() const { return index_; }
  int count() const { return count_; }
  // Returns when every member has called it. Everything written before is visible after.
  void barrier();
  // The next of the items that the team deals out since the last barrier: 0, 1, 2, … each to one
  // member, in the order of asking. The caller stops at its own count. A member that is held up
  // thus delays one item, not its share.
  int64_t take();
  // This member's contiguous share of [0, n), in multiples of `grain`: the same for the same
  // (n, grain, count), so results do not depend on timing.
  std::pair<int64_t, int64_t> share(int64_t n, int64_t grain = 1) const {
    const int64_t blocks = (n + grain - 1) / grain;
    const int64_t begin = blocks * index_ / count_ * grain;
    const int64_t end = blocks * (index_ + 1) / count_ * grain;
    return {begin < n ? begin : n, end < n ? end : n};
  }

 private:
  Team* team_;
  int index_;
  int count_;
};

// Thread rule: run() is called by one thread at a time, which becomes member 0. A member that
// waits, for the next run or at a barrier, polls for some 50 µs, offers its core to others and then
// sleeps: an idle team costs nothing, and a held-up member no more than that. With more members
// than usable cores nobody polls.
class Team {
 public:
  // n_members >= 1; n_members − 1 threads are started. Errors: kDoesNotFit if the system refuses
  // one.
  explicit Team(int n_members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return n_members_; }
  // Gives every member a core of its own to stay on: the workers, and the calling thread, which is
  // to be member 0 for the rest of its life, so threads that it starts later stay there too. Only
  // if there is exactly one member for each of own_cores() (at construction): with fewer the system
  // places them better, because two programs would choose the same cores. False if not, or if the
  // system refused one; the team works all the same, and also if somebody moves its threads later.
  bool pin();
  // Runs `work` once on every member and returns when all are done. The first exception thrown by
  // a member is rethrown here; a member must not throw between barriers that others wait at.
  void run(const std::function<void(Member&)>& work);
  // Splits [0, n) into contiguous shares in multiples of `grain` and runs body(begin, end).
  void for_range(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  friend class Member;
  static constexpr size_t kLine = 64;  // what members write apart stands in lines of its own
  // A counter to wait for. Its users know what value they have seen.
  struct alignas(kLine) Signal {
    std::atomic<uint32_t> word{0};
    std::atomic<int> sleepers{0};
    void raise();
    void wait(uint32_t old_value, bool spins);
  };
  void worker(int index);
  void stop();

  const int n_members_;
  const std::vector<int> cores_;
  const bool spins_;
  std::atomic<bool> stopping_{false};
  const std::function<void(Member&)>* work_ = nullptr;  // valid during a run
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  Signal started_;                                // raised to start a run
  Signal opened_;                                 // raised when a barrier opens
  alignas(kLine) std::atomic<int> arrived_{0};    // members at the current barrier
  alignas(kLine) std::atomic<int64_t> dealt_{0};  // items taken since the last barrier
  alignas(kLine) std::vector<std::jthread> threads_;
};

}  // namespace flare
