// The order in which entries of a cache leave it: the least worth first, then the longest unused.
#pragma once

#include <cstdint>
#include <map>

#include "base/error.h"

namespace flare::runtime {

// Where an entry stands in the order; smaller goes first.
struct EvictionRank {
  bool kept = false;  // goes only when nothing else is left
  double worth = 0;   // GreedyDual-Size: the clock at its last use plus its cost per byte
  uint64_t use = 0;   // number of its last use; differs for all entries
  auto operator<=>(const EvictionRank&) const = default;
};

// Entries by rank. Every operation takes logarithmic time. T has `EvictionRank rank` and
// `bool ordered`, which this class alone writes while the entry is in the order.
template <typename T>
class EvictionOrder {
 public:
  void insert(T& entry) {
    FLARE_ASSERT(!entry.ordered);
    entry.ordered = entries_.emplace(entry.rank, &entry).second;
    FLARE_ASSERT(entry.ordered);
  }
  void erase(T& entry) {
    if (!entry.ordered) return;
    FLARE_ASSERT(entries_.erase(entry.rank) == 1);
    entry.ordered = false;
  }
  // Gives an entry another rank, whether it is in the order or not.
  void set_rank(T& entry, const EvictionRank& rank) {
    const bool ordered = entry.ordered;
    erase(entry);
    entry.rank = rank;
    if (ordered) insert(entry);
  }
  // The first entry that `may_go`; null if there is none.
  template <typename MayGo>
  T* first(MayGo may_go) const {
    for (const auto& [rank, entry] : entries_)
      if (may_go(*entry)) return entry;
    return nullptr;
  }
  size_t size() const { return entries_.size(); }

 private:
  std::map<EvictionRank, T*> entries_;
};

}  // namespace flare::runtime
