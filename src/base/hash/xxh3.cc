// xxHash's header behind Xxh3.
#include "base/hash/xxh3.h"

#include <cstring>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace flare {
namespace {

Hash128 canonical(XXH128_hash_t hash) {
  XXH128_canonical_t out;
  XXH128_canonicalFromHash(&out, hash);
  Hash128 bytes;
  static_assert(sizeof out == sizeof bytes);
  std::memcpy(bytes.data(), &out, sizeof bytes);
  return bytes;
}

}  // namespace

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}

Xxh3::~Xxh3() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void Xxh3::update(Bytes bytes) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

Hash128 Xxh3::finish() const {
  return canonical(XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_)));
}

Hash128 xxh3_128(Bytes bytes) { return canonical(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace flare
