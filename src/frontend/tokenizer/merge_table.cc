// Merging: by scanning for short lists, with a heap over a linked list for long ones.
#include "frontend/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"

namespace flare::frontend::tokenizer {

namespace {

// Up to this many symbols the quadratic scan is faster than the heap.
constexpr size_t kShort = 64;

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
size_t pair_slot(uint64_t pair, size_t mask) {
  const uint64_t h = pair * 0x9E3779B97F4A7C15u;
  return (h ^ h >> 32) & mask;
}

}  // namespace

MergeTable::MergeTable(size_t count) : merges_(std::bit_ceil(count * 2 + 2)) {}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t id) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) slot = (slot + 1) & mask;
  merges_[slot] = {pair, rank, id};
}

const MergeTable::Merge& MergeTable::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (merges_[slot].pair != pair && merges_[slot].pair != kNoPair) slot = (slot + 1) & mask;
  return merges_[slot];
}

void MergeTable::add_joint(int32_t left, int32_t right) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = joints_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (joints_[slot] != kNoPair && joints_[slot] != pair) slot = (slot + 1) & mask;
  joints_[slot] = pair;
}

bool MergeTable::may_join(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = joints_.size() - 1;
  size_t slot = pair_slot(pair, mask);
  while (joints_[slot] != pair && joints_[slot] != kNoPair) slot = (slot + 1) & mask;
  return joints_[slot] == pair;
}

void MergeTable::append_merged(std::span<int32_t> symbols, std::vector<int32_t>& out,
                               MergeScratch& scratch) const {
  for (size_t begin = 0; begin < symbols.size();) {
    size_t end = symbols.size();
    if (end > kShort && !joints_.empty())
      for (end = begin + 1; end < symbols.size(); ++end)
        if (!may_join(symbols[end - 1], symbols[end])) break;
    const std::span<int32_t> part = symbols.subspan(begin, end - begin);
    const size_t left = merge(part, scratch);
    out.insert(out.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(left));
    begin = end;
  }
}

size_t MergeTable::merge(std::span<int32_t> symbols, MergeScratch& scratch) const {
  return symbols.size() <= kShort ? merge_short(symbols, scratch) : merge_long(symbols, scratch);
}

size_t MergeTable::merge_short(std::span<int32_t> symbols, MergeScratch& scratch) const {
  std::vector<uint32_t>& ranks = scratch.ranks;  // of the pair that begins here
  size_t count = symbols.size();
  if (count < 2) return count;
  ranks.resize(count - 1);
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = find(symbols[i], symbols[i + 1]).rank;
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNoRank) break;
    symbols[best] = find(symbols[best], symbols[best + 1]).id;
    std::copy(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + (count - 1), ranks.begin() + best);
    --count;
    if (best + 1 < count) ranks[best] = find(symbols[best], symbols[best + 1]).rank;
    if (best > 0) ranks[best - 1] = find(symbols[best - 1], symbols[best]).rank;
  }
  return count;
}

size_t MergeTable::merge_long(std::span<int32_t> symbols, MergeScratch& scratch) const {
  std::vector<uint64_t>& heap = scratch.heap;  // rank and position of a pair; the smallest on top
  if (symbols.size() > INT32_MAX)
    throw Error(Code::kInvalid, "tokenizer: a piece of {} symbols, less than 2^31 expected",
                symbols.size());
  const auto count = static_cast<int32_t>(symbols.size());
  scratch.previous.resize(symbols.size());
  scratch.next.resize(symbols.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    scratch.previous[i] = i - 1;
    scratch.next[i] = i + 1 < count ? i + 1 : -1;
  }
  const auto entry = [&](int32_t at) -> uint64_t {
    const int32_t right = at < 0 ? -1 : scratch.next[at];
    if (right < 0) return kNoPair;
    const uint32_t rank = find(symbols[at], symbols[right]).rank;
    return rank == kNoRank ? kNoPair : uint64_t{rank} << 32 | static_cast<uint32_t>(at);
  };
  const auto push = [&](int32_t at) {
    const uint64_t value = entry(at);
    if (value == kNoPair) return;
    heap.push_back(value);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i + 1 < count; ++i)
    if (const uint64_t value = entry(i); value != kNoPair) heap.push_back(value);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  constexpr int32_t kGone = INT32_MIN;
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<int32_t>(top & 0xFFFFFFFFu);
    // Entries go stale when a neighbour merges first.
    if (symbols[at] == kGone || entry(at) != top) continue;
    const int32_t right = scratch.next[at];
    symbols[at] = find(symbols[at], symbols[right]).id;
    symbols[right] = kGone;
    scratch.next[at] = scratch.next[right];
    if (scratch.next[at] >= 0) scratch.previous[scratch.next[at]] = at;
    push(at);
    push(scratch.previous[at]);
  }
  return std::remove(symbols.begin(), symbols.end(), kGone) - symbols.begin();
}

}  // namespace flare::frontend::tokenizer
