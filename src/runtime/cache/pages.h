// Pools of equal blocks in a reserved range: KV pages and continuation rows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/backend.h"

namespace flare::runtime {

// Hands out blocks of `block_bytes`, backing memory on demand and keeping it for reuse. Confined to
// the engine thread.
class BlockPool {
 public:
  BlockPool(kernel::Backend& backend, uint64_t block_bytes, uint32_t n_blocks);

  uint32_t capacity() const { return n_blocks_; }
  uint32_t used() const { return used_; }
  uint32_t shared() const { return shared_; }  // blocks with several references
  uint32_t available() const { return n_blocks_ - used_; }
  uint64_t block_bytes() const { return block_bytes_; }
  // A block with undefined contents, reference count 1. The caller has checked available().
  std::byte* acquire();
  // Backs a part of a block more, up to kPart bytes, unless the next `n` blocks need no memory: a
  // large one takes milliseconds, tens of them where the host has to find it too. False: nothing is
  // left to do. Errors: kDoesNotFit.
  bool prepare_part(uint32_t n);
  void retain(std::byte* block);
  // Drops one reference; the last one returns the block.
  void release(std::byte* block);
  uint32_t references(const std::byte* block) const { return references_[index_of(block)]; }

 private:
  static constexpr uint64_t kPart = uint64_t{2} << 20;  // a huge page
  uint32_t index_of(const std::byte* block) const;
  uint64_t block_bytes_;
  uint32_t n_blocks_;
  uint32_t used_ = 0;
  uint32_t shared_ = 0;
  uint32_t backed_ = 0;  // blocks [0, backed_) have memory
  uint64_t part_ = 0;    // bytes of the block behind them that have
  std::unique_ptr<kernel::Range> range_;
  std::vector<uint32_t> references_;
  std::vector<uint32_t> free_;
};

}  // namespace flare::runtime
