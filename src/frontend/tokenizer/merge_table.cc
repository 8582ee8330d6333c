// Merging: by scanning for short lists, in rounds for long ones, and with a heap over a linked list
// where a round joins little.
#include "frontend/tokenizer/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"

namespace flare::frontend::tokenizer {

namespace {

// Up to this many symbols the quadratic scan is fastest.
constexpr size_t kShort = 64;
static_assert(MergeTable::kRanks <= (uint64_t{1} << 32) / kShort);

// A round that joins less than one of so many symbols is the last: so rounds cost no more than
// so many looks at each symbol.
constexpr size_t kPoorRound = 16;

}  // namespace

MergeTable::MergeTable(size_t count)
    : merges_(std::bit_ceil(count + count / 3 + 2)),
      filter_(std::max<size_t>(1, std::bit_ceil(count * 12) / 64)) {}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t id) {
  FLARE_ASSERT(rank < kRanks);
  const uint64_t pair = pair_of(left, right), hash = hash_of(pair);
  filter_[filter_word(hash)] |= uint64_t{1} << (hash & 63);
  size_t slot = slot_of(hash);
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) slot = next_slot(slot);
  merges_[slot] = {pair, rank, id};
}

void MergeTable::add_joint(int32_t left, int32_t right) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = joints_.size() - 1;
  size_t slot = hash_of(pair) & mask;
  while (joints_[slot] != kNoPair && joints_[slot] != pair) slot = (slot + 1) & mask;
  joints_[slot] = pair;
}

bool MergeTable::may_join(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = joints_.size() - 1;
  size_t slot = hash_of(pair) & mask;
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
  return symbols.size() <= kShort ? merge_short(symbols) : merge_in_rounds(symbols, scratch);
}

// Ranks and places in one number, so that the least of them is the next merge; places that are gone
// stay where they are.
size_t MergeTable::merge_short(std::span<int32_t> symbols) const {
  constexpr uint32_t kGone = ~uint32_t{0};
  const size_t count = symbols.size(), padded = (count + 3) / 4 * 4;
  if (count < 2) return count;
  std::array<uint32_t, kShort> keys;  // of the pair that begins here
  std::array<int32_t, kShort> ids;    // of what it becomes
  std::array<uint8_t, kShort + 1> next, previous;
  const auto renew = [&](size_t at, size_t right) {
    const Merge& merge = find(symbols[at], symbols[right]);
    keys[at] = merge.rank == kNoRank ? kGone : merge.rank * kShort + static_cast<uint32_t>(at);
    ids[at] = merge.id;
  };
  for (size_t i = 0; i < count; ++i) {
    next[i] = static_cast<uint8_t>(i + 1);
    previous[i + 1] = static_cast<uint8_t>(i);
    if (i + 1 < count) renew(i, i + 1);
  }
  std::fill(keys.begin() + (count - 1), keys.begin() + padded, kGone);
  while (true) {
    uint32_t best = kGone;
    for (size_t i = 0; i < padded; ++i) best = std::min(best, keys[i]);
    if (best == kGone) break;
    const size_t at = best % kShort, right = next[at], behind = next[right];
    symbols[at] = ids[at];
    next[at] = static_cast<uint8_t>(behind);
    previous[behind] = static_cast<uint8_t>(at);
    keys[right] = kGone;
    if (behind < count)
      renew(at, behind);
    else
      keys[at] = kGone;
    if (at > 0) renew(previous[at], at);
  }
  size_t left = 0;
  for (size_t at = 0; at < count; at = next[at]) symbols[left++] = symbols[at];
  return left;
}

// Looks that find the same pair again and again, as in runs of one character.
class MergeTable::Remembered {
 public:
  explicit Remembered(const MergeTable& table) : table_(table) {}

  const Merge& find(int32_t left, int32_t right) {
    const uint64_t pair = pair_of(left, right);
    if (pair != pair_) {
      pair_ = pair;
      merge_ = &table_.find(left, right);
    }
    return *merge_;
  }

 private:
  const MergeTable& table_;
  uint64_t pair_ = kNoPair;
  const Merge* merge_ = nullptr;
};

// A round joins all pairs of the lowest rank from left to right, unless that makes a pair which
// goes before the next of them.
size_t MergeTable::merge_in_rounds(std::span<int32_t> symbols, MergeScratch& scratch) const {
  std::vector<uint32_t>& ranks = scratch.ranks;  // of the pair that begins here
  size_t count = symbols.size();
  ranks.resize(count);
  Remembered pairs(*this), before(*this), behind(*this);
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = pairs.find(symbols[i], symbols[i + 1]).rank;
  while (count > 1) {
    const uint32_t best = *std::min_element(ranks.begin(), ranks.begin() + (count - 1));
    if (best == kNoRank) return count;
    size_t to = 0, from = 0;
    for (bool in_order = true; from < count && in_order; ++to) {
      if (from + 1 == count || ranks[from] != best) {
        symbols[to] = symbols[from];
        ranks[to] = ranks[from++];
        continue;
      }
      const int32_t id = pairs.find(symbols[from], symbols[from + 1]).id;
      symbols[to] = id;
      from += 2;
      if (from < count) {
        ranks[to] = behind.find(id, symbols[from]).rank;
        in_order = ranks[to] > best;
      }
      if (to > 0) {
        ranks[to - 1] = before.find(symbols[to - 1], id).rank;
        in_order = in_order && ranks[to - 1] > best;
      }
    }
    std::copy(symbols.begin() + from, symbols.begin() + count, symbols.begin() + to);
    std::copy(ranks.begin() + from, ranks.begin() + count, ranks.begin() + to);
    const size_t joined = from - to;
    count -= joined;
    if (joined * kPoorRound < count) break;
  }
  return count <= kShort ? merge_short(symbols.first(count))
                         : merge_long(symbols.first(count), scratch);
}

// The pairs of a long list, by rank and then by place. Places of one rank that come in ascending
// order are one batch, and only the next of each batch is in the heap: runs of one character, which
// make few batches, cost no search.
class MergeTable::Queue {
 public:
  explicit Queue(MergeScratch& scratch) : scratch_(scratch) {
    scratch_.heap.clear();
    scratch_.batches.clear();
    scratch_.links.clear();
  }

  void push(uint32_t rank, int32_t at) {
    const auto link = static_cast<uint32_t>(scratch_.links.size());
    scratch_.links.push_back({at, kFree});
    for (uint32_t& slot : open_) {
      if (slot == kFree) break;
      MergeScratch::Batch& batch = scratch_.batches[slot];
      if (batch.rank != rank) continue;
      if (scratch_.links[batch.last].place < at) {
        scratch_.links[batch.last].next = link;
        batch.last = link;
        return;
      }
      slot = new_batch(rank, link, at);
      return;
    }
    std::rotate(std::begin(open_), std::end(open_) - 1, std::end(open_));
    open_[0] = new_batch(rank, link, at);
  }

  // Takes the first pair away; false if there is none.
  bool pop(uint32_t& rank, int32_t& at) {
    std::vector<MergeScratch::Entry>& heap = scratch_.heap;
    if (heap.empty()) return false;
    rank = static_cast<uint32_t>(heap[0].key >> 32);
    at = static_cast<int32_t>(heap[0].key & 0xFFFFFFFFu);
    MergeScratch::Batch& batch = scratch_.batches[heap[0].batch];
    batch.first = scratch_.links[batch.first].next;
    if (batch.first == kFree) {
      batch.rank = kNoRank;  // closed: nothing is added any more
      heap[0] = heap.back();
      heap.pop_back();
    } else {
      heap[0].key = key(rank, scratch_.links[batch.first].place);
    }
    if (!heap.empty()) sink();
    return true;
  }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};
  static uint64_t key(uint32_t rank, int32_t at) {
    return uint64_t{rank} << 32 | static_cast<uint32_t>(at);
  }

  uint32_t new_batch(uint32_t rank, uint32_t link, int32_t at) {
    const auto out = static_cast<uint32_t>(scratch_.batches.size());
    scratch_.batches.push_back({rank, link, link});
    std::vector<MergeScratch::Entry>& heap = scratch_.heap;
    heap.push_back({key(rank, at), out});
    size_t i = heap.size() - 1;
    while (i > 0 && heap[(i - 1) / 2].key > heap[i].key) {
      std::swap(heap[(i - 1) / 2], heap[i]);
      i = (i - 1) / 2;
    }
    return out;
  }
  void sink() {
    std::vector<MergeScratch::Entry>& heap = scratch_.heap;
    const MergeScratch::Entry moved = heap[0];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap.size(); i = child) {
      if (child + 1 < heap.size() && heap[child + 1].key < heap[child].key) ++child;
      if (moved.key <= heap[child].key) break;
      heap[i] = heap[child];
    }
    heap[i] = moved;
  }

  MergeScratch& scratch_;
  uint32_t open_[4] = {kFree, kFree, kFree, kFree};  // batches that may grow, newest first
};

size_t MergeTable::merge_long(std::span<int32_t> symbols, MergeScratch& scratch) const {
  if (symbols.size() > INT32_MAX)
    throw Error(Code::kInvalid, "tokenizer: a piece of {} symbols, less than 2^31 expected",
                symbols.size());
  constexpr int32_t kGone = INT32_MIN;
  const auto count = static_cast<int32_t>(symbols.size());
  std::vector<MergeScratch::Pair>& pairs = scratch.pairs;  // the pair that begins here
  pairs.resize(symbols.size());
  scratch.previous.resize(symbols.size());
  scratch.next.resize(symbols.size());
  Queue queue(scratch);
  const auto renew = [&](int32_t at) {
    const int32_t right = scratch.next[at];
    pairs[at].rank = kNoRank;
    if (right < 0) return;
    const Merge& merge = find(symbols[at], symbols[right]);
    pairs[at] = {merge.rank, merge.id};
    if (merge.rank != kNoRank) queue.push(merge.rank, at);
  };
  for (int32_t i = 0; i < count; ++i) {
    scratch.previous[i] = i - 1;
    scratch.next[i] = i + 1 < count ? i + 1 : -1;
    renew(i);
  }
  uint32_t rank = 0;
  for (int32_t at = 0; queue.pop(rank, at);) {
    if (pairs[at].rank != rank) continue;  // a neighbour merged first
    const int32_t right = scratch.next[at];
    symbols[at] = pairs[at].id;
    symbols[right] = kGone;
    pairs[right].rank = kNoRank;
    scratch.next[at] = scratch.next[right];
    if (scratch.next[at] >= 0) scratch.previous[scratch.next[at]] = at;
    renew(at);
    if (scratch.previous[at] >= 0) renew(scratch.previous[at]);
  }
  constexpr size_t kKept = 1 << 16;  // what may stay for the next list
  if (scratch.links.capacity() > kKept) {
    scratch.links = {};
    scratch.batches = {};
    scratch.heap = {};
  }
  return std::remove(symbols.begin(), symbols.end(), kGone) - symbols.begin();
}

}  // namespace flare::frontend::tokenizer
