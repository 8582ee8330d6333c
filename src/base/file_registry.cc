// Slots claimed by compare-and-swap: free → being filled → in use → free.
#include "base/file_registry.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <span>

namespace flare {
namespace {

constexpr uintptr_t kFree = 0;
constexpr uintptr_t kFilling = 1;
constexpr uintptr_t kUsed = 2;  // or more: the first address of a mapping

static_assert(std::atomic<uintptr_t>::is_always_lock_free, "read inside signal handlers");

struct Slot {
  std::atomic<uintptr_t> state{kFree};
  std::atomic<uintptr_t> end{0};
  char path[PATH_MAX];  // written while filling
};

// Pages of slots that were never used take no memory.
Slot mappings[4096];
Slot temporaries[256];

// Fills a free slot, if there is one.
void claim(std::span<Slot> slots, const std::string& path, uintptr_t state, uintptr_t end) {
  if (path.size() >= PATH_MAX) return;
  for (Slot& slot : slots) {
    uintptr_t free = kFree;
    if (!slot.state.compare_exchange_strong(free, kFilling, std::memory_order_acquire)) continue;
    std::ranges::copy(path, slot.path);
    slot.path[path.size()] = '\0';
    slot.end.store(end, std::memory_order_relaxed);
    slot.state.store(state, std::memory_order_release);
    return;
  }
}

uintptr_t address_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

void note_mapping(Bytes bytes, const std::string& path) {
  if (bytes.empty()) return;
  std::string shown = path;
  std::ranges::replace_if(shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  const uintptr_t begin = address_of(bytes.data());
  claim(mappings, shown, begin, begin + bytes.size());
}

void forget_mappings(Bytes bytes) {
  const uintptr_t begin = address_of(bytes.data());
  for (Slot& slot : mappings) {
    const uintptr_t start = slot.state.load(std::memory_order_acquire);
    if (start >= kUsed && start >= begin && start - begin < bytes.size())
      slot.state.store(kFree, std::memory_order_release);
  }
}

const char* path_of_mapping_at(const void* address) {
  const uintptr_t at = address_of(address);
  for (const Slot& slot : mappings) {
    const uintptr_t begin = slot.state.load(std::memory_order_acquire);
    if (begin < kUsed || at < begin) continue;
    if (at < slot.end.load(std::memory_order_relaxed)) return slot.path;
  }
  return nullptr;
}

void note_temporary(const std::string& path) { claim(temporaries, path, kUsed, 0); }

void forget_temporary(const std::string& path) {
  for (Slot& slot : temporaries)
    if (slot.state.load(std::memory_order_acquire) == kUsed && path == slot.path)
      slot.state.store(kFree, std::memory_order_release);
}

void unlink_temporaries() {
  for (const Slot& slot : temporaries)
    if (slot.state.load(std::memory_order_acquire) == kUsed) ::unlink(slot.path);
}

}  // namespace flare
