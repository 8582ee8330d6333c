// Tree and tier together: whatever comes back, from memory or disk, is what computing would give.
#include "runtime/cache/prefix_store.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "base/test_support.h"
#include "kernel/backend.h"
#include "runtime/cache/test_support.h"

namespace flare::runtime {
namespace {

using test::counting;
using test::Ids;
using test::kTokens;

class PrefixStores : public ::testing::TestWithParam<bool> {
 protected:
  ~PrefixStores() override { stop(); }

  // As a server does; the folder stays.
  void start(uint32_t n_pages = 64, uint32_t n_snapshots = 8, uint64_t limit = 1 << 30) {
    stop();
    rows_.emplace(*backend_, rank_.row.bytes, n_snapshots + 4);
    pages_.emplace(*backend_, rank_.page.bytes, n_pages);
    const DiskTierShape shape{{}, rank_.page.bytes, rank_.row.bytes, kTokens, recurrent_};
    auto tier =
        std::make_unique<DiskTier>(DiskTierOptions{folder_ / "cache", limit}, shape, [this] {
          const std::lock_guard lock(mutex_);
          loaded_ = true;
          changed_.notify_all();
        });
    tier_ = tier.get();
    store_.emplace(rank_, *pages_, *rows_, n_snapshots, std::move(tier));
  }
  void stop() {
    if (!store_) return;
    store_.reset();
    EXPECT_EQ(pages_->used(), 0u);
    EXPECT_EQ(rows_->used(), 0u);
  }

  // A request from its arrival on; what of it was there.
  uint32_t serve(const Ids& prompt, const std::string& salt = "", bool audit = true) {
    DiskWait wait;
    while (!store_->ready(prompt, salt, &wait)) {
      EXPECT_TRUE(store_->loading());
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return loaded_; });
      loaded_ = false;
      lock.unlock();
      store_->poll();
      EXPECT_FALSE(store_->loading());
    }
    SequenceMemory memory(rank_, *rows_, *pages_);
    const PrefixTree::Hit hit = store_->tree().restore(prompt, salt, memory);
    EXPECT_EQ(test::first_wrong_token(rank_, memory, prompt), -1);
    const auto end = static_cast<uint32_t>(prompt.size()) - 1;
    if (memory.computed() < end) {
      const uint32_t middle = (memory.computed() + end) / 2;
      for (const uint32_t at : {middle, end}) {
        store_->make_room(memory.pages_to_fill(at - memory.computed()));
        test::compute_rows(rank_, memory, prompt, at);
        store_->tree().snapshot(prompt, salt, memory);
      }
    }
    store_->keep_on_disk(std::span(prompt).first(memory.computed()), salt);
    if (audit) store_->tree().audit();
    return hit.tokens;
  }

  const bool recurrent_ = GetParam();
  const package::Rank rank_ = test::make_rank(recurrent_);
  TemporaryFolder folder_;
  std::unique_ptr<kernel::Backend> backend_ = kernel::make_cpu_backend({.threads = 1});
  std::optional<BlockPool> rows_, pages_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool loaded_ = false;       // guarded by mutex_
  DiskTier* tier_ = nullptr;  // of store_
  std::optional<PrefixStore> store_;
};

TEST_P(PrefixStores, APromptIsThereBehindARestart) {
  start();
  const Ids prompt = counting(0, 100);
  EXPECT_EQ(serve(prompt), 0u);
  start();
  EXPECT_EQ(serve(prompt), 99u);
  EXPECT_EQ(store_->disk_stats()->damaged, 0u);
  EXPECT_EQ(serve(prompt), 99u) << "from memory now";
  Ids longer = prompt;
  for (int i = 0; i < 60; ++i) longer.push_back(500 + i);
  EXPECT_EQ(serve(longer), 99u);
  start();
  EXPECT_EQ(serve(longer), 159u);
  EXPECT_EQ(serve(prompt, "another salt"), 0u);
}

TEST_P(PrefixStores, AnEditReadsThePagesBeforeIt) {
  start();
  Ids prompt = counting(0, 200);
  serve(prompt);
  start();
  prompt[150] = -1;
  EXPECT_EQ(serve(prompt), recurrent_ ? 99u : 144u);
}

TEST_P(PrefixStores, WhatMemoryEvictedComesFromDisk) {
  start(16, 4);
  for (int i = 0; i < 8; ++i) {
    serve(counting(1000 * i, 100));
    tier_->flush();
  }
  start(16, 4);
  for (int i = 7; i >= 0; --i) EXPECT_EQ(serve(counting(1000 * i, 100)), 99u) << i;
}

TEST_P(PrefixStores, TwoRequestsOfOneBeginningReadItOnce) {
  start();
  const Ids prompt = counting(0, 100);
  serve(prompt);
  start();
  DiskWait first, second, other;
  EXPECT_FALSE(store_->ready(prompt, "", &first));
  EXPECT_FALSE(store_->ready(prompt, "", &second));
  EXPECT_TRUE(store_->ready(counting(500, 50), "", &other)) << "others do not wait";
  EXPECT_EQ(store_->loading_pages(), 6u);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return loaded_; });
  lock.unlock();
  store_->poll();
  EXPECT_TRUE(store_->ready(prompt, "", &first));
  EXPECT_TRUE(store_->ready(prompt, "", &second));
  EXPECT_EQ(store_->disk_stats()->loaded, 7u);
  store_->tree().audit();
}

TEST_P(PrefixStores, ADamagedPageShortensTheHitAndNothingElse) {
  start();
  const Ids prompt = counting(0, 200);
  serve(prompt);
  stop();
  // The eighth page: the snapshot before it, behind 99 tokens, remains.
  EntryKey key = root_key({}, "");
  for (size_t i = 0; i < 8; ++i)
    key = page_key(key, std::span(prompt).subspan(i * kTokens, kTokens));
  const std::filesystem::path file = folder_ / "cache" / "prefixes" / page_name(key);
  ASSERT_TRUE(std::filesystem::exists(file));
  std::filesystem::resize_file(file, 4096 + 3);
  start();
  EXPECT_EQ(serve(prompt), recurrent_ ? 99u : 112u);
  EXPECT_EQ(store_->disk_stats()->damaged, 1u);
  start();
  EXPECT_EQ(serve(prompt), 199u) << "written again";
}

// Restarts, tight pools, a tight disk, damage: never a byte that the tokens do not make.
TEST_P(PrefixStores, NeverGiveWhatTheTokensDoNotMake) {
  const uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&random](size_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<Ids> prompts;
  uint64_t restored = 0, loaded = 0, damaged = 0, evicted = 0;
  for (int round = 0; round < 1000; ++round) {
    if (round % 20 == 0) {
      if (store_) loaded += store_->disk_stats()->loaded;
      if (store_) damaged += store_->disk_stats()->damaged;
      if (store_) evicted += store_->disk_stats()->evicted;
      stop();
      std::vector<std::filesystem::path> files;
      if (round > 0)
        for (const auto& file : std::filesystem::directory_iterator(folder_ / "cache/prefixes"))
          if (is_entry_name(file.path().filename().string())) files.push_back(file.path());
      for (int i = 0; i < 5 && !files.empty(); ++i) {
        const auto& file = files[below(files.size())];
        std::FILE* f = std::fopen(file.c_str(), "r+");
        if (f == nullptr) continue;
        std::fseek(f, below(4200), SEEK_SET);
        std::fputc(static_cast<int>(below(256)), f);
        std::fclose(f);
      }
      start(12 + below(20), 3 + below(6), 40'000 + 4200 * below(40));
    }
    Ids prompt;
    if (!prompts.empty() && below(5) > 0) {
      prompt = prompts[below(prompts.size())];
      if (below(3) == 0) prompt.resize(below(prompt.size()) + 1);
    }
    for (uint32_t more = 1 + below(40); more > 0; --more)
      prompt.push_back(static_cast<int32_t>(below(3)));
    if (prompt.size() > 8 * kTokens) prompt.resize(8 * kTokens);
    restored += serve(prompt, below(8) == 0 ? "x" : "");
    if (below(2) == 0) tier_->flush();
    prompts.push_back(prompt);
    if (prompts.size() > 30) prompts.erase(prompts.begin());
  }
  stop();
  EXPECT_GT(restored, 2000u);
  EXPECT_GT(loaded, 50u) << "the test reads too little to mean anything";
  EXPECT_GT(damaged, 0u);
  EXPECT_GT(evicted, 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixStores, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Recurrent" : "AttentionOnly");
});

}  // namespace
}  // namespace flare::runtime
