// Walking the double array, whose layout is that of the library Darts-clone.
#include "frontend/tokenizer/charsmap.h"

#include "base/bytes.h"
#include "base/error.h"

namespace flare::frontend::tokenizer {

Charsmap Charsmap::read(std::string_view blob, std::string_view where) {
  Charsmap out;
  if (blob.size() < 4)
    throw Error(Code::kInvalid, "{}: {} bytes, a size of 4 bytes expected first", where,
                blob.size());
  const std::span<const std::byte> bytes = as_bytes(blob);
  const uint32_t trie_bytes = load_le<uint32_t>(bytes.data());
  if (trie_bytes > blob.size() - 4 || trie_bytes % 4 != 0)
    throw Error(Code::kInvalid, "{}: a trie of {} bytes in {}, a multiple of 4 that fits expected",
                where, trie_bytes, blob.size());
  out.units_.resize(trie_bytes / 4);
  for (size_t i = 0; i < out.units_.size(); ++i)
    out.units_[i] = load_le<uint32_t>(bytes.data() + 4 + 4 * i);
  out.targets_ = blob.substr(4 + trie_bytes);
  return out;
}

template <typename Hit>
void Charsmap::sources(std::string_view text, size_t at, Hit&& hit) const {
  if (units_.empty()) return;
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  size_t node = offset(units_[0]);
  for (size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size()) return;
    const uint32_t unit = units_[node];
    if ((unit & (1u << 31 | 0xFF)) != byte) return;
    node ^= offset(unit);
    const bool has_leaf = unit >> 8 & 1;
    if (!has_leaf) continue;
    if (node >= units_.size()) return;
    if (!hit(i + 1 - at, units_[node] & ~(1u << 31))) return;
  }
}

std::string_view Charsmap::target(uint32_t offset) const {
  const std::string_view all = targets_;
  if (offset >= all.size()) return {};
  return all.substr(offset, all.substr(offset).find('\0'));
}

std::optional<Charsmap::Rule> Charsmap::shortest(std::string_view text, size_t at) const {
  std::optional<Rule> out;
  sources(text, at, [&](size_t length, uint32_t offset) {
    out = Rule{length, target(offset)};
    return false;
  });
  return out;
}

std::optional<Charsmap::Rule> Charsmap::longest(std::string_view text, size_t at) const {
  size_t best = 0;
  uint32_t best_offset = 0;
  sources(text, at, [&](size_t length, uint32_t offset) {
    best = length;
    best_offset = offset;
    return true;
  });
  if (best == 0) return std::nullopt;
  return Rule{best, target(best_offset)};
}

}  // namespace flare::frontend::tokenizer
