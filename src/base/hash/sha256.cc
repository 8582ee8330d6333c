// OpenSSL behind Sha256.
#include "base/hash/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace flare {
namespace {
EVP_MD_CTX* as_context(void* p) { return static_cast<EVP_MD_CTX*>(p); }
}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  FLARE_ASSERT(context_ && EVP_DigestInit_ex(as_context(context_), EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() { EVP_MD_CTX_free(as_context(context_)); }
void Sha256::update(Bytes bytes) {
  EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size());
}
std::array<std::byte, 32> Sha256::finish() {
  std::array<std::byte, 32> digest;
  unsigned length = 0;
  EVP_DigestFinal_ex(as_context(context_), reinterpret_cast<unsigned char*>(digest.data()),
                     &length);
  return digest;
}

std::string to_hex(Bytes bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    out += digits[static_cast<unsigned>(b) >> 4];
    out += digits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

std::string sha256_hex(Bytes bytes) {
  Sha256 hash;
  hash.update(bytes);
  const auto digest = hash.finish();
  return to_hex(digest);
}

}  // namespace flare
