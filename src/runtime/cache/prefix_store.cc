// What moves between the tree and the tier.
#include "runtime/cache/prefix_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace flare::runtime {
namespace {

// Reading from disk must save at least so many tokens, and a row on disk too: a row is as large as
// the state of a sequence, some ten megabytes for a recurrent model. Low enough that the row before
// an answer is kept beside the one behind it, for templates that render answers otherwise later.
constexpr uint32_t kLeastSaving = 16;
constexpr uint32_t kLeastRowStep = 16;
// A load that finds damage is tried again without what was damaged, not for ever.
constexpr uint32_t kMostLoads = 4;

}  // namespace

PrefixStore::PrefixStore(const package::Rank& rank, BlockPool& pages, BlockPool& rows,
                         uint32_t max_snapshots, std::unique_ptr<DiskTier> tier)
    : pages_(pages),
      rows_(rows),
      page_tokens_(rank.page.tokens),
      tree_(rank, pages, rows, max_snapshots),
      tier_(std::move(tier)) {}

PrefixStore::~PrefixStore() { close(); }

void PrefixStore::close() {
  if (!tier_) return;
  tier_->close();
  poll();
}

void PrefixStore::collect_released() {
  if (!tier_) return;
  for (const DiskTier::Released& released : tier_->take_released())
    (released.kind == EntryKind::kPage ? pages_ : rows_)
        .release(const_cast<std::byte*>(released.data));
}

void PrefixStore::make_room(uint32_t n_pages) {
  if (pages_.available() >= n_pages) return;
  collect_released();
  tree_.make_room(n_pages);
  if (pages_.available() >= n_pages || !tier_) return;
  tier_->cancel_writes();
  collect_released();
  tree_.make_room(n_pages);
}

uint32_t PrefixStore::loading_pages() const {
  return load_ ? static_cast<uint32_t>(load_->pages.size()) : 0;
}

bool PrefixStore::ready(std::span<const int32_t> prompt, std::string_view salt, DiskWait* wait) {
  if (!tier_ || prompt.empty()) return true;
  if (load_ && is_late()) return true;
  if (load_ && wait->load_id == load_id_) return false;
  if (wait->loads >= kMostLoads) return true;
  const std::span<const int32_t> usable = prompt.first(prompt.size() - 1);
  const PrefixTree::Held held = tree_.held(usable, salt);
  const DiskTier::Found found = tier_->find(usable, salt, held.pages);
  if (found.tokens < held.frontier + kLeastSaving) return true;
  if (load_) {  // somebody else's, maybe of the same beginning
    wait->load_id = load_id_;
    return false;
  }
  if (!begin_load(usable, salt, found, held.pages)) return true;
  ++wait->loads;
  wait->load_id = load_id_;
  return false;
}

// Whether what is being read takes longer than anybody should wait for it.
bool PrefixStore::is_late() {
  if (std::chrono::steady_clock::now() - load_began_ < tier_->patience()) return false;
  if (!std::exchange(told_of_delay_, true))
    log_warn("prefix cache: the disk has not answered for {} ms; prompts are computed instead",
             tier_->patience().count());
  return true;
}

// False where memory for it cannot be had.
bool PrefixStore::begin_load(std::span<const int32_t> usable, std::string_view salt,
                             const DiskTier::Found& found, uint32_t held_pages) {
  const uint32_t first = std::min(held_pages, found.pages);
  const uint32_t n_pages = found.pages - first;
  make_room(n_pages);
  if (pages_.available() < n_pages) return false;
  std::byte* const row = found.row ? tree_.take_row() : nullptr;
  if (found.row && row == nullptr) return false;
  const auto tokens = usable.first(found.tokens);
  load_.emplace(Load{{tokens.begin(), tokens.end()}, std::string(salt), first, {}, row});
  for (uint32_t i = 0; i < n_pages; ++i) load_->pages.push_back(pages_.acquire());
  ++load_id_;
  load_began_ = std::chrono::steady_clock::now();
  told_of_delay_ = false;
  tier_->load(load_->tokens, salt, first, load_->pages, row);
  return true;
}

void PrefixStore::poll() {
  collect_released();
  if (!load_) return;
  const auto loaded = tier_->take_loaded();
  if (!loaded) return;
  const Load load = std::move(*load_);
  load_.reset();
  const std::span<std::byte* const> pages = load.pages;
  for (std::byte* page : pages.subspan(loaded->pages)) pages_.release(page);
  if (load.row != nullptr && !loaded->row) tree_.return_row(load.row);
  std::span<const int32_t> tokens = load.tokens;
  if (!loaded->row) tokens = tokens.first(size_t{load.first + loaded->pages} * page_tokens_);
  tree_.insert(tokens, load.salt, load.first, pages.first(loaded->pages),
               loaded->row ? load.row : nullptr);
}

// The deepest snapshot and those that lie far enough before the next; pages up to it, or all of
// them where a page's end is a frontier. From the root on.
std::vector<DiskTier::Item> PrefixStore::worth_keeping(std::span<const int32_t> tokens,
                                                       std::string_view salt) {
  struct Candidate {
    DiskTier::Item item;
    size_t frontier;
  };
  std::vector<Candidate> all;  // by frontier, a row behind the page at the same one
  EntryKey key = root_key(tier_->shape().identity, salt);
  size_t begin = 0;
  tree_.visit(tokens, salt,
              [&](std::span<const int32_t> page_tokens, const std::byte* page,
                  std::span<PrefixTree::SnapshotView> snapshots) {
                if (page != nullptr) {
                  begin += page_tokens_;
                  all.push_back({{EntryKind::kPage, key, page_tokens, page}, begin});
                  key = page_key(key, page_tokens);
                }
                std::ranges::sort(snapshots, {}, [](const auto& s) { return s.tail.size(); });
                for (const PrefixTree::SnapshotView& s : snapshots)
                  all.push_back({{EntryKind::kRow, key, s.tail, s.row}, begin + s.tail.size()});
              });
  const bool needs_rows = tier_->shape().needs_rows;
  std::vector<DiskTier::Item> kept;
  std::optional<size_t> next;  // frontier of the row that is kept behind this one
  for (auto candidate = all.rbegin(); candidate != all.rend(); ++candidate) {
    const auto& [item, frontier] = *candidate;
    if (item.kind == EntryKind::kPage ? needs_rows && !next
                                      : next && (!needs_rows || frontier + kLeastRowStep > *next))
      continue;
    if (item.kind == EntryKind::kRow) next = frontier;
    kept.push_back(item);
  }
  std::ranges::reverse(kept);
  return kept;
}

void PrefixStore::keep_on_disk(std::span<const int32_t> tokens, std::string_view salt) {
  if (!tier_) return;
  collect_released();
  const std::vector<DiskTier::Item> items = worth_keeping(tokens, salt);
  const std::vector<bool> held = tier_->keep(items);
  for (size_t i = 0; i < items.size(); ++i)
    if (held[i])
      (items[i].kind == EntryKind::kPage ? pages_ : rows_)
          .retain(const_cast<std::byte*>(items[i].data));
}

std::optional<DiskTier::Stats> PrefixStore::disk_stats() const {
  if (!tier_) return std::nullopt;
  return tier_->stats();
}

}  // namespace flare::runtime
