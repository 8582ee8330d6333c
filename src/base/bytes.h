// Byte views: little-endian loads and stores on spans of any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace flare {

static_assert(std::endian::native == std::endian::little, "files are read in place");

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// The T stored at p, which needs no alignment.
template <typename T>
T load_le(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <typename T>
void store_le(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace flare
