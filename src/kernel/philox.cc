// Philox4x32-10: ten rounds of two multiplications and a key schedule.
#include "kernel/sample.h"

namespace flare::kernel {

Philox philox4x32_10(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;  // √3 − 1
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(kMultiplier0) * c0;
    const uint64_t b = static_cast<uint64_t>(kMultiplier1) * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(a);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace flare::kernel
