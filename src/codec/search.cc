// Which formats have a search.
#include "codec/search.h"

#include "codec/formats.h"

namespace flare::codec {

Search search_of(FormatId id) {
  switch (id) {
    case FormatId::kQ4G64:
      return q4_g64_search();
    case FormatId::kQ5G64:
      return q5_g64_search();
    case FormatId::kQ6G64:
      return q6_g64_search();
    case FormatId::kQ8G32:
      return q8_g32_search();
    case FormatId::kGgufQ4K:
      return gguf_q4_k_search();
    case FormatId::kGgufQ5K:
      return gguf_q5_k_search();
    case FormatId::kGgufQ6K:
      return gguf_q6_k_search();
    default:
      return nullptr;
  }
}

}  // namespace flare::codec
