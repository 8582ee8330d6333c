// The 32-byte headers of entry and parts (§3.1, §3.2).
#pragma once

#include <array>
#include <filesystem>

#include "artifact/directory.h"
#include "base/file.h"

namespace flare::artifact {

struct EntryHeader {
  uint64_t json_bytes = 0;
  ArtifactId id{};
};

// au(32 + json_bytes, 4096).
uint64_t entry_payload_start(uint64_t json_bytes);

std::array<std::byte, kHeaderBytes> entry_header(uint64_t json_bytes, const ArtifactId& id);
std::array<std::byte, kHeaderBytes> part_header(uint64_t index, const ArtifactId& id);

// §13.1 step 1. kFraming; parts and older versions are named.
EntryHeader read_entry_header(const File& file);
// Opens part `index` and checks magic, index, id and exact length. kFileset.
File open_part(const std::filesystem::path& path, uint64_t index, const ArtifactId& id,
               uint64_t payload_bytes);

}  // namespace flare::artifact
