// Block accounting and the moves of a sequence's pages.
#include "runtime/cache/pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/cache/sequence.h"

namespace flare::runtime {
namespace {

class Blocks : public testing::Test {
 protected:
  std::unique_ptr<kernel::Backend> backend_ = kernel::make_cpu_backend({1, Isa::kV2});
};

TEST_F(Blocks, HandsOutDistinctWritableBlocksUntilNoneIsLeft) {
  BlockPool pool(*backend_, 5000, 7);
  std::set<std::byte*> seen;
  for (uint32_t i = 0; i < 7; ++i) {
    EXPECT_EQ(pool.available(), 7 - i);
    std::byte* block = pool.acquire();
    std::memset(block, static_cast<int>(i + 1), 5000);
    seen.insert(block);
  }
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(pool.available(), 0u);
  EXPECT_EQ(pool.used(), 7u);
  std::set<int> fill;
  for (const std::byte* block : seen) {
    for (int i = 1; i < 5000; ++i) ASSERT_EQ(block[i], block[0]);
    fill.insert(static_cast<int>(block[0]));
  }
  EXPECT_EQ(fill, (std::set<int>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_DEATH(pool.acquire(), "available");
}

TEST_F(Blocks, PreparesSomeAheadAndNoMoreThanThereAre) {
  BlockPool pool(*backend_, 64, 3);
  EXPECT_TRUE(pool.prepare_part(2));
  EXPECT_TRUE(pool.prepare_part(2));
  EXPECT_FALSE(pool.prepare_part(2));
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.available(), 3u);
  std::set<std::byte*> seen = {pool.acquire(), pool.acquire()};
  EXPECT_TRUE(pool.prepare_part(2));
  EXPECT_FALSE(pool.prepare_part(2)) << "that was the last";
  seen.insert(pool.acquire());
  EXPECT_EQ(seen.size(), 3u);
  BlockPool none(*backend_, 0, 0);
  EXPECT_FALSE(none.prepare_part(1));
}

TEST_F(Blocks, PreparesLargeBlocksInParts) {
  constexpr uint64_t kBytes = (uint64_t{5} << 20) + 64;  // three parts
  BlockPool pool(*backend_, kBytes, 3);
  for (int part = 0; part < 2; ++part) EXPECT_TRUE(pool.prepare_part(1));
  // One that is taken meanwhile is whole.
  std::byte* const first = pool.acquire();
  std::memset(first, 1, kBytes);
  int parts = 0;
  while (pool.prepare_part(1)) ++parts;
  EXPECT_EQ(parts, 3);
  std::byte* const second = pool.acquire();
  EXPECT_EQ(second, first + kBytes);
  std::memset(second, 2, kBytes);
  EXPECT_EQ(first[kBytes - 1], std::byte{1});
}

TEST_F(Blocks, ReusesWhatCameBack) {
  BlockPool pool(*backend_, 64, 3);
  std::byte* first = pool.acquire();
  std::byte* second = pool.acquire();
  pool.release(first);
  EXPECT_EQ(pool.used(), 1u);
  EXPECT_EQ(pool.acquire(), first);
  pool.release(second);
  pool.release(first);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_DEATH(pool.release(first), "references");
}

TEST_F(Blocks, KeepsABlockUntilItsLastReferenceGoes) {
  BlockPool pool(*backend_, 64, 1);
  std::byte* block = pool.acquire();
  EXPECT_EQ(pool.shared(), 0u);
  pool.retain(block);
  pool.retain(block);
  EXPECT_EQ(pool.shared(), 1u);
  pool.release(block);
  pool.release(block);
  EXPECT_EQ(pool.shared(), 0u);
  EXPECT_EQ(pool.used(), 1u);
  pool.release(block);
  EXPECT_EQ(pool.used(), 0u);
}

TEST_F(Blocks, APoolOfNothingHasNoCapacity) {
  EXPECT_EQ(BlockPool(*backend_, 0, 9).capacity(), 0u);
  EXPECT_EQ(BlockPool(*backend_, 64, 0).available(), 0u);
}

// One byte a token: what is read through the page table must be what was written, whatever the cut.
class Pages : public Blocks {
 protected:
  static constexpr uint32_t kTokens = 128;
  static package::Rank rank() {
    package::Rank r;
    r.page = {kTokens, kTokens, {}};
    r.row.bytes = 64 + kTokens;
    r.row.partial_page = 64;
    r.row.fields = {
        {"state", package::RowField::Kind::kRecurrent, 0, 64, graph::DType::kF32},
        {"partial_page", package::RowField::Kind::kPartialPage, 64, kTokens, graph::DType::kU8}};
    return r;
  }
  static std::byte word(uint32_t token) { return static_cast<std::byte>(token * 37 % 251); }
};

TEST_F(Pages, HoldTheSameTokensForEveryCutOfThePrompt) {
  const package::Rank r = rank();
  for (uint32_t chunk : {1u, 7u, 64u, 127u, 128u, 129u, 255u, 256u, 300u}) {
    BlockPool rows(*backend_, r.row.bytes, 1), pages(*backend_, r.page.bytes, 8);
    SequenceMemory memory(r, rows, pages);
    while (memory.computed() < 900) {
      const uint32_t begin = memory.computed();
      const uint32_t used = pages.used(), expected = memory.pages_to_fill(chunk);
      memory.prepare_rows(chunk);
      ASSERT_EQ(pages.used(), used + expected);
      ASSERT_EQ(pages.used(), (begin + chunk) / kTokens) << "only full pages leave the row";
      for (uint32_t t = begin; t < begin + chunk; ++t)
        memory.page_table()[t / kTokens][t % kTokens] = word(t);
      memory.commit_rows(chunk);
      for (uint32_t t = 0; t < memory.computed(); ++t)
        ASSERT_EQ(memory.page_table()[t / kTokens][t % kTokens], word(t))
            << "token " << t << " in chunks of " << chunk;
    }
  }
}

TEST_F(Pages, GoBackWhenTheSequenceEnds) {
  const package::Rank r = rank();
  BlockPool rows(*backend_, r.row.bytes, 2), pages(*backend_, r.page.bytes, 8);
  {
    SequenceMemory memory(r, rows, pages);
    memory.prepare_rows(600);
    memory.commit_rows(600);
    SequenceMemory moved(std::move(memory));
    EXPECT_EQ(moved.computed(), 600u);
    EXPECT_EQ(pages.used(), 4u);
    EXPECT_EQ(rows.used(), 1u);
  }
  EXPECT_EQ(pages.used(), 0u);
  EXPECT_EQ(rows.used(), 0u);
}

TEST_F(Pages, ASequenceReturnsToItsMark) {
  const package::Rank r = rank();
  BlockPool rows(*backend_, r.row.bytes, 1), pages(*backend_, r.page.bytes, 8);
  for (const uint32_t begin : {0u, 5u, 128u, 300u, 383u}) {
    SequenceMemory memory(r, rows, pages);
    const auto write = [&](uint32_t n, uint32_t shift) {
      const uint32_t at = memory.computed();
      memory.prepare_rows(n);
      for (uint32_t t = at; t < at + n; ++t)
        memory.page_table()[t / kTokens][t % kTokens] = word(t + shift);
      std::memset(memory.row(), static_cast<int>(at + n + shift), 64);
      memory.commit_rows(n);
    };
    if (begin > 0) write(begin, 0);
    const auto mark = memory.mark();
    const std::byte state = memory.row()[0];
    const uint32_t used = pages.used();
    for (const uint32_t more : {1u, 200u, 1u}) {
      write(more, 1000);
      memory.return_to(mark);
      EXPECT_EQ(memory.computed(), begin);
      EXPECT_EQ(pages.used(), used);
      EXPECT_EQ(memory.row()[0], state);
      EXPECT_EQ(memory.row()[63], state);
    }
    write(1, 0);
    for (uint32_t t = 0; t <= begin; ++t)
      ASSERT_EQ(memory.page_table()[t / kTokens][t % kTokens], word(t)) << t << " of " << begin;
  }
}

TEST_F(Pages, ANewSequenceFindsAClearedStateInAReusedRow) {
  const package::Rank r = rank();
  BlockPool rows(*backend_, r.row.bytes, 1), pages(*backend_, r.page.bytes, 1);
  {
    SequenceMemory memory(r, rows, pages);
    std::memset(memory.row(), 0xff, r.row.bytes);
  }
  SequenceMemory memory(r, rows, pages);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(memory.row()[i], std::byte{0});
}

TEST_F(Pages, AModelWithoutPagedStateNeedsNone) {
  package::Rank r;
  BlockPool rows(*backend_, 0, 1), pages(*backend_, 0, 1);
  SequenceMemory memory(r, rows, pages);
  EXPECT_EQ(memory.pages_to_fill(1000), 0u);
  memory.prepare_rows(1000);
  memory.commit_rows(1000);
  EXPECT_EQ(memory.computed(), 1000u);
}

}  // namespace
}  // namespace flare::runtime
