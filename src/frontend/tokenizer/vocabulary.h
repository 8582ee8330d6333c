// The model's vocabulary: spellings and ids, both ways.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/huge_vector.h"
#include "frontend/tokenizer/component.h"

namespace flare::frontend::tokenizer {

// Immutable after construction.
class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;

  // {"spelling": id, …}. kInvalid for ids that repeat or reach kMaxIds.
  Vocabulary(const Json& json, std::string_view where);

  // Spellings in the order of their ids. Of equal ones find() knows the last.
  Vocabulary(const std::vector<std::string_view>& spellings, std::string_view where);

  // The id of a spelling, or kNone.
  int32_t find(std::string_view spelling) const;
  // The same for who thinks to know the id: fast if it is `guess`.
  int32_t find_near(std::string_view spelling, int32_t guess) const {
    return used(guess) && this->spelling(guess) == spelling ? guess : find(spelling);
  }
  // Spelling of an id in [0, id_limit()); empty and not used if no entry has it.
  std::string_view spelling(int32_t id) const {
    const Entry& entry = entries_[id];
    return {text_.data() + entry.begin, entry.bytes};
  }
  bool used(int32_t id) const { return id >= 0 && id < id_limit() && entries_[id].used; }
  int32_t id_limit() const { return static_cast<int32_t>(entries_.size()); }

 private:
  struct Entry {
    uint32_t begin = 0;
    uint32_t bytes : 31 = 0;
    uint32_t used : 1 = 0;
  };
  struct Slot {
    int32_t id = kNone;
    uint32_t hash = 0;
  };

  void reserve(size_t count, size_t bytes, std::string_view where);
  void insert(std::string_view spelling, int32_t id);

  HugeVector<char> text_;
  HugeVector<Entry> entries_;
  HugeVector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace flare::frontend::tokenizer
