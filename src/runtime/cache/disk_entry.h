// One entry of the prefix cache on disk as bytes: what it is called, and what its header says.
//
// A file is a header and a payload (a page, or a continuation row), nothing else. Header, little
// endian, zero-padded to a multiple of 4096 bytes:
//      0  "FLAREPFX"           8  u32 version          12  u32 kind
//     16  u64 header bytes    24  u64 payload bytes    32  u32 tokens       36  u32 zero
//     40  identity[32]        72  parent key[32]      104  XXH3-128 of the payload
//    120  XXH3-128 of the header with these 16 bytes zero
//    192  token ids, i32
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash/xxh3.h"

namespace flare::runtime {

// SHA-256 of everything that a prefix depends on: model, salt, all tokens up to its end.
using EntryKey = std::array<std::byte, 32>;
EntryKey root_key(const EntryKey& identity, std::string_view salt);
// Of the page with these tokens behind the prefix `parent`, or of a row behind such a tail.
EntryKey page_key(const EntryKey& parent, std::span<const int32_t> tokens);
EntryKey row_key(const EntryKey& parent, std::span<const int32_t> tail);

enum class EntryKind : uint32_t { kPage = 1, kRow = 2 };

// What must be in an entry for it to be the one that is wanted.
struct EntryFacts {
  EntryKind kind = EntryKind::kPage;
  EntryKey identity;                // of the model, see disk_identity.h
  EntryKey parent;                  // key of the prefix before `tokens`
  std::span<const int32_t> tokens;  // a page's, or a row's tail
  uint64_t payload_bytes = 0;
};

// "<32 hex of the page's key>.page", "<32 hex of the parent's key>.<tail tokens>.<16 hex>.row":
// rows are found by the page that they stand behind.
std::string page_name(const EntryKey& key);
std::string row_prefix(const EntryKey& parent);
std::string row_name(const EntryKey& parent, std::span<const int32_t> tail);
// The tail's length that a row's name says; -1: it is not a row's name.
int64_t tail_tokens_of(std::string_view name);
// Whether a file of that name is an entry, and whether it is the remains of one.
bool is_entry_name(std::string_view name);
bool is_temporary_name(std::string_view name);
std::string temporary_name(std::string_view name);

uint64_t entry_header_bytes(size_t n_tokens);
std::vector<std::byte> entry_header(const EntryFacts& facts, const Hash128& payload_hash);
// Why a header is not that of the entry wanted; empty if it is. *payload_hash: what it says.
std::string entry_problem(Bytes header, const EntryFacts& facts, Hash128* payload_hash);

}  // namespace flare::runtime
