// An opened `.ninfer` artifact: framing, directory, lazy interpretation, range reads and mappings.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "artifact/directory.h"
#include "base/file.h"
#include "codec/matrix.h"

namespace flare::artifact {

// A tensor object after §13.2: everything known, allowed together and of the right size.
struct TensorInfo {
  const Object* object = nullptr;
  const codec::Format* format = nullptr;
  codec::Geometry geometry;
};

// Thread rule: open() and mapped() from one thread at a time; read() from any.
class Reader {
 public:
  // §13.1. Opens no part. Errors: kNotFound, kFraming, kDirectory, kRange, kReference.
  static Reader open(const std::filesystem::path& entry);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const std::filesystem::path& path() const;
  const Directory& directory() const;
  const ArtifactId& id() const;
  std::string id_hex() const;
  uint64_t json_bytes() const;
  // Sibling path of file i of the set.
  std::filesystem::path file_path(size_t i) const;
  std::vector<std::filesystem::path> file_paths() const;

  // §13.2. Errors: kReference (no such tensor), kEncoding.
  TensorInfo tensor(std::string_view object_id) const;
  const Object& resource(std::string_view object_id) const;

  // §13.3: fills `out` from the logical payload. Errors: kRange, kFileset, kRead.
  void read(uint64_t logical_offset, MutableBytes out) const;
  std::string read_resource(std::string_view object_id) const;

  // The object's bytes, mapped. In place where the object lies in one file; an object that crosses
  // files is mapped as adjacent pages where alignment allows (§14.3 keeps logical starts
  // 4096-aligned) and copied into anonymous memory otherwise. Valid while the Reader lives.
  // Errors: kEncoding, kFileset, kRead. Reading a page of a file that was truncated after opening
  // is prevented as far as the kernel allows: sizes are checked again when a file is mapped.
  Bytes mapped(std::string_view object_id);

  // The parameter bound to `name` as a matrix of `geometry` in row segments. Errors: kBinding when
  // missing, when lengths do not sum up, or when a part does not begin and end on rows.
  // A part of a parent with another column count is allowed where elements lie without groups
  // (contiguous_le_v1) and its length is whole rows of `geometry`.
  codec::Matrix matrix(std::string_view name, codec::Geometry geometry);
  // The same for a binding from elsewhere (an auxiliary); `name` is for messages.
  codec::Matrix matrix(const Binding& binding, codec::Geometry geometry, std::string_view name);

  // Opens every part and checks its framing. Errors: kFileset.
  void open_all_parts() const;

 private:
  struct Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// `verify`: §13.1, all parts, §13.2 for every object, then every code, scale and padding rule of
// every tensor in row blocks (bounded memory, `threads` workers), and every byte of every
// resource is read. `quick` leaves payload bytes unread. Throws the first error found, or kRead
// where a file was written to meanwhile;
// `on_progress(bytes)`, which may be empty, is called on the calling thread as bytes are checked.
void verify(const std::filesystem::path& entry, int threads, bool quick,
            const std::function<void(uint64_t)>& on_progress);

}  // namespace flare::artifact
