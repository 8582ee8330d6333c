// Files as the rest of the system sees them: descriptors, positioned reads, mappings, and output
// that is published whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace flare {

// An open file for reading. Errors: kNotFound when it cannot be opened, kRead afterwards.
// Immutable after opening; read_at may be called from any thread.
class File {
 public:
  static File open(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }
  int fd() const { return fd_; }
  // Fills `out` from `offset` completely or throws kRead.
  void read_at(uint64_t offset, MutableBytes out) const;

 private:
  File(std::filesystem::path path, int fd, uint64_t size);
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// What is mapped for a file: the file itself where touching its pages is cheap, else a copy in
// memory that was read from front to end. Network file systems and FUSE fetch by the page what is
// touched, end a process whose server goes away, or refuse mappings altogether.
class FilePages {
 public:
  // Decides by the file system and by trying; a copy is logged. Errors: kRead, naming the file and
  // where it ended; kDoesNotFit where memory is lacking.
  static FilePages of(const File& file);
  static FilePages copy_of(const File& file);
  FilePages(FilePages&& other) noexcept;
  FilePages& operator=(FilePages&& other) noexcept;
  ~FilePages();
  // As long as the file.
  int fd() const { return fd_; }
  bool is_copy() const { return owns_; }

 private:
  FilePages(int fd, bool owns) : fd_(fd), owns_(owns) {}
  int fd_ = -1;
  bool owns_ = false;
};

// Why mmap refused `bytes` of a file: kDoesNotFit for ENOMEM, else kRead.
Error mapping_error(const std::filesystem::path& path, uint64_t bytes, int why);

// A whole file mapped read-only, as FilePages decides. An empty file maps to an empty span. Errors:
// kNotFound and those of FilePages and mapping_error. If the file shrinks afterwards, reading what
// is gone raises SIGBUS, whose handler finds the path with path_of_mapping_at (file_registry.h).
class MappedFile {
 public:
  static MappedFile open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  Bytes bytes() const { return bytes_; }
  // Tells the kernel that the pages of [offset, offset+length) are not needed for now.
  void release(uint64_t offset, uint64_t length) const;

 private:
  MappedFile(std::filesystem::path path, Bytes bytes);
  std::filesystem::path path_;
  Bytes bytes_;
};

// The same for whole pages inside a part of any mapping. Those of a file can be read again, those
// of a Buffer are zero then.
void release_mapped(Bytes part);

// Whole small file as text; more than `limit` bytes is kInvalid.
std::string read_text_file(const std::filesystem::path& path, uint64_t limit = 256u << 20);

// One or more files that appear together: written to temporary siblings (`.<name>.<random>.tmp`),
// synced, then linked to their final names with a no-replace primitive in the order of creation,
// so that the entry, created last, appears last. Whatever is not published is removed by the
// destructor. Errors: kExists for a target that exists (checked at creation and at publication,
// unless `force`), kWrite for I/O. Confined to one thread.
class OutputSet {
 public:
  explicit OutputSet(bool force = false) : force_(force) {}
  ~OutputSet();
  OutputSet(const OutputSet&) = delete;
  OutputSet& operator=(const OutputSet&) = delete;

  // Begins a file; returns its index. The folder must exist (kNotFound).
  size_t create(const std::filesystem::path& target);
  void write_at(size_t file, uint64_t offset, Bytes bytes);
  // Appends after what was appended before.
  void append(size_t file, Bytes bytes);
  // Sets the exact final length (a hole reads as zeros).
  void resize(size_t file, uint64_t bytes);
  // Syncs all files, then gives them their names in `order` (indices; default: creation order),
  // then syncs the folders. With force, existing targets are replaced, and `also_remove`
  // (old parts) go away, only after all new files are complete.
  void publish(std::vector<size_t> order = {},
               const std::vector<std::filesystem::path>& also_remove = {});

 private:
  struct Output {
    std::filesystem::path target;
    std::filesystem::path temporary;
    int fd = -1;
    uint64_t appended = 0;
    bool published = false;
  };
  void link_no_replace(Output& output);
  static void remove_temporary(Output& output);
  bool force_;
  bool done_ = false;
  std::vector<Output> outputs_;
};

// Writes one text file through an OutputSet.
void write_text_file(const std::filesystem::path& path, std::string_view text, bool force = false);

}  // namespace flare
