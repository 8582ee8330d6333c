// Slots claimed by compare-and-swap: free → being filled → in use → free.
#include "base/file_registry.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <new>

namespace flare {
namespace {

constexpr uintptr_t kFree = 0;
constexpr uintptr_t kFilling = 1;
constexpr uintptr_t kUsed = 2;  // or more: the first address of a mapping

static_assert(std::atomic<uintptr_t>::is_always_lock_free, "read inside signal handlers");

struct Slot {
  std::atomic<uintptr_t> state{kFree};
  std::atomic<uintptr_t> end{0};
  // PATH_MAX bytes from the slot's first use on, written while filling. They are never freed: a
  // handler may read them while another thread forgets them.
  std::atomic<char*> path{nullptr};
};

template <size_t kSlots>
struct Table {
  Slot slots[kSlots];

  // Fills a free slot, if there is one.
  void claim(const std::string& path, uintptr_t state, uintptr_t end) {
    if (path.size() >= PATH_MAX) return;
    for (Slot& slot : slots) {
      uintptr_t free = kFree;
      if (!slot.state.compare_exchange_strong(free, kFilling, std::memory_order_acquire)) continue;
      char* bytes = slot.path.load(std::memory_order_relaxed);
      if (bytes == nullptr) bytes = new (std::nothrow) char[PATH_MAX];
      if (bytes == nullptr) return slot.state.store(kFree, std::memory_order_relaxed);
      std::ranges::copy(path, bytes);
      bytes[path.size()] = '\0';
      slot.path.store(bytes, std::memory_order_relaxed);
      slot.end.store(end, std::memory_order_relaxed);
      slot.state.store(state, std::memory_order_release);
      return;
    }
  }
};

Table<4096> mappings;
Table<256> temporaries;

uintptr_t address_of(const void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

void note_mapping(Bytes bytes, const std::string& path) {
  if (bytes.empty()) return;
  std::string shown = path;
  std::ranges::replace_if(shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  const uintptr_t begin = address_of(bytes.data());
  mappings.claim(shown, begin, begin + bytes.size());
}

void forget_mappings(Bytes bytes) {
  const uintptr_t begin = address_of(bytes.data());
  for (Slot& slot : mappings.slots) {
    const uintptr_t start = slot.state.load(std::memory_order_acquire);
    if (start >= kUsed && start >= begin && start - begin < bytes.size())
      slot.state.store(kFree, std::memory_order_release);
  }
}

const char* path_of_mapping_at(const void* address) {
  const uintptr_t at = address_of(address);
  for (const Slot& slot : mappings.slots) {
    const uintptr_t begin = slot.state.load(std::memory_order_acquire);
    if (begin < kUsed || at < begin) continue;
    if (at < slot.end.load(std::memory_order_relaxed))
      return slot.path.load(std::memory_order_relaxed);
  }
  return nullptr;
}

void note_temporary(const std::string& path) { temporaries.claim(path, kUsed, 0); }

void forget_temporary(const std::string& path) {
  for (Slot& slot : temporaries.slots)
    if (slot.state.load(std::memory_order_acquire) == kUsed &&
        path == slot.path.load(std::memory_order_relaxed))
      slot.state.store(kFree, std::memory_order_release);
}

void unlink_temporaries() {
  for (const Slot& slot : temporaries.slots)
    if (slot.state.load(std::memory_order_acquire) == kUsed)
      ::unlink(slot.path.load(std::memory_order_relaxed));
}

}  // namespace flare
