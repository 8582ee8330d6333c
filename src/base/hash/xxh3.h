// XXH3 with 128 bits, streaming: finds damage at memory speed; no defence against forgers.
#pragma once

#include <array>

#include "base/bytes.h"

namespace flare {

using Hash128 = std::array<std::byte, 16>;

// Confined to one thread.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(Bytes bytes);
  // Of everything so far, in canonical byte order.
  Hash128 finish() const;

 private:
  void* state_;  // XXH3_state_t
};

Hash128 xxh3_128(Bytes bytes);

}  // namespace flare
