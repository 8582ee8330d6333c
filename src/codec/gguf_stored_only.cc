// Block types of ggml whose values need codebooks: their bytes are kept and sized, and nothing
// reads numbers from them (artifact.md §6.4).
#include "codec/formats.h"
#include "codec/gguf_blocks.h"

namespace flare::codec {
namespace {

template <FormatId kFormat>
constexpr std::string_view kStoredName;
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq2Xxs> = "gguf_iq2_xxs";
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq2Xs> = "gguf_iq2_xs";
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq3Xxs> = "gguf_iq3_xxs";
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq1S> = "gguf_iq1_s";
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq3S> = "gguf_iq3_s";
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq2S> = "gguf_iq2_s";
template <>
constexpr std::string_view kStoredName<FormatId::kGgufIq1M> = "gguf_iq1_m";

// kHasHalf: the block begins with an fp16 scale; that of iq1_m lies in pieces.
template <FormatId kFormat, uint64_t kBlockBytes, bool kHasHalf = true>
struct StoredOnly {
  static constexpr FormatId kId = kFormat;
  static constexpr std::string_view kName = kStoredName<kFormat>;
  static constexpr uint64_t kValues = 256;
  static constexpr uint64_t kBytes = kBlockBytes;
  static constexpr std::array<uint64_t, kHasHalf ? 1 : 0> kHalves = {};

  static void decode(const std::byte*, float*) {
    throw Error(Code::kEncoding, "{}: decode unsupported; its values need codebooks", kName);
  }
};

template <FormatId kFormat, uint64_t kBlockBytes, bool kHasHalf = true>
Format stored_only() {
  Format format = GgufBlocks<StoredOnly<kFormat, kBlockBytes, kHasHalf>>::format();
  format.stored_only = true;
  return format;
}

}  // namespace

Format gguf_iq2_xxs_format() { return stored_only<FormatId::kGgufIq2Xxs, 66>(); }
Format gguf_iq2_xs_format() { return stored_only<FormatId::kGgufIq2Xs, 74>(); }
Format gguf_iq3_xxs_format() { return stored_only<FormatId::kGgufIq3Xxs, 98>(); }
Format gguf_iq1_s_format() { return stored_only<FormatId::kGgufIq1S, 50>(); }
Format gguf_iq3_s_format() { return stored_only<FormatId::kGgufIq3S, 110>(); }
Format gguf_iq2_s_format() { return stored_only<FormatId::kGgufIq2S, 82>(); }
Format gguf_iq1_m_format() { return stored_only<FormatId::kGgufIq1M, 56, false>(); }

}  // namespace flare::codec
