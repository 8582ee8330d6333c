// Page moves of one sequence.
#include "runtime/cache/sequence.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace flare::runtime {

SequenceMemory::SequenceMemory(const package::Rank& rank, BlockPool& rows, BlockPool& pages)
    : rank_(&rank), rows_(&rows), pages_(&pages) {
  if (rank.row.bytes == 0) return;
  row_ = rows.acquire();
  // A reused row still holds its last sequence. The open page needs no clearing: only slots that
  // were written are read.
  for (const package::RowField& f : rank.row.fields)
    if (f.kind != package::RowField::Kind::kPartialPage) std::memset(row_ + f.offset, 0, f.bytes);
}

SequenceMemory::SequenceMemory(SequenceMemory&& other) noexcept
    : rank_(other.rank_),
      rows_(other.rows_),
      pages_(other.pages_),
      row_(std::exchange(other.row_, nullptr)),
      computed_(other.computed_),
      table_(std::move(other.table_)),
      owned_(std::exchange(other.owned_, {})) {}

SequenceMemory::~SequenceMemory() {
  for (std::byte* page : owned_) pages_->release(page);
  if (row_) rows_->release(row_);
}

uint32_t SequenceMemory::pages_to_fill(uint32_t n_rows) const {
  if (rank_->page.bytes == 0) return 0;
  const uint32_t tokens = rank_->page.tokens;
  return (computed_ + n_rows) / tokens - static_cast<uint32_t>(owned_.size());
}

void SequenceMemory::prepare_rows(uint32_t n_rows) {
  if (rank_->page.bytes == 0 || n_rows == 0) return;
  const uint32_t tokens = rank_->page.tokens;
  std::byte* const open = row_ + *rank_->row.partial_page;
  const uint32_t n_full = (computed_ + n_rows) / tokens;
  while (owned_.size() < n_full) {
    std::byte* page = pages_->acquire();
    const uint32_t index = static_cast<uint32_t>(owned_.size());
    const bool holds_open_tokens = index == computed_ / tokens && computed_ % tokens != 0;
    if (holds_open_tokens) std::memcpy(page, open, rank_->page.bytes);
    owned_.push_back(page);
  }
  table_ = owned_;
  if ((computed_ + n_rows) % tokens != 0) table_.push_back(open);
}

void SequenceMemory::adopt(std::span<std::byte* const> pages, const std::byte* row,
                           uint32_t computed) {
  FLARE_ASSERT(computed_ == 0 && owned_.empty());
  for (std::byte* page : pages) {
    pages_->retain(page);
    owned_.push_back(page);
  }
  table_ = owned_;
  if (row != nullptr) std::memcpy(row_, row, rank_->row.bytes);
  computed_ = computed;
}

void SequenceMemory::share_page(uint32_t index, std::byte* page) {
  pages_->retain(page);
  pages_->release(owned_[index]);
  owned_[index] = table_[index] = page;
}

SequenceMemory::Mark SequenceMemory::mark() const {
  return {computed_, std::vector<std::byte>(row_, row_ + (row_ ? rank_->row.bytes : 0))};
}

void SequenceMemory::return_to(const Mark& mark) {
  FLARE_ASSERT(mark.computed <= computed_);
  std::ranges::copy(mark.row, row_);
  computed_ = mark.computed;
  const size_t n_full = rank_->page.bytes == 0 ? 0 : computed_ / rank_->page.tokens;
  for (; owned_.size() > n_full; owned_.pop_back()) pages_->release(owned_.back());
}

}  // namespace flare::runtime
