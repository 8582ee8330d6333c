// The folder, its index, and the two threads.
#include "runtime/cache/disk_tier.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"

namespace flare::runtime {
namespace {

namespace fs = std::filesystem;
constexpr const char* kLockName = "lock";
constexpr auto kFlushTime = std::chrono::seconds(10);
// Entries that wait to be written hold pages in memory: more of them are left for the next time.
constexpr size_t kMostQueued = 1024;
// A file's time of use is written anew when it is this old, or as far ahead: clocks are set back.
constexpr int64_t kStampAge_s = 60;
constexpr std::string_view kNoFile = "no such file";

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}
constexpr int64_t kNanoseconds = 1'000'000'000;

Error folder_error(const fs::path& path, std::string_view what) {
  return Error(Code::kWrite, "--cache-dir {}: {}", path.string(), what)
      .set_hint("choose a folder of your own on a disk with room, or leave --cache-dir out");
}

std::string reason() { return std::strerror(errno); }

void stamp(int folder, const char* name, int64_t ns) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                             {.tv_sec = ns / kNanoseconds, .tv_nsec = ns % kNanoseconds}};
  ::utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW);  // only an order: no loss if it fails
}

// Empty when all was written.
std::string write_all(int fd, Bytes header, Bytes payload) {
  for (Bytes part : {header, payload})
    while (!part.empty()) {
      const ssize_t n = ::write(fd, part.data(), std::min<size_t>(part.size(), 1u << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n == 0 ? "nothing was written" : reason();
      part = part.subspan(static_cast<size_t>(n));
    }
  return {};
}

bool read_all(int fd, MutableBytes out) {
  while (!out.empty()) {
    const ssize_t n = ::read(fd, out.data(), std::min<size_t>(out.size(), 1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

class DiskTier::Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

DiskTier::DiskTier(const DiskTierOptions& options, const DiskTierShape& shape,
                   std::function<void()> on_loaded, std::function<void()> on_written)
    : options_(options),
      shape_(shape),
      on_loaded_(std::move(on_loaded)),
      on_written_(std::move(on_written)) {
  try {
    open_folder(options.folder);
    lock_folder();
    scan();
    staging_.resize(std::max(shape.page_bytes, shape.row_bytes));
  } catch (...) {
    if (lock_ >= 0) ::close(lock_);
    if (folder_ >= 0) ::close(folder_);
    throw;
  }
  counters_.limit_bytes = options.limit_bytes;
  reader_ = std::thread([this] { read_loop(); });
  writer_ = std::thread([this] { write_loop(); });
}

DiskTier::~DiskTier() {
  close();
  ::close(lock_);
  ::close(folder_);
}

void DiskTier::open_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  path_ = folder / "prefixes";
  for (const fs::path& path : {folder, path_})
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      throw folder_error(folder, "cannot be made: " + reason());
  folder_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  struct stat facts;
  if (folder_ < 0 || ::fstat(folder_, &facts) != 0)
    throw folder_error(folder, "cannot be opened: " + reason());
  // Entries hold what was said; nobody else may read or plant them.
  if (facts.st_uid != ::geteuid()) throw folder_error(path_, "belongs to another user");
  if ((facts.st_mode & 0777) != 0700 && ::fchmod(folder_, 0700) != 0)
    throw folder_error(path_, "is open to others and cannot be closed: " + reason());
}

void DiskTier::lock_folder() {
  lock_ = ::openat(folder_, kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) throw folder_error(options_.folder, "cannot be written: " + reason());
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = fmt::format("{}\n", ::getpid());
    if (::ftruncate(lock_, 0) == 0 && ::pwrite(lock_, pid.data(), pid.size(), 0) >= 0) return;
    throw folder_error(options_.folder, "cannot be written: " + reason());
  }
  char pid[16] = {};
  const ssize_t n = ::pread(lock_, pid, sizeof pid - 1, 0);
  throw Error(Code::kExists, "--cache-dir {}: process {} uses it, one at a time expected",
              options_.folder.string(),
              n > 0 ? std::string_view(pid).substr(0, strcspn(pid, "\n")) : "?")
      .set_hint("give each server a folder of its own");
}

// What is there, the longest unused first; remains of interrupted writers go.
void DiskTier::scan() {
  const int fd = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  if (!listing) throw folder_error(options_.folder, "cannot be listed: " + reason());
  std::vector<std::pair<int64_t, std::string>> found;
  while (const dirent* file = ::readdir(listing.get())) {
    const std::string name = file->d_name;
    if (is_temporary_name(name)) ::unlinkat(folder_, name.c_str(), 0);
    struct stat facts;
    if (!is_entry_name(name) ||
        ::fstatat(folder_, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(facts.st_mode))
      continue;
    Entry entry;
    entry.bytes = static_cast<uint64_t>(facts.st_size);
    entry.stamp_s = facts.st_mtim.tv_sec;
    bytes_ += entry.bytes;
    found.emplace_back(facts.st_mtim.tv_sec * kNanoseconds + facts.st_mtim.tv_nsec, name);
    n_rows_ += tail_tokens_of(name) >= 0;
    entries_.emplace(name, entry);
  }
  std::ranges::sort(found);
  for (const auto& [when, name] : found) set_use(entries_.find(name), ++uses_);
  for (const std::string& name : make_room(0)) ::unlinkat(folder_, name.c_str(), 0);
}

// Under the mutex, like all below that do not say otherwise.
void DiskTier::set_use(std::map<std::string, Entry>::iterator entry, uint64_t use) {
  by_use_.erase(entry->second.use);
  entry->second.use = use;
  by_use_.emplace(use, entry->first);
}

void DiskTier::remove_entry(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return;
  bytes_ -= found->second.bytes;
  n_rows_ -= tail_tokens_of(name) >= 0;
  by_use_.erase(found->second.use);
  entries_.erase(found);
}

// Takes the longest unused entries out of the index until `bytes` more fit; the files are the
// caller's to remove.
std::vector<std::string> DiskTier::make_room(uint64_t bytes) {
  std::vector<std::string> gone;
  while (!by_use_.empty() && bytes_ + bytes > options_.limit_bytes) {
    gone.push_back(by_use_.begin()->second);
    remove_entry(gone.back());
    ++counters_.evicted;
  }
  return gone;
}

void DiskTier::switch_off(const std::string& why) {
  if (off_) return;
  off_ = true;
  log_error("--cache-dir {}: {}; prefixes are kept in memory alone from now on",
            options_.folder.string(), why);
}

EntryFacts DiskTier::facts_of(EntryKind kind, const EntryKey& parent,
                              std::span<const int32_t> tokens) const {
  return {kind, shape_.identity, parent, tokens,
          kind == EntryKind::kPage ? shape_.page_bytes : shape_.row_bytes};
}

uint64_t DiskTier::entry_bytes(const Item& item) const {
  return entry_header_bytes(item.tokens.size()) +
         (item.kind == EntryKind::kPage ? shape_.page_bytes : shape_.row_bytes);
}

DiskTier::Found DiskTier::find(std::span<const int32_t> tokens, std::string_view salt,
                               uint32_t held_pages) const {
  Found found;
  const std::lock_guard lock(mutex_);
  if (off_ || entries_.empty()) return found;
  EntryKey key = root_key(shape_.identity, salt);
  for (uint32_t depth = 0;; ++depth) {
    const auto begin = size_t{depth} * shape_.page_tokens;
    const std::span<const int32_t> rest = tokens.subspan(begin);
    if (!shape_.needs_rows && depth > 0) found = {static_cast<uint32_t>(begin), depth, false};
    const std::string prefix = row_prefix(key);
    std::map<size_t, std::string> names;  // by the tail's length: many rows may stand here
    for (auto it = entries_.lower_bound(prefix);
         it != entries_.end() && it->first.starts_with(prefix); ++it) {
      const int64_t tail = tail_tokens_of(it->first);
      if (tail < 0 || std::cmp_greater(tail, rest.size())) continue;
      const auto n = static_cast<size_t>(tail);
      if (begin + n <= found.tokens) continue;
      std::string& name = names[n];
      if (name.empty()) name = row_name(key, rest.first(n));
      if (it->first == name) found = {static_cast<uint32_t>(begin + n), depth, true};
    }
    if (shape_.page_bytes == 0 || rest.size() < shape_.page_tokens) return found;
    key = page_key(key, rest.first(shape_.page_tokens));
    if (depth >= held_pages && !entries_.contains(page_name(key))) return found;
  }
}

void DiskTier::load(std::span<const int32_t> tokens, std::string_view salt, uint32_t first,
                    std::vector<std::byte*> pages, std::byte* row) {
  const std::lock_guard lock(mutex_);
  FLARE_ASSERT(!load_ && !loading_ && !loaded_);
  load_ = {{tokens.begin(), tokens.end()}, std::string(salt), first, std::move(pages), row};
  changed_.notify_all();
}

std::optional<DiskTier::Loaded> DiskTier::take_loaded() {
  const std::lock_guard lock(mutex_);
  return std::exchange(loaded_, std::nullopt);
}

void DiskTier::read_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return load_ || closing_; });
    if (!load_) return;
    const Load load = std::move(*load_);
    load_.reset();
    loading_ = true;
    lock.unlock();
    if (options_.before_load) options_.before_load();
    const Loaded loaded = run_load(load);
    lock.lock();
    loading_ = false;
    loaded_ = loaded;
    changed_.notify_all();
    lock.unlock();
    on_loaded_();
    lock.lock();
  }
}

// Without the mutex.
DiskTier::Loaded DiskTier::run_load(const Load& load) {
  Loaded loaded;
  EntryKey key = root_key(shape_.identity, load.salt);
  std::span<const int32_t> rest = load.tokens;
  const auto n_pages = load.first + static_cast<uint32_t>(load.pages.size());
  for (uint32_t i = 0; i < n_pages; ++i, rest = rest.subspan(shape_.page_tokens)) {
    const auto tokens = rest.first(shape_.page_tokens);
    const EntryKey parent = std::exchange(key, page_key(key, tokens));
    if (i < load.first) continue;
    if (!read_entry(page_name(key), facts_of(EntryKind::kPage, parent, tokens),
                    load.pages[i - load.first]))
      return loaded;
    ++loaded.pages;
  }
  if (load.row != nullptr)
    loaded.row = read_entry(row_name(key, rest), facts_of(EntryKind::kRow, key, rest), load.row);
  return loaded;
}

// Without the mutex.
bool DiskTier::read_entry(const std::string& name, const EntryFacts& facts, std::byte* out) {
  const std::string problem = read_problem(name, facts, out);
  const std::lock_guard lock(mutex_);
  if (problem.empty()) {
    ++counters_.loaded;
    return true;
  }
  remove_entry(name);
  if (problem == kNoFile) return false;  // evicted meanwhile, or somebody tidied up
  log_warn("prefix cache: {} removed: {}", name, problem);
  ++counters_.damaged;
  ::unlinkat(folder_, name.c_str(), 0);
  return false;
}

// Reads and verifies, without the mutex; empty if all is right, kNoFile if there is no such file.
std::string DiskTier::read_problem(const std::string& name, const EntryFacts& facts,
                                   std::byte* out) const {
  const Descriptor file(
      ::openat(folder_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return errno == ENOENT ? std::string(kNoFile) : reason();
  struct stat status;
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "it is not a file";
  std::vector<std::byte> header(entry_header_bytes(facts.tokens.size()));
  const uint64_t expected = header.size() + facts.payload_bytes;
  if (static_cast<uint64_t>(status.st_size) != expected)
    return fmt::format("{} bytes, {} expected", status.st_size, expected);
  Hash128 hash;
  if (!read_all(file.get(), header)) return "its header cannot be read";
  if (std::string problem = entry_problem(header, facts, &hash); !problem.empty()) return problem;
  const MutableBytes payload(out, facts.payload_bytes);
  if (!read_all(file.get(), payload)) return "it cannot be read";
  return xxh3_128(payload) == hash ? "" : "its contents are damaged";
}

std::vector<bool> DiskTier::keep(std::span<const Item> items) {
  std::vector<bool> held(items.size());
  const std::lock_guard lock(mutex_);
  if (off_ || closing_) return held;
  // What comes first is what the rest stands on: it goes last.
  uses_ += items.size();
  const int64_t now = now_ns();
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    std::string name = item.kind == EntryKind::kPage ? page_name(page_key(item.parent, item.tokens))
                                                     : row_name(item.parent, item.tokens);
    const uint64_t use = uses_ - i;
    const int64_t stamp_ns = now - static_cast<int64_t>(i) * 1000;
    if (const auto found = entries_.find(name); found != entries_.end()) {
      set_use(found, use);
      if (std::abs(now / kNanoseconds - found->second.stamp_s) >= kStampAge_s) {
        found->second.stamp_s = now / kNanoseconds;
        stale_.emplace_back(std::move(name), stamp_ns);
      }
      continue;
    }
    if (writes_.size() >= kMostQueued || entry_bytes(item) > options_.limit_bytes ||
        !queued_.insert(name).second)
      continue;
    Write& write = writes_.emplace_back();
    write.name = std::move(name);
    write.tokens.assign(item.tokens.begin(), item.tokens.end());
    write.item = item;
    write.use = use;
    write.stamp_ns = stamp_ns;
    held[i] = true;
  }
  changed_.notify_all();
  return held;
}

std::vector<DiskTier::Released> DiskTier::take_released() {
  const std::lock_guard lock(mutex_);
  return std::exchange(released_, {});
}

void DiskTier::cancel_writes() {
  std::unique_lock lock(mutex_);
  for (Write& write : writes_) {
    released_.push_back({write.item.kind, write.item.data});
    queued_.erase(write.name);
  }
  writes_.clear();
  // The copy of one entry: milliseconds.
  changed_.wait(lock, [this] { return !copying_; });
}

void DiskTier::write_loop() {
  // Whoever waits for an answer goes first.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 5);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !writes_.empty() || !stale_.empty() || closing_; });
    if (!stale_.empty()) {
      const auto stale = std::exchange(stale_, {});
      lock.unlock();
      for (const auto& [name, ns] : stale) stamp(folder_, name.c_str(), ns);
      lock.lock();
      changed_.notify_all();
      continue;
    }
    if (writes_.empty()) return;
    Write write = std::move(writes_.front());
    writes_.pop_front();
    writing_ = true;
    run_write(write, lock);
    writing_ = false;
    queued_.erase(write.name);
    changed_.notify_all();
    if (!writes_.empty() || !on_written_) continue;
    lock.unlock();
    on_written_();
    lock.lock();
  }
}

void DiskTier::run_write(Write& write, std::unique_lock<std::mutex>& lock) {
  write.item.tokens = write.tokens;
  const EntryFacts facts = facts_of(write.item.kind, write.item.parent, write.tokens);
  copying_ = true;
  lock.unlock();
  std::memcpy(staging_.data(), write.item.data, facts.payload_bytes);
  lock.lock();
  copying_ = false;
  released_.push_back({write.item.kind, write.item.data});
  changed_.notify_all();
  if (off_) return;
  Entry entry;
  entry.bytes = entry_bytes(write.item);
  entry.stamp_s = write.stamp_ns / kNanoseconds;
  const std::vector<std::string> gone = make_room(entry.bytes);
  bytes_ += entry.bytes;
  lock.unlock();
  for (const std::string& name : gone) ::unlinkat(folder_, name.c_str(), 0);
  const std::string problem = write_file(write, facts);
  lock.lock();
  if (!problem.empty()) {
    bytes_ -= entry.bytes;
    return switch_off(problem);
  }
  ++counters_.written;
  n_rows_ += write.item.kind == EntryKind::kRow;
  set_use(entries_.emplace(write.name, entry).first, write.use);
}

// Without the mutex. Empty when the entry has its name.
std::string DiskTier::write_file(const Write& write, const EntryFacts& facts) {
  const Bytes payload = Bytes(staging_).first(facts.payload_bytes);
  const std::vector<std::byte> header = entry_header(facts, xxh3_128(payload));
  const std::string temporary = temporary_name(write.name);
  ::unlinkat(folder_, temporary.c_str(), 0);
  const Descriptor file(::openat(folder_, temporary.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return "an entry cannot be made: " + reason();
  std::string problem = write_all(file.get(), header, payload);
  if (problem.empty()) {
    stamp(folder_, temporary.c_str(), write.stamp_ns);
    if (::renameat(folder_, temporary.c_str(), folder_, write.name.c_str()) == 0) return {};
    problem = reason();
  }
  ::unlinkat(folder_, temporary.c_str(), 0);
  return "an entry cannot be written: " + problem;
}

void DiskTier::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFlushTime, [this] {
    return writes_.empty() && !writing_ && !load_ && !loading_ && stale_.empty();
  });
}

void DiskTier::close() {
  flush();
  {
    const std::lock_guard lock(mutex_);
    for (const Write& write : writes_) released_.push_back({write.item.kind, write.item.data});
    writes_.clear();
    queued_.clear();
    closing_ = true;
    changed_.notify_all();
    if (loading_ || writing_)
      log_warn("--cache-dir {}: the disk does not answer; the end waits for it",
               options_.folder.string());
  }
  if (reader_.joinable()) reader_.join();
  if (writer_.joinable()) writer_.join();
}

DiskTier::Stats DiskTier::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = counters_;
  stats.bytes = bytes_;
  stats.off = off_;
  stats.rows = n_rows_;
  stats.pages = static_cast<uint32_t>(entries_.size()) - n_rows_;
  return stats;
}

}  // namespace flare::runtime
