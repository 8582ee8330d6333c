// Writing and checking headers.
#include "runtime/cache/disk_entry.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/hash/sha256.h"

namespace flare::runtime {
namespace {

constexpr std::string_view kMagic = "FLAREPFX";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kFixedBytes = 192, kAlignment = 4096;
constexpr size_t kIdentityAt = 40, kPayloadHashAt = 104, kHeaderHashAt = 120;
constexpr size_t kKeyDigits = 32, kTailDigits = 16;
constexpr std::string_view kPageEnd = ".page", kRowEnd = ".row", kTemporaryEnd = ".tmp";

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
Bytes bytes_of(std::span<const int32_t> tokens) { return std::as_bytes(tokens); }

EntryKey hash_of(std::string_view kind, const EntryKey& before, Bytes rest) {
  Sha256 hash;
  hash.update(bytes_of(kind));
  hash.update(before);
  hash.update(rest);
  return hash.finish();
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

template <typename T>
void put(std::vector<std::byte>& out, size_t at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof value);
}

}  // namespace

// The names of the kinds keep keys of one kind from being keys of another.
EntryKey root_key(const EntryKey& identity, std::string_view salt) {
  return hash_of("flare prefix root", identity, bytes_of(salt));
}
EntryKey page_key(const EntryKey& parent, std::span<const int32_t> tokens) {
  return hash_of("flare prefix page", parent, bytes_of(tokens));
}
EntryKey row_key(const EntryKey& parent, std::span<const int32_t> tail) {
  return hash_of("flare prefix row", parent, bytes_of(tail));
}

std::string page_name(const EntryKey& key) {
  return to_hex(Bytes(key).first(kKeyDigits / 2)) + std::string(kPageEnd);
}

std::string row_prefix(const EntryKey& parent) {
  return to_hex(Bytes(parent).first(kKeyDigits / 2)) + ".";
}

std::string row_name(const EntryKey& parent, std::span<const int32_t> tail) {
  return fmt::format("{}{}.{}{}", row_prefix(parent), tail.size(),
                     to_hex(Bytes(row_key(parent, tail)).first(kTailDigits / 2)), kRowEnd);
}

int64_t tail_tokens_of(std::string_view name) {
  if (!name.ends_with(kRowEnd) || name.size() < kKeyDigits + kTailDigits + kRowEnd.size() + 3)
    return -1;
  const std::string_view hash =
      name.substr(name.size() - kRowEnd.size() - kTailDigits, kTailDigits);
  const std::string_view count =
      name.substr(kKeyDigits + 1, name.size() - kKeyDigits - kTailDigits - kRowEnd.size() - 2);
  if (!is_hex(name.substr(0, kKeyDigits)) || name[kKeyDigits] != '.' || !is_hex(hash) ||
      name[kKeyDigits + 1 + count.size()] != '.')
    return -1;
  uint32_t tokens = 0;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), tokens);
  const bool whole = error == std::errc() && end == count.data() + count.size();
  return whole && std::to_string(tokens) == count ? int64_t{tokens} : -1;
}

bool is_entry_name(std::string_view name) {
  if (name.ends_with(kPageEnd))
    return name.size() == kKeyDigits + kPageEnd.size() && is_hex(name.substr(0, kKeyDigits));
  return tail_tokens_of(name) >= 0;
}

std::string temporary_name(std::string_view name) {
  return fmt::format(".{}{}", name, kTemporaryEnd);
}

bool is_temporary_name(std::string_view name) {
  return name.starts_with('.') && name.ends_with(kTemporaryEnd) &&
         name.size() > 1 + kTemporaryEnd.size() &&
         is_entry_name(name.substr(1, name.size() - 1 - kTemporaryEnd.size()));
}

uint64_t entry_header_bytes(size_t n_tokens) {
  const uint64_t used = kFixedBytes + uint64_t{n_tokens} * sizeof(int32_t);
  return (used + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<std::byte> entry_header(const EntryFacts& facts, const Hash128& payload_hash) {
  std::vector<std::byte> header(entry_header_bytes(facts.tokens.size()));
  std::ranges::copy(bytes_of(kMagic), header.begin());
  put(header, 8, kVersion);
  put(header, 12, static_cast<uint32_t>(facts.kind));
  put(header, 16, uint64_t{header.size()});
  put(header, 24, facts.payload_bytes);
  put(header, 32, static_cast<uint32_t>(facts.tokens.size()));
  put(header, kIdentityAt, facts.identity);
  put(header, 72, facts.parent);
  put(header, kPayloadHashAt, payload_hash);
  std::ranges::copy(bytes_of(facts.tokens), header.begin() + kFixedBytes);
  put(header, kHeaderHashAt, xxh3_128(header));
  return header;
}

// A header is right if it is the one that would be written: no field can escape the comparison.
std::string entry_problem(Bytes header, const EntryFacts& facts, Hash128* payload_hash) {
  if (header.size() != entry_header_bytes(facts.tokens.size()))
    return fmt::format("its header has {} bytes, {} expected", header.size(),
                       entry_header_bytes(facts.tokens.size()));
  if (!std::ranges::equal(header.first(kMagic.size()), bytes_of(kMagic)))
    return "it does not begin as an entry does";
  uint32_t version;
  std::memcpy(&version, header.data() + kMagic.size(), sizeof version);
  if (version != kVersion) return fmt::format("version {}, {} expected", version, kVersion);
  if (!std::ranges::equal(header.subspan(kIdentityAt, sizeof(EntryKey)), facts.identity))
    return "it belongs to another model or build";
  std::memcpy(payload_hash->data(), header.data() + kPayloadHashAt, payload_hash->size());
  if (!std::ranges::equal(header, entry_header(facts, *payload_hash)))
    return "its header is damaged";
  return {};
}

}  // namespace flare::runtime
