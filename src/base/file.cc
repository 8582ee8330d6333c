// POSIX behind File, MappedFile and OutputSet.
#include "base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_registry.h"
#include "base/log.h"

namespace flare {
namespace {

constexpr uint64_t kCopyPiece = uint64_t{16} << 20;

// Magic numbers that <linux/magic.h> lacks.
constexpr uint32_t kCifs = 0xff534d42, kVboxShare = 0x786f4256, kLustre = 0x0bd00bd0,
                   kVirtualWindowsDisk = 0x01021997;  // 9p

bool is_remote(int fd) {
  struct statfs info{};
  if (::fstatfs(fd, &info) != 0) return false;
  switch (static_cast<uint32_t>(info.f_type)) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case kCifs:
    case FUSE_SUPER_MAGIC:
    case kVirtualWindowsDisk:
    case CEPH_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case CODA_SUPER_MAGIC:
    case kVboxShare:
    case kLustre:
      return true;
    default:
      return false;
  }
}

// Some file systems refuse mappings; a lack of address space is another matter.
bool can_be_mapped(int fd) {
  void* p = ::mmap(nullptr, 1, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return errno == ENOMEM;
  ::munmap(p, 1);
  return true;
}

int open_for_reading(const std::filesystem::path& path, uint64_t* size) {
  // Without O_NONBLOCK the opening of a named pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw Error(Code::kNotFound, "{}: cannot be opened: {}", path.string(), errno_text());
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    const bool is_folder = S_ISDIR(info.st_mode);
    ::close(fd);
    throw Error(Code::kNotFound, "{}: {}, a regular file expected", path.string(),
                is_folder ? "a folder" : "not a regular file")
        .set_hint(is_folder ? "name a file in it" : "");
  }
  *size = static_cast<uint64_t>(info.st_size);
  return fd;
}

void write_all(int fd, uint64_t offset, Bytes bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw Error(Code::kWrite, "{}: write of {} bytes at {} failed: {}", path.string(),
                  bytes.size(), offset, errno_text());
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // a folder that cannot be opened for reading is not synced
  ::fsync(fd);
  ::close(fd);
}

std::filesystem::path folder_of(const std::filesystem::path& target) {
  return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

}  // namespace

File::File(std::filesystem::path path, int fd, uint64_t size)
    : path_(std::move(path)), fd_(fd), size_(size) {}
File::File(File&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}
File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File File::open(const std::filesystem::path& path) {
  uint64_t size = 0;
  const int fd = open_for_reading(path, &size);
  return File(path, fd, size);
}

void File::read_at(uint64_t offset, MutableBytes out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error(Code::kRead, "{}: read of {} bytes at {} failed: {}", path_.string(), out.size(),
                  offset, errno_text());
    if (n == 0)
      throw Error(Code::kRead, "{}: ends at {}, {} more bytes expected", path_.string(), offset,
                  out.size());
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

FilePages::FilePages(FilePages&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), owns_(std::exchange(other.owns_, false)) {}
FilePages& FilePages::operator=(FilePages&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owns_, other.owns_);
  return *this;
}
FilePages::~FilePages() {
  if (owns_) ::close(fd_);
}

FilePages FilePages::of(const File& file) {
  if (file.size() == 0 || (!is_remote(file.fd()) && can_be_mapped(file.fd())))
    return {file.fd(), false};
  log_info("{}: read into memory ({} bytes), since its file system is remote or has no mappings",
           file.path().string(), file.size());
  return copy_of(file);
}

FilePages FilePages::copy_of(const File& file) {
  FilePages pages(::memfd_create("flare-file", MFD_CLOEXEC), true);
  if (pages.fd_ < 0) {
    pages.owns_ = false;
    throw Error(Code::kDoesNotFit, "{}: no memory for a copy: {}", file.path().string(),
                errno_text());
  }
  std::vector<std::byte> piece(std::min(file.size(), kCopyPiece));
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), file.size() - at));
    file.read_at(at, piece);
    try {
      write_all(pages.fd_, at, piece, file.path());
    } catch (const Error&) {
      throw Error(Code::kDoesNotFit, "{}: no memory for a copy of {} bytes: {}",
                  file.path().string(), file.size(), errno_text());
    }
  }
  return pages;
}

Error mapping_error(const std::filesystem::path& path, uint64_t bytes, int why) {
  const std::string text = std::system_category().message(why);
  if (why != ENOMEM)
    return {Code::kRead, "{}: {} bytes cannot be mapped: {}", path.string(), bytes, text};
  Error error(Code::kDoesNotFit, "{}: {} bytes do not fit the address space of this process: {}",
              path.string(), bytes, text);
  return error.set_hint("raise the limit of address space (ulimit -v)");
}

MappedFile::MappedFile(std::filesystem::path path, Bytes bytes)
    : path_(std::move(path)), bytes_(bytes) {}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mappings(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const File file = File::open(path);
  if (file.size() == 0) return MappedFile(path, {});
  const FilePages pages = FilePages::of(file);
  void* p = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, pages.fd(), 0);
  if (p == MAP_FAILED) throw mapping_error(path, file.size(), errno);
  const Bytes bytes(static_cast<const std::byte*>(p), file.size());
  note_mapping(bytes, path.string());
  return MappedFile(path, bytes);
}

void MappedFile::release(uint64_t offset, uint64_t length) const {
  const uint64_t begin = std::min<uint64_t>(offset, bytes_.size());
  release_mapped(bytes_.subspan(begin, std::min<uint64_t>(length, bytes_.size() - begin)));
}

void release_mapped(Bytes part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + part.size()) / page * page;
  if (begin < end)
    ::madvise(const_cast<std::byte*>(part.data()) + (begin - address), end - begin, MADV_DONTNEED);
}

std::string read_text_file(const std::filesystem::path& path, uint64_t limit) {
  const File file = File::open(path);
  if (file.size() > limit)
    throw Error(Code::kInvalid, "{}: {} bytes, at most {} expected", path.string(), file.size(),
                limit);
  std::string text(file.size(), '\0');
  file.read_at(0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  return text;
}

void OutputSet::remove_temporary(Output& output) {
  ::unlink(output.temporary.c_str());
  forget_temporary(output.temporary.string());
  output.temporary.clear();
}

OutputSet::~OutputSet() {
  for (Output& output : outputs_) {
    if (output.fd >= 0) ::close(output.fd);
    if (!output.temporary.empty()) remove_temporary(output);
    if (output.published && !done_) ::unlink(output.target.c_str());
  }
}

size_t OutputSet::create(const std::filesystem::path& target) {
  const std::filesystem::path folder = folder_of(target);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error(Code::kNotFound, "{}: folder {} does not exist", target.string(), folder.string());
  const auto there = std::filesystem::symlink_status(target, ignored);
  if (!force_ && std::filesystem::exists(there))
    throw Error(Code::kExists, "{}: exists already", target.string())
        .set_hint("choose another name, or remove it first");
  // To replace is to unlink: never a device, and no link that others follow, such as /dev/stdout.
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    throw Error(Code::kExists, "{}: exists and is no regular file, which is never replaced",
                target.string())
        .set_hint("choose another name, or remove it first");
  std::random_device random;
  Output output;
  output.target = target;
  output.temporary =
      folder / fmt::format(".{}.{:08x}{:08x}.tmp", target.filename().string(), random(), random());
  output.fd = ::open(output.temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (output.fd < 0)
    throw Error(Code::kWrite, "{}: cannot be created: {}", output.temporary.string(), errno_text());
  note_temporary(output.temporary.string());
  outputs_.push_back(std::move(output));
  return outputs_.size() - 1;
}

void OutputSet::write_at(size_t file, uint64_t offset, Bytes bytes) {
  write_all(outputs_[file].fd, offset, bytes, outputs_[file].target);
}

void OutputSet::append(size_t file, Bytes bytes) {
  write_at(file, outputs_[file].appended, bytes);
  outputs_[file].appended += bytes.size();
}

void OutputSet::resize(size_t file, uint64_t bytes) {
  if (::ftruncate(outputs_[file].fd, static_cast<off_t>(bytes)) != 0)
    throw Error(Code::kWrite, "{}: cannot be set to {} bytes: {}", outputs_[file].target.string(),
                bytes, errno_text());
}

void OutputSet::link_no_replace(Output& output) {
  const char* from = output.temporary.c_str();
  const char* to = output.target.c_str();
  // Some file systems have no hard links; some of these can still rename without replacing.
  if (::link(from, to) != 0 &&
      (errno == EEXIST || ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0)) {
    if (errno == EEXIST) throw Error(Code::kExists, "{}: exists already", output.target.string());
    throw Error(Code::kWrite, "{}: cannot be published: {}", output.target.string(), errno_text());
  }
  output.published = true;
  remove_temporary(output);
}

void OutputSet::publish(std::vector<size_t> order,
                        const std::vector<std::filesystem::path>& also_remove) {
  if (order.empty())
    for (size_t i = 0; i < outputs_.size(); ++i) order.push_back(i);
  for (Output& output : outputs_)
    if (::fsync(output.fd) != 0)
      throw Error(Code::kWrite, "{}: cannot be synced: {}", output.target.string(), errno_text());
  if (force_) {
    for (auto i = order.rbegin(); i != order.rend(); ++i) ::unlink(outputs_[*i].target.c_str());
    for (const auto& old : also_remove) ::unlink(old.c_str());
  }
  std::set<std::filesystem::path> folders;
  for (size_t i : order) {
    link_no_replace(outputs_[i]);
    folders.insert(folder_of(outputs_[i].target));
  }
  for (const auto& folder : folders) sync_folder(folder);
  done_ = true;
}

void write_text_file(const std::filesystem::path& path, std::string_view text, bool force) {
  OutputSet set(force);
  set.append(set.create(path), as_bytes(text));
  set.publish();
}

}  // namespace flare
