// The prefix cache on disk: a bounded folder of pages and continuation rows that outlives a server.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/cache/disk_entry.h"

namespace flare::runtime {

struct DiskTierOptions {
  std::filesystem::path folder;  // entries lie in its subfolder "prefixes"
  uint64_t limit_bytes = 0;      // of all entries together
  // A disk that answers nothing: how long a prefix is waited for before it is computed instead.
  std::chrono::milliseconds patience{5000};
  std::function<void()> before_load;  // for tests: on the reading thread, may block
};

// What entries of this model hold.
struct DiskTierShape {
  EntryKey identity;
  uint64_t page_bytes = 0, row_bytes = 0;  // 0: the model has none
  uint32_t page_tokens = 0;
  bool needs_rows = false;  // pages alone are no frontier
};

// Content-addressed and best effort: an entry is written under another name and renamed, never
// synced, and verified whenever it is read; what is not as it should be is a miss and is removed.
// Beyond the limit the longest unused entries go. One process has the folder, by a lock on a file
// in it. An error while writing switches the tier off with one line in the log.
//
// Public functions: the engine thread. Reading and writing happen on a thread each; what they are
// given stays valid until they give it back.
class DiskTier {
 public:
  // Makes the folder if it is not there (0700), removes what an interrupted writer left, counts
  // what is there. `on_loaded` is called on the reading thread after every load, `on_written` on
  // the writing thread whenever nothing waits for it any more. Errors: kWrite (not usable, or not
  // ours alone), kExists (another process has it).
  DiskTier(const DiskTierOptions& options, const DiskTierShape& shape,
           std::function<void()> on_loaded, std::function<void()> on_written = {});
  // As close().
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  // The furthest frontier in `tokens` that can be reached with the first `held_pages` pages, which
  // the caller has, and what lies on disk.
  struct Found {
    uint32_t tokens = 0;  // 0: none
    uint32_t pages = 0;   // full pages before it
    bool row = false;     // a row is to be read too
  };
  Found find(std::span<const int32_t> tokens, std::string_view salt, uint32_t held_pages) const;

  // Reads pages [first, first + pages.size()) of `tokens` and a row behind all of them (null: none)
  // into memory of the caller; one load at a time.
  void load(std::span<const int32_t> tokens, std::string_view salt, uint32_t first,
            std::vector<std::byte*> pages, std::byte* row);
  // How it went, once it is done.
  struct Loaded {
    uint32_t pages = 0;  // of those asked for, from the first
    bool row = false;
  };
  std::optional<Loaded> take_loaded();

  // What a conversation has, page after page with the rows behind each: written unless it is there
  // already, and counted as used. data: in memory of the caller, who keeps it as it is until it
  // comes back from take_released().
  struct Item {
    EntryKind kind = EntryKind::kPage;
    EntryKey parent;
    std::span<const int32_t> tokens;
    const std::byte* data = nullptr;
  };
  // result[i]: whether items[i].data is held from now on.
  std::vector<bool> keep(std::span<const Item> items);
  struct Released {
    EntryKind kind = EntryKind::kPage;
    const std::byte* data = nullptr;
  };
  std::vector<Released> take_released();
  // Drops what is queued, so that take_released() gives everything that was held back at once.
  void cancel_writes();
  // Waits until all is written and loaded, for some seconds at most.
  void flush();
  // The same; then nothing more is. A read or write that the disk does not end holds it up.
  void close();

  struct Stats {
    uint64_t bytes = 0, limit_bytes = 0;
    uint32_t pages = 0, rows = 0;
    uint64_t written = 0, evicted = 0, loaded = 0, damaged = 0;  // entries
    bool off = false;                                            // an error has switched it off
  };
  Stats stats() const;  // any thread
  const DiskTierShape& shape() const { return shape_; }
  std::chrono::milliseconds patience() const { return options_.patience; }

 private:
  struct Entry {
    uint64_t bytes = 0;
    uint64_t use = 0;     // number of its last use
    int64_t stamp_s = 0;  // when its file says it was used, seconds
  };
  struct Load {
    std::vector<int32_t> tokens;
    std::string salt;
    uint32_t first = 0;
    std::vector<std::byte*> pages;
    std::byte* row = nullptr;
  };
  struct Write {
    std::string name;
    Item item;
    std::vector<int32_t> tokens;  // item.tokens points here
    uint64_t use = 0;
    int64_t stamp_ns = 0;
  };
  class Descriptor;

  void open_folder(const std::filesystem::path& folder);
  void lock_folder();
  void scan();
  void read_loop();
  void write_loop();
  Loaded run_load(const Load& load);
  bool read_entry(const std::string& name, const EntryFacts& facts, std::byte* out);
  std::string read_problem(const std::string& name, const EntryFacts& facts, std::byte* out) const;
  void run_write(Write& write, std::unique_lock<std::mutex>& lock);
  std::string write_file(const Write& write, const EntryFacts& facts);
  std::vector<std::string> make_room(uint64_t bytes);
  void remove_entry(const std::string& name);
  void set_use(std::map<std::string, Entry>::iterator entry, uint64_t use);
  void switch_off(const std::string& why);
  uint64_t entry_bytes(const Item& item) const;
  EntryFacts facts_of(EntryKind kind, const EntryKey& parent,
                      std::span<const int32_t> tokens) const;

  const DiskTierOptions options_;
  const DiskTierShape shape_;
  const std::function<void()> on_loaded_, on_written_;
  std::filesystem::path path_;
  int folder_ = -1, lock_ = -1;
  std::vector<std::byte> staging_;  // of the writing thread

  // Guards what follows.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> entries_;  // by name
  std::map<uint64_t, std::string> by_use_;
  uint64_t uses_ = 0;
  uint32_t n_rows_ = 0;  // among entries_
  uint64_t bytes_ = 0;   // of entries, and of the one that is being written
  std::optional<Load> load_;
  bool loading_ = false;
  std::optional<Loaded> loaded_;
  std::deque<Write> writes_;
  std::set<std::string> queued_;  // names in writes_, and of the one that is being written
  std::vector<std::pair<std::string, int64_t>> stale_;  // files whose stamp is to be renewed
  bool copying_ = false, writing_ = false;
  std::vector<Released> released_;
  Stats counters_;
  bool off_ = false, closing_ = false;

  std::thread reader_, writer_;
};

}  // namespace flare::runtime
