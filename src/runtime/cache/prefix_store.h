// Prefixes as the engine asks for them: the tree in memory and, if there is one, the tier on disk.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/disk_tier.h"
#include "runtime/cache/prefix_tree.h"

namespace flare::runtime {

// What a waiting request remembers of its way through the tier.
struct DiskWait {
  uint32_t loads = 0;    // begun for it
  uint64_t load_id = 0;  // the one that it waits for
};

// Confined to the engine thread; the pools outlive it.
class PrefixStore {
 public:
  // `tier`: null for memory alone.
  PrefixStore(const package::Rank& rank, BlockPool& pages, BlockPool& rows, uint32_t max_snapshots,
              std::unique_ptr<DiskTier> tier = nullptr);
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  PrefixTree& tree() { return tree_; }
  const PrefixTree& tree() const { return tree_; }

  // As PrefixTree::make_room; what is waiting to be written gives way too.
  void make_room(uint32_t n_pages);

  // Whether memory holds all of a prompt that can be had: false while more of it is being read from
  // disk, or something else is that it has to wait for, within the tier's patience. Asked again
  // after poll() of every round.
  bool ready(std::span<const int32_t> prompt, std::string_view salt, DiskWait* wait);
  // Takes in what was read meanwhile, and back what was written.
  void poll();
  // Something is being read; its end calls the tier's on_loaded.
  bool loading() const { return load_.has_value(); }
  // Pages that cannot be had for sequences while it is.
  uint32_t loading_pages() const;
  // Has the pages and snapshots of a path written behind the answer, as far as they are worth it.
  void keep_on_disk(std::span<const int32_t> tokens, std::string_view salt);
  // Writes what is queued, for some seconds at most; no more is written or read after it.
  void close();

  // Any thread.
  std::optional<DiskTier::Stats> disk_stats() const;

 private:
  struct Load {
    std::vector<int32_t> tokens;  // up to the frontier
    std::string salt;
    uint32_t first = 0;  // page
    std::vector<std::byte*> pages;
    std::byte* row = nullptr;
  };
  bool begin_load(std::span<const int32_t> usable, std::string_view salt,
                  const DiskTier::Found& found, uint32_t held_pages);
  void collect_released();
  bool is_late();
  std::vector<DiskTier::Item> worth_keeping(std::span<const int32_t> tokens, std::string_view salt);

  BlockPool& pages_;
  BlockPool& rows_;
  const uint32_t page_tokens_;
  PrefixTree tree_;
  std::unique_ptr<DiskTier> tier_;
  std::optional<Load> load_;
  uint64_t load_id_ = 0;  // of load_, or of the last one
  std::chrono::steady_clock::time_point load_began_;
  bool told_of_delay_ = false;  // of load_
};

}  // namespace flare::runtime
