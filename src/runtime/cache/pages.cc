// Block accounting.
#include "runtime/cache/pages.h"

#include <algorithm>

#include "base/checked.h"

namespace flare::runtime {

BlockPool::BlockPool(kernel::Backend& backend, uint64_t block_bytes, uint32_t n_blocks)
    : block_bytes_(block_bytes), n_blocks_(block_bytes > 0 ? n_blocks : 0) {
  if (n_blocks_ == 0) return;
  range_ = backend.reserve(checked_mul(block_bytes, n_blocks, "block pool"));
  references_.resize(n_blocks_, 0);
}

uint32_t BlockPool::index_of(const std::byte* block) const {
  FLARE_ASSERT(range_ && block >= range_->base());
  const uint64_t index = static_cast<uint64_t>(block - range_->base()) / block_bytes_;
  FLARE_ASSERT(index < n_blocks_);
  return static_cast<uint32_t>(index);
}

std::byte* BlockPool::acquire() {
  FLARE_ASSERT(available() > 0);
  uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    index = backed_;
    range_->back(uint64_t{index} * block_bytes_, block_bytes_);
    ++backed_;
    part_ = 0;
  }
  references_[index] = 1;
  ++used_;
  return range_->base() + uint64_t{index} * block_bytes_;
}

bool BlockPool::prepare_part(uint32_t n) {
  if (free_.size() >= n || backed_ == n_blocks_) return false;
  const uint64_t bytes = std::min(kPart, block_bytes_ - part_);
  range_->back(uint64_t{backed_} * block_bytes_ + part_, bytes);
  part_ += bytes;
  if (part_ == block_bytes_) {
    free_.push_back(backed_++);
    part_ = 0;
  }
  return true;
}

void BlockPool::retain(std::byte* block) {
  const uint32_t index = index_of(block);
  FLARE_ASSERT(references_[index] > 0);
  if (++references_[index] == 2) ++shared_;
}

void BlockPool::release(std::byte* block) {
  const uint32_t index = index_of(block);
  FLARE_ASSERT(references_[index] > 0);
  if (--references_[index] == 1) --shared_;
  if (references_[index] > 0) return;
  free_.push_back(index);
  --used_;
}

}  // namespace flare::runtime
