// The tier on disk: what was kept comes back bit for bit or not at all.
#include "runtime/cache/disk_tier.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <random>

#include "base/test_support.h"

namespace flare::runtime {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using Data = std::vector<std::byte>;

constexpr uint32_t kTokens = 4;
constexpr uint64_t kPageBytes = 1000, kRowBytes = 3000;
constexpr uint64_t kPageFile = 4096 + kPageBytes, kRowFile = 4096 + kRowBytes;

DiskTierShape shape(bool needs_rows = true, int identity = 1) {
  DiskTierShape made{{}, kPageBytes, kRowBytes, kTokens, needs_rows};
  made.identity[0] = static_cast<std::byte>(identity);
  return made;
}

Data data_of(uint64_t bytes, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Data data(bytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random());
  return data;
}

// A tier with what waits for it.
class Tier {
 public:
  explicit Tier(const fs::path& folder, uint64_t limit = 1 << 30, const DiskTierShape& s = shape())
      : tier_({folder, limit}, s, [this] {
          const std::lock_guard lock(mutex_);
          ++loads_;
          changed_.notify_all();
        }) {}
  DiskTier& operator*() { return tier_; }
  DiskTier* operator->() { return &tier_; }

  // The pages of `tokens`, and a row behind all of them.
  std::vector<bool> keep(const Ids& tokens, int seed, const std::string& salt = "") {
    const size_t n = tokens.size() / kTokens;
    std::vector<DiskTier::Item> items;
    EntryKey key = root_key(tier_.shape().identity, salt);
    const std::span<const int32_t> all = tokens;
    for (size_t i = 0; i < n; ++i) {
      const auto page = all.subspan(i * kTokens, kTokens);
      held_.push_back(data_of(kPageBytes, seed + static_cast<int>(i)));
      items.push_back({EntryKind::kPage, key, page, held_.back().data()});
      key = page_key(key, page);
    }
    held_.push_back(data_of(kRowBytes, seed + 1000));
    items.push_back({EntryKind::kRow, key, all.subspan(n * kTokens), held_.back().data()});
    return tier_.keep(items);
  }
  // What comes back of them, in tokens: pages before the first that does not, all with the row.
  size_t load(const Ids& tokens, int seed, const std::string& salt = "", uint32_t first = 0) {
    const size_t n = tokens.size() / kTokens;
    std::vector<Data> pages(n - first, Data(kPageBytes));
    Data row(kRowBytes);
    std::vector<std::byte*> places;
    for (Data& page : pages) places.push_back(page.data());
    tier_.load(tokens, salt, first, places, row.data());
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return loads_ > taken_; });
      ++taken_;
    }
    const DiskTier::Loaded loaded = tier_.take_loaded().value();
    for (uint32_t i = 0; i < loaded.pages; ++i)
      EXPECT_EQ(pages[i], data_of(kPageBytes, seed + static_cast<int>(first + i)));
    if (!loaded.row) return (first + loaded.pages) * kTokens;
    EXPECT_EQ(row, data_of(kRowBytes, seed + 1000));
    return tokens.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int loads_ = 0, taken_ = 0;
  std::deque<Data> held_;
  DiskTier tier_;
};

const Ids kPrompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

class DiskTiers : public testing::Test {
 protected:
  fs::path entries() const { return folder_ / "cache" / "prefixes"; }
  fs::path cache() const { return folder_ / "cache"; }
  std::vector<fs::path> files(std::string_view end) const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(entries()))
      if (file.path().string().ends_with(end)) found.push_back(file.path());
    std::ranges::sort(found);
    return found;
  }
  // Keeps kPrompt and ends.
  void fill() {
    Tier tier(cache());
    tier.keep(kPrompt, 1);
  }
  TemporaryFolder folder_;
};

TEST_F(DiskTiers, WhatWasKeptComesBackBehindARestart) {
  {
    Tier tier(cache());
    EXPECT_EQ(tier->find(kPrompt, "", 0).tokens, 0u);
    EXPECT_EQ(tier.keep(kPrompt, 1), (std::vector<bool>{true, true, true}));
    tier->close();
    EXPECT_EQ(tier->take_released().size(), 3u);
    EXPECT_EQ(tier->stats().written, 3u);
  }
  Tier tier(cache());
  EXPECT_EQ(tier->stats().bytes, 2 * kPageFile + kRowFile);
  EXPECT_EQ(tier->stats().pages, 2u);
  EXPECT_EQ(tier->stats().rows, 1u);
  Ids longer = kPrompt;
  longer.insert(longer.end(), {11, 12, 13});
  const DiskTier::Found found = tier->find(longer, "", 0);
  EXPECT_EQ(found.tokens, 10u);
  EXPECT_EQ(found.pages, 2u);
  EXPECT_TRUE(found.row);
  EXPECT_EQ(tier.load(kPrompt, 1), 10u);
  EXPECT_EQ(tier.load(kPrompt, 1, "", 1), 10u) << "the second page alone";
  EXPECT_EQ(tier.keep(kPrompt, 1), std::vector<bool>(3)) << "there already";
  // Nothing of it is anybody else's.
  Ids edited = kPrompt;
  edited[6] = 99;
  EXPECT_EQ(tier->find(edited, "", 0).tokens, 0u);
  edited = kPrompt;
  edited[9] = 99;
  EXPECT_EQ(tier->find(edited, "", 0).tokens, 0u);
  EXPECT_EQ(tier->find(kPrompt, "salt", 0).tokens, 0u);
  EXPECT_EQ(tier->find(Ids(kPrompt.begin(), kPrompt.begin() + 9), "", 0).tokens, 0u);
}

TEST_F(DiskTiers, PagesAloneAreAFrontierWhereThereIsNoState) {
  fill();
  Tier tier(cache(), 1 << 30, shape(/*needs_rows=*/false));
  Ids edited = kPrompt;
  edited[9] = 99;
  EXPECT_EQ(tier->find(edited, "", 0).tokens, 8u);
  EXPECT_FALSE(tier->find(edited, "", 0).row);
  EXPECT_EQ(tier->find(kPrompt, "", 0).tokens, 10u);
}

TEST_F(DiskTiers, PagesThatTheCallerHasNeedNotBeThere) {
  fill();
  Tier tier(cache());
  const EntryKey first = page_key(root_key(shape().identity, ""), std::span(kPrompt).first(4));
  fs::remove(entries() / page_name(first));
  EXPECT_EQ(tier.load(kPrompt, 1), 0u) << "its index said that it was there";
  EXPECT_EQ(tier->find(kPrompt, "", 0).tokens, 0u);
  EXPECT_EQ(tier->find(kPrompt, "", 1).tokens, 10u);
  EXPECT_EQ(tier.load(kPrompt, 1, "", 1), 10u);
}

TEST_F(DiskTiers, AnotherModelsEntriesAreMisses) {
  fill();
  {
    Tier other(cache(), 1 << 30, shape(true, 2));
    EXPECT_EQ(other->find(kPrompt, "", 0).tokens, 0u);
    other.keep(kPrompt, 500);
  }
  // Under the name of an entry of the first model lies one of the second.
  const auto name = [](int identity) {
    return page_name(
        page_key(root_key(shape(true, identity).identity, ""), std::span(kPrompt).first(kTokens)));
  };
  fs::copy_file(entries() / name(2), entries() / name(1), fs::copy_options::overwrite_existing);
  Tier tier(cache());
  EXPECT_EQ(tier->find(kPrompt, "", 0).tokens, 10u);
  EXPECT_EQ(tier.load(kPrompt, 1), 0u);
  EXPECT_FALSE(fs::exists(entries() / name(1))) << "removed";
  EXPECT_EQ(tier->find(kPrompt, "", 0).tokens, 0u);
  EXPECT_EQ(tier->stats().damaged, 1u);
  EXPECT_TRUE(fs::exists(entries() / name(2))) << "the other model's own stays";
}

// B105: a damaged entry is a miss that leaves nothing behind.
class DamagedEntries : public DiskTiers {
 protected:
  // Puts `content` in the place of one file at a time; none of it may come back.
  void expect_miss(const fs::path& file, const std::string& content, const std::string& what) {
    std::ofstream(file, std::ios::binary) << content;
    const bool is_row = file.extension() == ".row";
    Tier tier(cache());
    const size_t got = tier.load(kPrompt, 1);
    EXPECT_LT(got, kPrompt.size()) << what;
    EXPECT_EQ(got % kTokens, 0u);
    EXPECT_EQ(got, is_row ? 8u : got);
    EXPECT_FALSE(fs::exists(file)) << what << ": removed";
    EXPECT_LT(tier->find(kPrompt, "", 0).tokens, 10u) << what;
    EXPECT_EQ(tier->stats().damaged, 1u) << what;
    EXPECT_FALSE(tier->stats().off);
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(DamagedEntries, B105_EveryFieldChanged) {
  fill();
  const std::vector<fs::path> all = {files(".page")[0], files(".row")[0]};
  for (const fs::path& file : all) {
    const std::string good = read(file);
    // Each field of the header, its tokens and padding, and the payload's ends and middle.
    for (const size_t at : {0,   7,   8,   11,  12,  16,  24,  31,  32,  36,   40,   71,   72,  103,
                            104, 119, 120, 135, 136, 191, 192, 195, 250, 4095, 4096, 4500, 5095}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x10);
      expect_miss(file, bad, "byte " + std::to_string(at));
      std::ofstream(file, std::ios::binary) << good;
    }
  }
  Tier tier(cache());
  EXPECT_EQ(tier.load(kPrompt, 1), 10u) << "the test puts good ones back";
}

TEST_F(DamagedEntries, B105_CutAnywhereOrWithMoreBehindIt) {
  fill();
  const fs::path file = files(".page")[0];
  const std::string good = read(file);
  for (size_t n = 0; n < good.size(); n += n < 200 || n > 4090 ? 23 : 389)
    expect_miss(file, good.substr(0, n), std::to_string(n) + " bytes");
  for (const size_t n : {good.size() - 1, good.size() - kPageBytes - 1, good.size() - kPageBytes})
    expect_miss(file, good.substr(0, n), std::to_string(n) + " bytes");
  expect_miss(file, good + "x", "one byte more");
  expect_miss(file, good + good, "twice");
}

TEST_F(DamagedEntries, B105_RandomBytesAndThingsThatAreNoFiles) {
  fill();
  const fs::path file = files(".page")[0];
  const std::string good = read(file);
  const uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20; ++i) {
    std::string bytes(random() % 3 == 0 ? good.size() : random() % 10'000, 0);
    for (char& c : bytes) c = static_cast<char>(random());
    expect_miss(file, bytes, "random bytes");
  }
  for (int i = 0; i < 20; ++i) {  // a payload that lost a block, as after a power cut
    std::string bytes = good;
    std::fill_n(bytes.begin() + 4096 + static_cast<ptrdiff_t>(random() % 500), 1 + random() % 400,
                '\0');
    expect_miss(file, bytes, "zeros");
  }
  {
    std::ofstream(file, std::ios::binary) << good;
    Tier tier(cache());
    const fs::path elsewhere = folder_.write("elsewhere", good);
    fs::remove(file);
    fs::create_symlink(elsewhere, file);
    EXPECT_LT(tier.load(kPrompt, 1), 10u) << "a link is not followed";
    EXPECT_TRUE(fs::exists(elsewhere));
  }
  std::ofstream(file, std::ios::binary) << good;
  Tier tier(cache());
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_LT(tier.load(kPrompt, 1), 10u);
}

TEST_F(DiskTiers, BeyondTheLimitTheLongestUnusedGo) {
  const auto prompt = [](int i) { return Ids{100 * i, 1, 2, 3}; };
  constexpr uint64_t kEach = kPageFile + kRowFile;
  {
    Tier tier(cache(), 3 * kEach);
    for (int i = 0; i < 3; ++i) tier.keep(prompt(i), i);
    tier->close();
    EXPECT_EQ(tier->stats().bytes, 3 * kEach);
  }
  {
    Tier tier(cache(), 3 * kEach);
    tier.keep(prompt(0), 0);  // used again
    tier.keep(prompt(3), 3);
    tier->close();
    EXPECT_EQ(tier->stats().bytes, 3 * kEach);
    EXPECT_EQ(tier->stats().evicted, 2u);
    EXPECT_EQ(tier->find(prompt(1), "", 0).tokens, 0u);
    for (int i : {0, 2, 3}) EXPECT_EQ(tier->find(prompt(i), "", 0).tokens, 4u) << i;
  }
  // Counted from the folder, and a smaller limit holds at once.
  Tier tier(cache(), kEach);
  EXPECT_LE(tier->stats().bytes, kEach);
  EXPECT_EQ(tier->find(prompt(3), "", 0).tokens, 4u);
  EXPECT_EQ(files(".page").size() + files(".row").size(), 2u);
  Tier none(folder_ / "none", kPageFile - 1);
  EXPECT_EQ(none.keep(prompt(0), 0), std::vector<bool>(2)) << "larger than the limit";
}

// Written before the clock was set back: what is used gets a time of now, or it would never go.
TEST_F(DiskTiers, AUseIsStampedWhereverTheClockStoodBefore) {
  using Time = fs::file_time_type;
  const auto day = std::chrono::hours(24);
  for (const auto shift : {-day, day}) {
    fill();
    for (const fs::path& file : files(".page"))
      fs::last_write_time(file, Time::clock::now() + shift);
    fill();
    for (const fs::path& file : files(".page")) {
      const auto age = Time::clock::now() - fs::last_write_time(file);
      EXPECT_LT(age > age.zero() ? age : -age, day / 2) << file;
    }
  }
}

TEST_F(DiskTiers, WhatAPrefixStandsOnGoesLast) {
  Tier tier(cache(), 2 * kPageFile + kRowFile);
  tier.keep(kPrompt, 1);
  tier.keep({50, 51, 52, 53}, 2);  // needs a page and a row
  tier->close();
  const EntryKey first = page_key(root_key(shape().identity, ""), std::span(kPrompt).first(4));
  EXPECT_TRUE(fs::exists(entries() / page_name(first)));
}

TEST_F(DiskTiers, RemainsOfAKilledWriterGoAndOtherFilesStay) {
  fill();
  const std::string page = files(".page")[0].filename().string();
  for (const std::string& name :
       {temporary_name(page), std::string("notes.txt"), std::string(".hidden"), page + ".bak"})
    std::ofstream(entries() / name) << "x";
  fs::create_directory(entries() / page_name({}));
  Tier tier(cache());
  EXPECT_FALSE(fs::exists(entries() / temporary_name(page)));
  EXPECT_TRUE(fs::exists(entries() / "notes.txt"));
  EXPECT_TRUE(fs::exists(entries() / ".hidden"));
  EXPECT_EQ(tier->stats().pages, 2u);
  EXPECT_EQ(tier.load(kPrompt, 1), 10u);
}

TEST_F(DiskTiers, OneProcessHasAFolder) {
  std::optional<Tier> tier(std::in_place, cache());
  const auto open = [&] { Tier second(cache()); };
  const Error error = error_of(open);
  EXPECT_EQ(code_name(error.code()), code_name(Code::kExists));
  EXPECT_NE(error.message().find("process " + std::to_string(::getpid())), std::string::npos)
      << error.message();
  tier.reset();
  open();
}

TEST_F(DiskTiers, AFolderIsOursAlone) {
  fill();
  const auto mode = [](const fs::path& path) {
    struct stat status;
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 0777;
  };
  EXPECT_EQ(mode(cache()), 0700u);
  EXPECT_EQ(mode(entries()), 0700u);
  for (const auto& file : fs::directory_iterator(entries()))
    EXPECT_EQ(mode(file.path()), 0600u) << file.path();
  ASSERT_EQ(::chmod(entries().c_str(), 0755), 0);
  Tier tier(cache());
  EXPECT_EQ(mode(entries()), 0700u);
}

TEST_F(DiskTiers, AFolderThatCannotBeUsedIsRefused) {
  folder_.write("file", "x");
  const Error error = error_of([&] { Tier tier(folder_ / "file"); });
  EXPECT_EQ(code_name(error.code()), code_name(Code::kWrite));
  EXPECT_NE(error.message().find("--cache-dir"), std::string::npos);
}

// A limit on file sizes stands for a full disk: a write ends early, then fails.
TEST_F(DiskTiers, AnErrorWhileWritingSwitchesItOff) {
  fill();
  Tier tier(cache());
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{4096 + 100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  tier.keep({70, 71, 72, 73, 74}, 9);
  tier->close();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(tier->stats().off);
  EXPECT_EQ(tier->find(kPrompt, "", 0).tokens, 0u);
  EXPECT_EQ(tier->take_released().size(), 2u) << "nobody waits for it";
  EXPECT_EQ(tier.keep(kPrompt, 1), std::vector<bool>(3));
  for (const auto& file : fs::directory_iterator(entries()))
    EXPECT_FALSE(is_temporary_name(file.path().filename().string()));
}

TEST_F(DiskTiers, QueuedWritesGiveWay) {
  Tier tier(cache());
  size_t held = 0;
  for (int i = 0; i < 300; ++i)
    held += static_cast<size_t>(std::ranges::count(tier.keep({i, 1, 2, 3}, i), true));
  tier->cancel_writes();
  EXPECT_EQ(tier->take_released().size(), held) << "all came back at once";
  tier->close();
  EXPECT_EQ(tier->take_released().size(), 0u);
  EXPECT_LE(tier->stats().written, held);
}

}  // namespace
}  // namespace flare::runtime
