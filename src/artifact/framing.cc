// Headers to bytes and back, and every way in which they can be wrong.
#include "artifact/framing.h"

#include <algorithm>

#include "base/checked.h"
#include "base/hash/sha256.h"

namespace flare::artifact {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr std::string_view kEntryMagic("NINFER\0\3", kMagicBytes);
constexpr std::string_view kPartMagic("NINPRT\0\3", kMagicBytes);

std::array<std::byte, kHeaderBytes> header(std::string_view magic, uint64_t number,
                                           const ArtifactId& id) {
  std::array<std::byte, kHeaderBytes> out{};
  std::ranges::copy(as_bytes(magic), out.begin());
  store_le(out.data() + kMagicBytes, number);
  std::ranges::copy(id, out.begin() + 16);
  return out;
}

ArtifactId id_in(const std::array<std::byte, kHeaderBytes>& header) {
  ArtifactId id;
  std::copy(header.begin() + 16, header.end(), id.begin());
  return id;
}

// What a wrong magic is, as far as it can be told.
[[noreturn]] void refuse_magic(const File& file, std::string_view magic, uint64_t number) {
  const std::string name = file.path().string();
  if (magic == kPartMagic)
    throw Error(Code::kFraming, "{}: magic of part {} of an artifact, the entry file expected",
                name, number)
        .set_hint("open the entry, the file without .part-NNNN; parts are found by themselves");
  const std::string_view family = kEntryMagic.substr(0, kMagicBytes - 1);
  if (magic.starts_with(family) && (magic.back() == '\1' || magic.back() == '\2'))
    throw Error(Code::kFraming, "{}: magic of an artifact of version {}, version 3 expected", name,
                static_cast<int>(magic.back()))
        .set_hint("`ignition convert OLD.ninfer --output NEW.ninfer` brings it to version 3");
  Error error(Code::kFraming, "{}: magic {}, that of a .ninfer artifact of version 3 ({}) expected",
              name, to_hex(as_bytes(magic)), to_hex(as_bytes(kEntryMagic)));
  if (magic.starts_with("GGUF"))
    error.set_hint("this is a GGUF file: `ignition build` makes an artifact of it");
  throw error;
}

}  // namespace

uint64_t entry_payload_start(uint64_t json_bytes) {
  return checked_align_up(checked_add(kHeaderBytes, json_bytes, "json_bytes"), kFileAlignment,
                          "json_bytes");
}

std::array<std::byte, kHeaderBytes> entry_header(uint64_t json_bytes, const ArtifactId& id) {
  return header(kEntryMagic, json_bytes, id);
}
std::array<std::byte, kHeaderBytes> part_header(uint64_t index, const ArtifactId& id) {
  return header(kPartMagic, index, id);
}

EntryHeader read_entry_header(const File& file) {
  const std::string name = file.path().string();
  if (file.size() < kHeaderBytes)
    throw Error(Code::kFraming, "{}: {} bytes long, a header of {} expected", name, file.size(),
                kHeaderBytes);
  std::array<std::byte, kHeaderBytes> bytes;
  file.read_at(0, bytes);
  const uint64_t json_bytes = load_le<uint64_t>(bytes.data() + kMagicBytes);
  const std::string_view magic = as_text(Bytes(bytes).first(kMagicBytes));
  if (magic != kEntryMagic) refuse_magic(file, magic, json_bytes);
  if (json_bytes == 0 || json_bytes > file.size() - kHeaderBytes)
    throw Error(Code::kFraming,
                "{}: json_bytes {}, between 1 and the {} bytes after the header "
                "expected",
                name, json_bytes, file.size() - kHeaderBytes);
  return {.json_bytes = json_bytes, .id = id_in(bytes)};
}

File open_part(const std::filesystem::path& path, uint64_t index, const ArtifactId& id,
               uint64_t payload_bytes) {
  try {
    File file = File::open(path);
    const std::string name = path.string();
    const uint64_t expected = checked_add(kFileAlignment, payload_bytes, name);
    if (file.size() != expected)
      throw Error(Code::kFileset, "{}: part {} is {} bytes long, {} expected", name, index,
                  file.size(), expected);
    std::array<std::byte, kHeaderBytes> bytes;
    file.read_at(0, bytes);
    const std::string_view magic = as_text(Bytes(bytes).first(kMagicBytes));
    if (magic != kPartMagic)
      throw Error(Code::kFileset, "{}: magic {}, that of a part ({}) expected", name,
                  to_hex(as_bytes(magic)), to_hex(as_bytes(kPartMagic)));
    const uint64_t stored = load_le<uint64_t>(bytes.data() + kMagicBytes);
    if (stored != index)
      throw Error(Code::kFileset, "{}: part_index {}, {} expected", name, stored, index);
    if (id_in(bytes) != id)
      throw Error(Code::kFileset, "{}: part of another artifact: artifact_id {}, {} expected", name,
                  to_hex(id_in(bytes)), to_hex(id));
    return file;
  } catch (const Error& error) {
    if (error.code() == Code::kFileset) throw;
    throw Error(Code::kFileset, "part {} is needed: {}", index, error.message());
  }
}

}  // namespace flare::artifact
