// Filling the table of joints.
#include "frontend/tokenizer/joints.h"

#include <utility>

namespace flare::frontend::tokenizer {

Joints::Joints() : near_(kNear * kRowWords), pairs_(64, kNone) {}

void Joints::add(char32_t left, char32_t right) {
  const uint32_t l = near_index(left), r = near_index(right);
  if (l < kNear && r < kNear)
    near_[l * kRowWords + r / 64] |= uint64_t{1} << r % 64;
  else
    put(pair_of(left, right));
}

void Joints::put(uint64_t pair) {
  size_t slot = slot_of(pair);
  while (pairs_[slot] != kNone && pairs_[slot] != pair) slot = (slot + 1) & (pairs_.size() - 1);
  if (pairs_[slot] == pair) return;
  pairs_[slot] = pair;
  if (++n_pairs_ * 2 > pairs_.size()) grow();
}

void Joints::grow() {
  const std::vector<uint64_t> old =
      std::exchange(pairs_, std::vector<uint64_t>(pairs_.size() * 4, kNone));
  n_pairs_ = 0;
  for (const uint64_t pair : old)
    if (pair != kNone) put(pair);
}

}  // namespace flare::frontend::tokenizer
