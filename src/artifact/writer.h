// Writes a `.ninfer` file set: placement, directory reserve, splitting, streaming, publication
// (spec/artifact.md §14).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "artifact/directory.h"
#include "base/file.h"

namespace flare::artifact {

struct WriteOptions {
  std::optional<uint64_t> max_file_bytes;  // no split without it
  std::optional<ArtifactId> id;            // random UUID v4 otherwise
  uint64_t min_json_bytes = 0;             // caller minimum of the directory reserve (§14.2)
  bool force = false;                      // replace an existing set
};

ArtifactId random_id();
// 32 hex digits; kUsage otherwise.
ArtifactId id_from_hex(std::string_view hex);

// Gives every object its offset in list order (§14.1 step 1: tensors at multiples of 256, resources
// at 1). Object::bytes must be set.
void place_objects(Directory& directory);

// What the files of a set will be (§14.2, §14.3).
struct FilePlan {
  uint64_t json_bytes = 0;       // metadata_end = 32 + json_bytes is a multiple of 4096
  std::vector<FileEntry> files;  // parts named `<entry_name>.part-NNNN`
  std::string text;              // canonical, with these files, without padding
};
// Chooses reserve and split for `payload_bytes` of payload; nothing is written. `directory.files`
// is ignored. kUsage when max_file_bytes leaves no room.
FilePlan plan_files(const Directory& directory, uint64_t payload_bytes,
                    const std::string& entry_name, const WriteOptions& options);

// One artifact being written. Confined to one thread. Nothing is visible at the target before
// finish(); a Writer that is destroyed before leaves nothing behind.
class Writer {
 public:
  // `directory` is complete except for `files`. Runs the checks of §13.1 on it, chooses reserve and
  // split, creates the temporary files, writes headers. Errors: kExists, kNotFound, kWrite, kUsage
  // (max_file_bytes), and those of check_directory.
  Writer(const std::filesystem::path& target, Directory directory, const WriteOptions& options);
  ~Writer();
  Writer(Writer&&) noexcept;
  // The same for a payload that is copied as a whole: every byte is written, gaps between objects
  // and behind the last one too. Offsets of `directory` stay.
  static Writer whole_payload(const std::filesystem::path& target, Directory directory,
                              uint64_t payload_bytes, const WriteOptions& options);

  const Directory& directory() const;
  // Writes logical payload bytes, in any order, crossing files as needed. kWrite when outside every
  // object, or when an interval is written twice. One call may cover objects that touch.
  void write(uint64_t logical_offset, Bytes bytes);
  // Every object byte written exactly once (alignment gaps inside a plane layout are the caller's
  // to write; gaps between objects are zeros by themselves), lengths exact; sync; publish: parts
  // ascending, entry last. With `force` an old set at the target goes away after the new files are
  // complete: its entry, then those of its parts that carry its artifact_id. Errors: kWrite,
  // kExists.
  void finish();

 private:
  struct Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Same payload and records, another split and a new id (`options.id` or random).
void reshard(const std::filesystem::path& source, const std::filesystem::path& target,
             const WriteOptions& options, const std::function<void(uint64_t)>& on_progress);

}  // namespace flare::artifact
