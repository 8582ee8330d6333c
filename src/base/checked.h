// Arithmetic on sizes that come from outside: it throws where it would wrap.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace flare {

// a·b, a+b in 64 bits. `what` names the quantity in the message, e.g. "x.ninfer: object 'w'
// size".
inline uint64_t checked_mul(uint64_t a, uint64_t b, std::string_view what = "size") {
  uint64_t out;
  if (__builtin_mul_overflow(a, b, &out))
    throw Error(Code::kRange, "{}: {} × {} exceeds 64 bits", what, a, b);
  return out;
}
inline uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what = "size") {
  uint64_t out;
  if (__builtin_add_overflow(a, b, &out))
    throw Error(Code::kRange, "{}: {} + {} exceeds 64 bits", what, a, b);
  return out;
}
// Smallest multiple of `alignment` (> 0) not below x.
inline uint64_t checked_align_up(uint64_t x, uint64_t alignment, std::string_view what = "size") {
  const uint64_t rest = x % alignment;
  return rest == 0 ? x : checked_add(x, alignment - rest, what);
}
// A value that must fit the narrower type T.
template <std::integral T>
T checked_cast(uint64_t x, std::string_view what = "value") {
  if (!std::in_range<T>(x)) throw Error(Code::kRange, "{}: {} is too large here", what, x);
  return static_cast<T>(x);
}
// bytes[offset, offset+length).
template <typename T>
std::span<T> subspan_checked(std::span<T> bytes, uint64_t offset, uint64_t length,
                             std::string_view what = "range") {
  if (offset > bytes.size() || length > bytes.size() - offset)
    throw Error(Code::kRange, "{}: [{}, {}+{}) leaves the {} bytes available", what, offset, offset,
                length, bytes.size());
  return bytes.subspan(offset, length);
}

}  // namespace flare
