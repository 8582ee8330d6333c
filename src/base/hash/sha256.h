// SHA-256, streaming.
#pragma once

#include <array>
#include <string>

#include "base/bytes.h"

namespace flare {

// Confined to one thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(Bytes bytes);
  // The digest of everything so far; the object is spent.
  std::array<std::byte, 32> finish();

 private:
  void* context_;  // EVP_MD_CTX
};

// Lower-case hex of one buffer's SHA-256.
std::string sha256_hex(Bytes bytes);
// Lower-case hex of the bytes themselves.
std::string to_hex(Bytes bytes);

}  // namespace flare
