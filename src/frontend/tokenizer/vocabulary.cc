// A hash table of spellings over one text arena.
#include "frontend/tokenizer/vocabulary.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "frontend/tokenizer/piece_cache.h"

namespace flare::frontend::tokenizer {

Vocabulary::Vocabulary(const Json& json, std::string_view where) {
  if (!json.is_object())
    throw Error(Code::kInvalid, "{}: {} found, an object expected", where, json.kind_name());
  const Json::Object& members = json.as_object();
  if (members.size() > kMaxIds)
    throw Error(Code::kInvalid, "{}: {} entries, at most {} expected", where, members.size(),
                kMaxIds);
  size_t bytes = 0;
  uint32_t limit = 0;
  for (const auto& [spelling, id] : members) {
    bytes += spelling.size();
    if (!id.is_integer() || std::signbit(id.as_double()) || id.as_double() >= kMaxIds)
      throw Error(Code::kInvalid, "{}: id {} of {}, an integer in [0, {}) expected", where,
                  quote(id.to_text()), quote(spelling), kMaxIds);
    limit = std::max(limit, static_cast<uint32_t>(id.as_u64()) + 1);
  }
  entries_.resize(limit);
  reserve(members.size(), bytes, where);
  for (const auto& [spelling, value] : members) {
    const auto id = static_cast<int32_t>(value.as_u64());
    if (entries_[id].used)
      throw Error(Code::kInvalid, "{}: id {} belongs to {} and {}, one token expected", where, id,
                  quote(this->spelling(id)), quote(spelling));
    insert(spelling, id);
  }
}

Vocabulary::Vocabulary(const std::vector<std::string_view>& spellings, std::string_view where) {
  if (spellings.size() > kMaxIds)
    throw Error(Code::kInvalid, "{}: {} entries, at most {} expected", where, spellings.size(),
                kMaxIds);
  size_t bytes = 0;
  for (const std::string_view spelling : spellings) bytes += spelling.size();
  entries_.resize(spellings.size());
  reserve(spellings.size(), bytes, where);
  for (size_t id = 0; id < spellings.size(); ++id) insert(spellings[id], static_cast<int32_t>(id));
}

void Vocabulary::reserve(size_t count, size_t bytes, std::string_view where) {
  if (bytes > UINT32_MAX / 2)
    throw Error(Code::kInvalid, "{}: {} bytes of spellings, less than 2^31 expected", where, bytes);
  text_.reserve(bytes);
  slots_.resize(std::bit_ceil(count * 2 + 2));
}

void Vocabulary::insert(std::string_view spelling, int32_t id) {
  Entry& entry = entries_[id];
  entry.begin = static_cast<uint32_t>(text_.size());
  entry.bytes = static_cast<uint32_t>(spelling.size());
  entry.used = 1;
  text_.insert(text_.end(), spelling.begin(), spelling.end());
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = hash_of(spelling);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & mask;
  while (slots_[slot].id != kNone &&
         (slots_[slot].hash != tag || this->spelling(slots_[slot].id) != spelling))
    slot = (slot + 1) & mask;
  slots_[slot] = {id, tag};
}

int32_t Vocabulary::find(std::string_view spelling) const {
  const uint64_t hash = hash_of(spelling);
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t slot = hash & mask; slots_[slot].id != kNone; slot = (slot + 1) & mask)
    if (slots_[slot].hash == tag && this->spelling(slots_[slot].id) == spelling)
      return slots_[slot].id;
  return kNone;
}

}  // namespace flare::frontend::tokenizer
