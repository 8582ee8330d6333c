// The prefix tree against sequences whose every byte says which tokens came before it.
#include "runtime/cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "base/test_support.h"
#include "kernel/backend.h"
#include "runtime/cache/test_support.h"

namespace flare::runtime {
namespace {

using test::compute_rows;
using test::counting;
using test::Ids;
using test::kTokens;

class PrefixTrees : public ::testing::TestWithParam<bool> {
 protected:
  void make(uint32_t n_pages, uint32_t n_snapshots) {
    rows_.emplace(*backend_, rank_.row.bytes, n_snapshots + 4);
    pages_.emplace(*backend_, rank_.page.bytes, n_pages);
    tree_.emplace(rank_, *pages_, *rows_, n_snapshots, [this] { return now_; });
  }
  SequenceMemory sequence() { return SequenceMemory(rank_, *rows_, *pages_); }

  void compute(SequenceMemory& memory, const Ids& tokens, uint32_t end) {
    tree_->make_room(memory.pages_to_fill(end - memory.computed()));
    compute_rows(rank_, memory, tokens, end);
  }
  void expect_whole(SequenceMemory& memory, const Ids& tokens) {
    ASSERT_EQ(test::first_wrong_token(rank_, memory, tokens), -1);
  }

  // Computes a prompt, keeps its last frontier but one, and says what of it was there.
  PrefixTree::Hit serve(const Ids& prompt, const std::string& session = "",
                        const std::string& salt = "") {
    SequenceMemory memory = sequence();
    const PrefixTree::Hit hit = tree_->restore(prompt, salt, memory, session);
    const auto last = static_cast<uint32_t>(prompt.size()) - 1;
    if (memory.computed() < last) compute(memory, prompt, last);
    tree_->snapshot(prompt, salt, memory, session);
    tree_->audit();
    return hit;
  }

  PrefixTree::Clock::time_point now_;
  const bool recurrent_ = GetParam();
  const package::Rank rank_ = test::make_rank(recurrent_);
  std::unique_ptr<kernel::Backend> backend_ = kernel::make_cpu_backend({.threads = 1});
  std::optional<BlockPool> rows_, pages_;
  std::optional<PrefixTree> tree_;
};

// A frontier that lies behind the sequence when its row is handed over.
TEST_P(PrefixTrees, KeepARowThatSomeoneElseFills) {
  make(64, 2);
  const Ids prompt = counting(0, 100);
  const auto at_50 = std::span(prompt).first(50);
  SequenceMemory memory = sequence();
  compute(memory, prompt, 50);
  std::byte* const row = tree_->begin_snapshot(at_50, "");
  ASSERT_NE(row, nullptr);
  std::memcpy(row, memory.row(), rank_.row.bytes);
  compute(memory, prompt, 100);
  tree_->publish(prompt, "", memory);
  tree_->end_snapshot(at_50, "", row, "chat");
  tree_->audit();
  EXPECT_EQ(tree_->stats().snapshots, 1u);
  EXPECT_EQ(tree_->begin_snapshot(at_50, ""), nullptr) << "it is kept already";
  EXPECT_EQ(tree_->begin_snapshot(std::span(prompt).first(48), "") != nullptr, recurrent_)
      << "a page's end";
  Ids other(prompt.begin(), prompt.begin() + 50);
  other.insert(other.end(), {-1, -2});
  SequenceMemory again = sequence();
  EXPECT_EQ(tree_->restore(other, "", again).tokens, 50u);
  expect_whole(again, other);
}

TEST_P(PrefixTrees, TakeARowBackWhoseFrontierCameMeanwhile) {
  make(64, 2);
  const Ids prompt = counting(0, 50);
  SequenceMemory memory = sequence();
  std::byte* const row = tree_->begin_snapshot(prompt, "");
  compute(memory, prompt, 50);
  tree_->snapshot(prompt, "", memory);
  const uint32_t used = rows_->used();
  tree_->end_snapshot(prompt, "", row);
  EXPECT_EQ(rows_->used(), used - 1);
  EXPECT_EQ(tree_->stats().snapshots, 1u);
  tree_->audit();
}

TEST_P(PrefixTrees, GoOnFromTheFurthestFrontier) {
  make(64, 8);
  const Ids prompt = counting(0, 100);
  {
    SequenceMemory first = sequence();
    EXPECT_EQ(tree_->restore(prompt, "", first).miss, PrefixMiss::kCold);
    compute(first, prompt, 50);
    tree_->snapshot(prompt, "", first);
    compute(first, prompt, 100);
    tree_->publish(prompt, "", first);
  }
  SequenceMemory again = sequence();
  const PrefixTree::Hit hit = tree_->restore(prompt, "", again);
  EXPECT_EQ(hit.tokens, recurrent_ ? 50u : 96u);
  EXPECT_EQ(hit.miss, recurrent_ ? PrefixMiss::kNoSnapshot : PrefixMiss::kDiverged);
  EXPECT_EQ(hit.known, 96u);
  expect_whole(again, prompt);

  Ids other = prompt;
  other[70] = -1;
  SequenceMemory edited = sequence();
  const PrefixTree::Hit part = tree_->restore(other, "", edited);
  EXPECT_EQ(part.tokens, recurrent_ ? 50u : 64u);
  EXPECT_EQ(part.known, 70u);
  expect_whole(edited, other);
}

TEST_P(PrefixTrees, ComputeTheLastPromptTokenAgain) {
  make(64, 8);
  const Ids prompt = counting(0, 2 * kTokens);
  SequenceMemory first = sequence();
  compute(first, prompt, 2 * kTokens - 1);
  tree_->snapshot(prompt, "", first);
  compute(first, prompt, 2 * kTokens);
  tree_->snapshot(prompt, "", first);
  SequenceMemory again = sequence();
  const PrefixTree::Hit hit = tree_->restore(prompt, "", again);
  EXPECT_EQ(hit.tokens, 2 * kTokens - 1);
  EXPECT_EQ(hit.miss, PrefixMiss::kNone);
  expect_whole(again, prompt);
}

TEST_P(PrefixTrees, SharePagesButNothingThatIsWritten) {
  make(64, 8);
  const Ids prompt = counting(0, 40);
  SequenceMemory a = sequence();
  compute(a, prompt, 39);
  tree_->snapshot(prompt, "", a);
  SequenceMemory b = sequence(), c = sequence();
  EXPECT_EQ(tree_->restore(prompt, "", b).tokens, 39u);
  EXPECT_EQ(tree_->restore(prompt, "", c).tokens, 39u);
  Ids left = prompt, right = prompt;
  for (int i = 0; i < 60; ++i) left.push_back(1000 + i), right.push_back(2000 + i);
  for (uint32_t end = 40; end <= 100; ++end) {
    compute(b, left, end);
    compute(c, right, end);
  }
  expect_whole(a, prompt);
  expect_whole(b, left);
  expect_whole(c, right);
}

TEST_P(PrefixTrees, KeepSaltsApart) {
  make(64, 8);
  const Ids prompt = counting(0, 50);
  SequenceMemory a = sequence();
  compute(a, prompt, 49);
  tree_->snapshot(prompt, "alice", a);
  SequenceMemory b = sequence(), c = sequence();
  EXPECT_EQ(tree_->restore(prompt, "bob", b).tokens, 0u);
  EXPECT_EQ(tree_->restore(prompt, "", b).miss, PrefixMiss::kSalt);
  EXPECT_EQ(tree_->restore(prompt, "alice", c).tokens, 49u);
}

TEST_P(PrefixTrees, GiveEveryPageBackForSequencesThatNeedIt) {
  make(8, 4);
  for (int i = 0; i < 4; ++i) {
    SequenceMemory s = sequence();
    const Ids prompt = counting(1000 * i, 3 * kTokens);
    compute(s, prompt, 3 * kTokens);
    tree_->snapshot(prompt, "", s);
    tree_->audit();
  }
  SequenceMemory large = sequence();
  const Ids prompt = counting(5000, 8 * kTokens);
  compute(large, prompt, 8 * kTokens);
  EXPECT_EQ(pages_->used(), 8u);
  EXPECT_EQ(tree_->stats().pages, 0u);
  expect_whole(large, prompt);
}

TEST_P(PrefixTrees, PagesComputedTwiceAtOnceAreKeptOnceAndAllComeBack) {
  make(16, 4);
  const Ids prompt = counting(0, 8 * kTokens);
  std::optional<SequenceMemory> a(sequence());
  SequenceMemory b = sequence();
  compute(*a, prompt, 4 * kTokens);
  compute(b, prompt, 4 * kTokens);
  tree_->publish(prompt, "", *a);
  tree_->publish(prompt, "", b);
  EXPECT_EQ(pages_->used(), 4u);
  compute(b, prompt, 8 * kTokens);
  tree_->publish(prompt, "", b);
  a.reset();
  SequenceMemory c = sequence();
  const Ids other = counting(1000, 8 * kTokens);
  compute(c, other, 8 * kTokens);
  expect_whole(b, prompt);
  expect_whole(c, other);
  tree_->audit();
}

TEST_P(PrefixTrees, ForgetWhatSavesLeastFirst) {
  make(64, 2);
  const Ids prompt = counting(0, 60), other = counting(500, 60);
  SequenceMemory a = sequence(), b = sequence();
  compute(a, prompt, 5);  // five tokens to save
  tree_->snapshot(prompt, "", a);
  compute(a, prompt, 47);
  tree_->snapshot(prompt, "", a);
  compute(b, other, 47);
  tree_->snapshot(other, "", b);
  EXPECT_EQ(tree_->stats().evicted_snapshots, 1u);
  SequenceMemory c = sequence(), d = sequence();
  EXPECT_EQ(tree_->restore(prompt, "", c).tokens, 47u);
  EXPECT_EQ(tree_->restore(other, "", d).tokens, 47u);
}

TEST_P(PrefixTrees, OfEqualsTheLongestUnusedGoesFirst) {
  make(64, 3);
  const auto prompt = [](int i) { return counting(1000 * i, 48); };
  for (int i = 0; i < 3; ++i) serve(prompt(i));
  EXPECT_EQ(serve(prompt(0)).tokens, 47u);
  serve(prompt(3));  // 1 goes
  EXPECT_EQ(serve(prompt(0)).tokens, 47u);
  EXPECT_EQ(serve(prompt(2)).tokens, 47u);
  EXPECT_EQ(serve(prompt(3)).tokens, 47u);
  EXPECT_EQ(serve(prompt(1)).tokens, recurrent_ ? 0u : 32u);
}

TEST_P(PrefixTrees, OfEqualPagesTheLongestUnusedGoFirst) {
  make(8, 8);
  const auto prompt = [](int i) { return counting(1000 * i, 2 * kTokens + 2); };
  for (int i = 0; i < 4; ++i) serve(prompt(i));  // eight pages
  EXPECT_EQ(serve(prompt(0)).tokens, 2 * kTokens + 1);
  serve(prompt(4));
  EXPECT_EQ(tree_->stats().evicted_pages, 2u);
  for (int i : {0, 2, 3, 4}) EXPECT_EQ(serve(prompt(i)).tokens, 2 * kTokens + 1) << i;
  EXPECT_EQ(serve(prompt(1)).tokens, 0u);
}

// B106: reuse goes on when the budget is full.
TEST_P(PrefixTrees, B106_AFullBudgetOfSnapshotsStillServesWhatComesAgain) {
  make(256, 2);
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 3; ++i) serve(counting(1000 * i, 50));
  serve(counting(0, 50));
  EXPECT_EQ(serve(counting(0, 50)).tokens, 49u);
  EXPECT_GT(tree_->stats().evicted_snapshots, 0u);
}

// serving.md S10.6
TEST_P(PrefixTrees, TheNewestSnapshotOfAConversationGoesLast) {
  make(256, 4);
  serve(counting(0, 40), "chat");
  for (int i = 1; i <= 20; ++i) serve(counting(1000 * i, 40));
  EXPECT_EQ(serve(counting(0, 40)).tokens, 39u);
  // Only the newest one is kept, and for an hour after its last use.
  serve(counting(500, 40), "chat");
  for (int i = 1; i <= 20; ++i) serve(counting(1000 * i, 40));
  EXPECT_LT(serve(counting(0, 40)).tokens, 39u);
  EXPECT_EQ(serve(counting(500, 40)).tokens, 39u);
  now_ += PrefixTree::kSessionLife + std::chrono::seconds(1);
  for (int i = 1; i <= 20; ++i) serve(counting(1000 * i, 40));
  EXPECT_LT(serve(counting(500, 40)).tokens, 39u);
}

TEST_P(PrefixTrees, ItsPagesGoLastToo) {
  make(16, 8);
  serve(counting(0, 4 * kTokens + 2), "chat");
  for (int i = 1; i <= 20; ++i) serve(counting(1000 * i, 4 * kTokens + 2));
  EXPECT_EQ(serve(counting(0, 4 * kTokens + 2)).tokens, 4 * kTokens + 1);
}

TEST_P(PrefixTrees, SixtyFourConversationsAreFollowed) {
  make(1024, 80);
  for (int i = 0; i < 65; ++i) serve(counting(1000 * i, 40), "chat " + std::to_string(i));
  for (int i = 100; i < 200; ++i) serve(counting(1000 * i, 40));
  for (int i = 1; i < 65; ++i) EXPECT_EQ(serve(counting(1000 * i, 40)).tokens, 39u) << i;
  EXPECT_LT(serve(counting(0, 40)).tokens, 39u) << "the 65th took the place of the first";
  // Two salts with one name are two conversations.
  serve(counting(300'000, 40), "same", "a");
  serve(counting(400'000, 40), "same", "b");
  for (int i = 200; i < 300; ++i) serve(counting(1000 * i, 40));
  EXPECT_EQ(serve(counting(300'000, 40), "", "a").tokens, 39u);
  EXPECT_EQ(serve(counting(400'000, 40), "", "b").tokens, 39u);
}

TEST_P(PrefixTrees, WhenAllIsFollowedTheLeastGoesAllTheSame) {
  make(64, 2);
  for (int i = 0; i < 5; ++i) serve(counting(1000 * i, 40), std::to_string(i));
  EXPECT_EQ(serve(counting(4000, 40)).tokens, 39u);
  EXPECT_EQ(tree_->stats().snapshots, 2u);
}

// serving.md S10.9
TEST_P(PrefixTrees, SayWhyNoMoreWasThere) {
  make(64, 2);
  const Ids prompt = counting(0, 40);
  EXPECT_EQ(serve(prompt).miss, PrefixMiss::kCold);
  EXPECT_EQ(serve(prompt).miss, PrefixMiss::kNone);
  Ids edited = prompt;
  edited[36] = -1;
  EXPECT_EQ(serve(edited).miss, recurrent_ ? PrefixMiss::kNoSnapshot : PrefixMiss::kDiverged);
  Ids other = prompt;
  other[3] = -1;
  const PrefixTree::Hit diverged = serve(other);
  EXPECT_EQ(diverged.miss, PrefixMiss::kDiverged);
  EXPECT_EQ(diverged.known, 3u);
  EXPECT_EQ(serve(other, "", "secret").miss, PrefixMiss::kSalt);
  for (int i = 1; i <= 4; ++i) serve(counting(1000 * i, 40));
  EXPECT_EQ(serve(prompt).miss, PrefixMiss::kEvicted);
  EXPECT_EQ(serve(prompt).miss, PrefixMiss::kNone);
  Usage usage{40, 0, 1, PrefixMiss::kDiverged, 3};
  EXPECT_EQ(prefix_miss_note(usage), "diverged@3");
  usage.miss = PrefixMiss::kEvicted;
  EXPECT_EQ(prefix_miss_note(usage), "evicted");
}

// A page a token: as deep as a context is long.
TEST(PrefixTree, DeepTreesNeedNoStack) {
  constexpr uint32_t kDepth = 200'000;
  const auto backend = kernel::make_cpu_backend({.threads = 1});
  package::Rank rank;
  rank.page = {1, 1, {}};
  rank.row.bytes = 1;
  rank.row.partial_page = 0;
  rank.row.fields = {
      {"partial_page", package::RowField::Kind::kPartialPage, 0, 1, graph::DType::kU8}};
  BlockPool rows(*backend, 1, 4), pages(*backend, 1, kDepth);
  std::optional<PrefixTree> kept(std::in_place, rank, pages, rows, 2);
  PrefixTree& tree = *kept;
  Ids tokens(kDepth);
  std::iota(tokens.begin(), tokens.end(), 0);
  {
    SequenceMemory memory(rank, rows, pages);
    memory.prepare_rows(kDepth);
    memory.commit_rows(kDepth);
    tree.publish(tokens, "", memory);
    SequenceMemory again(rank, rows, pages);
    EXPECT_EQ(tree.restore(tokens, "", again).tokens, kDepth - 1);
  }
  tree.audit();
  tree.make_room(kDepth / 2);
  EXPECT_EQ(tree.stats().pages, kDepth - kDepth / 2);
  tree.audit();
  kept.reset();
  EXPECT_EQ(pages.used(), 0u);
}

// Many prompts that share beginnings, in tight pools: whatever was restored is what computing would
// have given, and no block is lost.
TEST_P(PrefixTrees, NeverGiveWhatTheTokensDoNotMake) {
  const uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  make(24, 12);
  std::vector<Ids> prompts;
  uint64_t restored = 0;
  for (int round = 0; round < 3000; ++round) {
    Ids prompt;
    if (!prompts.empty() && below(4) > 0) {
      prompt = prompts[below(static_cast<uint32_t>(prompts.size()))];
      prompt.resize(below(static_cast<uint32_t>(prompt.size())) + 1);
    }
    for (uint32_t more = 1 + below(60); more > 0; --more)
      prompt.push_back(static_cast<int32_t>(below(3)));
    if (prompt.size() > 8 * kTokens) prompt.resize(8 * kTokens);
    const std::string salt = below(8) == 0 ? "x" : "";
    const std::string session = below(2) == 0 ? std::to_string(below(100)) : "";
    now_ += std::chrono::seconds(below(300));
    SequenceMemory memory = sequence();
    const PrefixTree::Hit hit = tree_->restore(prompt, salt, memory, session);
    ASSERT_LT(hit.tokens, prompt.size());
    ASSERT_EQ(memory.computed(), hit.tokens);
    ASSERT_LE(hit.tokens, hit.known);
    expect_whole(memory, prompt);
    restored += hit.tokens;
    while (memory.computed() < prompt.size()) {
      const auto left = static_cast<uint32_t>(prompt.size()) - memory.computed();
      compute(memory, prompt, memory.computed() + 1 + below(left));
      if (below(2) == 0) tree_->publish(prompt, salt, memory);
      if (below(3) == 0) tree_->snapshot(prompt, salt, memory, session);
    }
    expect_whole(memory, prompt);
    tree_->audit();
    prompts.push_back(prompt);
    if (prompts.size() > 40) prompts.erase(prompts.begin());
  }
  EXPECT_GT(restored, 2'000u) << "the test restores too little to mean anything";
  EXPECT_GT(tree_->stats().evicted_pages, 0u);
  EXPECT_GT(tree_->stats().evicted_snapshots, 0u);
  tree_.reset();
  EXPECT_EQ(pages_->used(), 0u);
  EXPECT_EQ(rows_->used(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixTrees, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Recurrent" : "AttentionOnly");
});

}  // namespace
}  // namespace flare::runtime
