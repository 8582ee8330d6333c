// One sequence's place in memory: its continuation row and its page table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "package/prepared.h"
#include "runtime/cache/pages.h"

namespace flare::runtime {

// The open page lies in the row; a page that a step will fill moves to the pool before the step
// (package.md §11.2). Page-table entries are addresses, so kernels see no difference. Confined to
// the engine thread; the pools outlive it.
class SequenceMemory {
 public:
  SequenceMemory(const package::Rank& rank, BlockPool& rows, BlockPool& pages);
  ~SequenceMemory();
  SequenceMemory(SequenceMemory&& other) noexcept;
  SequenceMemory& operator=(SequenceMemory&&) = delete;

  // Goes on from what another sequence computed: its full pages, which are shared, and a copy of
  // its row behind `computed` tokens; null where the row holds nothing at that frontier. For a
  // sequence that has computed nothing yet.
  void adopt(std::span<std::byte* const> pages, const std::byte* row, uint32_t computed);

  // Puts another page with the same contents in the place of its full page `index`, so that the
  // two are kept once.
  void share_page(uint32_t index, std::byte* page);

  std::byte* row() const { return row_; }
  std::byte* const* page_table() const { return table_.data(); }
  // Pool pages that it holds, shared ones included.
  uint32_t n_pages() const { return static_cast<uint32_t>(owned_.size()); }
  // Tokens whose keys, values and state are stored.
  uint32_t computed() const { return computed_; }

  // Makes room for n_rows tokens behind computed(): needs pages_to_fill(n_rows) free pool pages.
  void prepare_rows(uint32_t n_rows);
  uint32_t pages_to_fill(uint32_t n_rows) const;
  // The step has run: those rows are stored now.
  void commit_rows(uint32_t n_rows) { computed_ += n_rows; }

  // What brings the sequence back to where it stands now. Full pages never change, so the row and
  // the frontier are all.
  struct Mark {
    uint32_t computed = 0;
    std::vector<std::byte> row;
  };
  Mark mark() const;
  // Forgets the rows committed since `mark` was taken of this sequence, and gives their pages back.
  void return_to(const Mark& mark);

 private:
  const package::Rank* rank_;
  BlockPool* rows_;
  BlockPool* pages_;
  std::byte* row_ = nullptr;
  uint32_t computed_ = 0;
  std::vector<std::byte*> table_;  // one entry per page, the open one last
  std::vector<std::byte*> owned_;  // pool pages, in order
};

}  // namespace flare::runtime
