// Opening, lazy parts, range reads, mappings and matrices of an artifact.
#include "artifact/reader.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "artifact/checks.h"
#include "artifact/framing.h"
#include "base/checked.h"
#include "base/file_registry.h"
#include "base/hash/sha256.h"

namespace flare::artifact {
namespace {

// Address space that is unmapped with its owner.
class Region {
 public:
  Region(void* address, uint64_t bytes) : address_(address), bytes_(bytes) {}
  Region(Region&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}
  Region& operator=(Region&&) = delete;
  ~Region() {
    if (!address_) return;
    forget_mappings({data(), bytes_});
    ::munmap(address_, bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(address_); }
  uint64_t size() const { return bytes_; }

 private:
  void* address_;
  uint64_t bytes_;
};

Region map_region(const std::filesystem::path& path, uint64_t bytes, int protection, int flags,
                  int fd) {
  void* address = ::mmap(nullptr, bytes, protection, flags, fd, 0);
  if (address == MAP_FAILED) throw mapping_error(path, bytes, errno);
  return Region(address, bytes);
}

// A file shorter than at opening would raise SIGBUS when its pages are touched.
void check_size_unchanged(const File& file) {
  struct stat info{};
  if (::fstat(file.fd(), &info) != 0 || static_cast<uint64_t>(info.st_size) != file.size())
    throw Error(Code::kRead, "{}: now {} bytes, {} when it was opened", file.path().string(),
                info.st_size, file.size());
}

uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

// `parts_mutex` guards `files`; mappings are confined to the thread that calls mapped().
struct Reader::Impl {
  std::filesystem::path path;
  Directory directory;
  ArtifactId id{};
  uint64_t json_bytes = 0;
  std::vector<uint64_t> starts;  // P_i, and the payload's end

  mutable std::mutex parts_mutex;
  mutable std::vector<std::unique_ptr<File>> files;

  std::map<size_t, FilePages> file_pages;
  std::vector<std::unique_ptr<Region>> file_maps;
  std::vector<Region> crossing;  // objects that cross files
  std::unordered_map<const Object*, const std::byte*> crossing_of;

  // Bytes [begin, end) of the payload, all in file `index`, at `source` there.
  struct Piece {
    size_t index;
    uint64_t begin, end;
    uint64_t source;
  };

  std::string name() const { return path.string(); }
  std::filesystem::path file_path(size_t i) const;
  uint64_t payload_start(size_t i) const;
  const File& file(size_t i) const;
  std::vector<Piece> pieces(uint64_t offset, uint64_t bytes) const;
  int pages_fd(size_t i);
  const std::byte* map_file(size_t i);
  const std::byte* map_crossing(const Object& object, const std::vector<Piece>& pieces);
  const Object& find(std::string_view object_id, Object::Kind kind) const;
};

std::filesystem::path Reader::Impl::file_path(size_t i) const {
  return i == 0 ? path : path.parent_path() / directory.files.at(i).path;
}

uint64_t Reader::Impl::payload_start(size_t i) const {
  return i == 0 ? entry_payload_start(json_bytes) : kFileAlignment;
}

const File& Reader::Impl::file(size_t i) const {
  const std::lock_guard lock(parts_mutex);
  if (!files[i])
    files[i] =
        std::make_unique<File>(open_part(file_path(i), i, id, directory.files[i].payload_bytes));
  return *files[i];
}

std::vector<Reader::Impl::Piece> Reader::Impl::pieces(uint64_t offset, uint64_t bytes) const {
  const uint64_t payload = starts.back();
  if (offset > payload || bytes > payload - offset)
    throw Error(Code::kRange, "{}: read of [{}, {}+{}) leaves the payload of {} bytes", name(),
                offset, offset, bytes, payload);
  std::vector<Piece> out;
  const uint64_t end = offset + bytes;
  size_t i =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) -
      1;
  for (; offset < end; ++i) {
    const uint64_t stop = std::min(end, starts[i + 1]);
    out.push_back({.index = i,
                   .begin = offset,
                   .end = stop,
                   .source = payload_start(i) + (offset - starts[i])});
    offset = stop;
  }
  return out;
}

int Reader::Impl::pages_fd(size_t i) {
  auto found = file_pages.find(i);
  if (found == file_pages.end()) found = file_pages.emplace(i, FilePages::of(file(i))).first;
  return found->second.fd();
}

const std::byte* Reader::Impl::map_file(size_t i) {
  if (!file_maps[i]) {
    const File& source = file(i);
    check_size_unchanged(source);
    file_maps[i] = std::make_unique<Region>(
        map_region(source.path(), source.size(), PROT_READ, MAP_SHARED, pages_fd(i)));
    note_mapping({file_maps[i]->data(), file_maps[i]->size()}, source.path().string());
  }
  return file_maps[i]->data();
}

const std::byte* Reader::Impl::map_crossing(const Object& object,
                                            const std::vector<Piece>& pieces) {
  const uint64_t page = page_bytes();
  const uint64_t lead = pieces.front().source % page;
  bool aligned = true;
  for (size_t i = 1; i < pieces.size(); ++i)
    aligned = aligned && pieces[i].source % page == 0 &&
              (lead + (pieces[i].begin - object.offset)) % page == 0;
  for (const Piece& piece : pieces) check_size_unchanged(file(piece.index));
  const uint64_t bytes = checked_add(lead, object.bytes, "mapping");
  Region region = map_region(path, bytes, aligned ? PROT_NONE : PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  for (const Piece& piece : pieces) {
    const File& source = file(piece.index);
    const uint64_t at = lead + (piece.begin - object.offset);
    const uint64_t length = piece.end - piece.begin;
    if (!aligned) {
      source.read_at(piece.source, {region.data() + at, length});
      continue;
    }
    // The first piece may begin inside a page; its page holds bytes of other objects before it.
    const uint64_t before = &piece == &pieces.front() ? lead : 0;
    if (::mmap(region.data() + at - before, length + before, PROT_READ, MAP_SHARED | MAP_FIXED,
               pages_fd(piece.index), static_cast<off_t>(piece.source - before)) == MAP_FAILED)
      throw mapping_error(source.path(), length, errno);
    note_mapping({region.data() + at - before, length + before}, source.path().string());
  }
  const std::byte* start = region.data() + lead;
  crossing.push_back(std::move(region));
  crossing_of.emplace(&object, start);
  return start;
}

const Object& Reader::Impl::find(std::string_view object_id, Object::Kind kind) const {
  const bool tensor = kind == Object::Kind::kTensor;
  const Object* object = directory.find_object(object_id);
  if (!object)
    throw Error(Code::kReference, "{}: no object {}, a {} is needed", name(), quote(object_id),
                tensor ? "tensor" : "resource");
  if (object->kind != kind)
    throw Error(Code::kReference, "{}: object {} is a {}, a {} is needed", name(), quote(object_id),
                tensor ? "resource" : "tensor", tensor ? "tensor" : "resource");
  return *object;
}

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Reader Reader::open(const std::filesystem::path& entry) {
  auto impl = std::make_unique<Impl>();
  impl->path = entry;
  const std::string name = entry.string();
  auto file = std::make_unique<File>(File::open(entry));
  const EntryHeader header = read_entry_header(*file);
  impl->id = header.id;
  impl->json_bytes = header.json_bytes;
  const JsonLimits limits;
  if (header.json_bytes > limits.max_bytes)
    throw Error(Code::kDirectory, "{}: json_bytes {}, at most {} expected", name, header.json_bytes,
                limits.max_bytes);
  std::string text(header.json_bytes, '\0');
  file->read_at(kHeaderBytes, {reinterpret_cast<std::byte*>(text.data()), text.size()});

  Directory& directory = impl->directory;
  directory = decode_directory(text, name);
  check_files(directory, name, entry.filename().string());
  const uint64_t expected =
      checked_add(entry_payload_start(header.json_bytes), directory.files[0].payload_bytes,
                  name + ": files[0].payload_bytes");
  if (file->size() != expected)
    throw Error(Code::kFraming,
                "{}: {} bytes long, {} expected from json_bytes {} and "
                "files[0].payload_bytes {}",
                name, file->size(), expected, header.json_bytes, directory.files[0].payload_bytes);
  check_objects(directory, name);
  check_references(directory, name);
  directory.index();

  impl->starts.push_back(0);
  for (const FileEntry& item : directory.files)
    impl->starts.push_back(impl->starts.back() + item.payload_bytes);
  impl->files.resize(directory.files.size());
  impl->files[0] = std::move(file);
  impl->file_maps.resize(directory.files.size());
  return Reader(std::move(impl));
}

const std::filesystem::path& Reader::path() const { return impl_->path; }
const Directory& Reader::directory() const { return impl_->directory; }
const ArtifactId& Reader::id() const { return impl_->id; }
std::string Reader::id_hex() const { return to_hex(impl_->id); }
uint64_t Reader::json_bytes() const { return impl_->json_bytes; }
std::filesystem::path Reader::file_path(size_t i) const { return impl_->file_path(i); }

std::vector<std::filesystem::path> Reader::file_paths() const {
  std::vector<std::filesystem::path> out;
  for (size_t i = 0; i < directory().files.size(); ++i) out.push_back(file_path(i));
  return out;
}

TensorInfo Reader::tensor(std::string_view object_id) const {
  const Object& object = impl_->find(object_id, Object::Kind::kTensor);
  const auto where = [&] { return fmt::format("{}: object {}", impl_->name(), quote(object.id)); };
  const codec::Format* format = codec::find_format(object.format, object.layout);
  if (!format)
    throw Error(Code::kEncoding, "{}.format: {} is not a format of this program", where(),
                quote(object.format));
  uint64_t bytes = 0;
  try {
    bytes = codec::encoded_bytes(*format, object.layout, object.shape, object.divisors);
  } catch (const Error& error) {
    // A size beyond 64 bits is the object's defect, whatever its class in arithmetic.
    throw Error(Code::kEncoding, "{}: {}", where(), error.message());
  }
  if (bytes != object.bytes)
    throw Error(Code::kEncoding, "{}.bytes: {}, {} expected for format {} and its shape", where(),
                object.bytes, bytes, object.format);
  if (object.offset % kTensorAlignment != 0)
    throw Error(Code::kEncoding, "{}.offset: {}, a multiple of {} expected", where(), object.offset,
                kTensorAlignment);
  return {.object = &object,
          .format = format,
          .geometry = codec::geometry_of(object.shape, object.divisors)};
}

const Object& Reader::resource(std::string_view object_id) const {
  const Object& object = impl_->find(object_id, Object::Kind::kResource);
  if (object.encoding != "raw_bytes_v1")
    throw Error(Code::kEncoding, "{}: object {}.encoding: {}, raw_bytes_v1 expected", impl_->name(),
                quote(object.id), quote(object.encoding));
  return object;
}

void Reader::read(uint64_t logical_offset, MutableBytes out) const {
  for (const Impl::Piece& piece : impl_->pieces(logical_offset, out.size()))
    impl_->file(piece.index)
        .read_at(piece.source, out.subspan(piece.begin - logical_offset, piece.end - piece.begin));
}

std::string Reader::read_resource(std::string_view object_id) const {
  const Object& object = resource(object_id);
  // Opening the files first proves that so many bytes exist before memory is taken for them.
  for (const Impl::Piece& piece : impl_->pieces(object.offset, object.bytes))
    impl_->file(piece.index);
  std::string text;
  try {
    text.resize(object.bytes);
  } catch (const std::exception&) {
    throw Error(Code::kDoesNotFit, "{}: object {}: no memory for {} bytes", impl_->name(),
                quote(object.id), object.bytes);
  }
  read(object.offset, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  return text;
}

Bytes Reader::mapped(std::string_view object_id) {
  const Object* object = impl_->directory.find_object(object_id);
  if (object && object->kind == Object::Kind::kResource) {
    resource(object_id);
  } else {
    object = tensor(object_id).object;
  }
  if (const auto known = impl_->crossing_of.find(object); known != impl_->crossing_of.end())
    return {known->second, object->bytes};
  const std::vector<Impl::Piece> pieces = impl_->pieces(object->offset, object->bytes);
  if (pieces.size() == 1)
    return {impl_->map_file(pieces[0].index) + pieces[0].source, object->bytes};
  return {impl_->map_crossing(*object, pieces), object->bytes};
}

namespace {

// Elements [begin, end) of a parent as rows of `cols`. kBinding where they are none.
codec::Segment segment_of(const TensorInfo& info, const std::byte* bytes, uint64_t begin,
                          uint64_t end, uint64_t cols, std::string_view where) {
  const codec::Format& format = *info.format;
  codec::Segment segment{
      .object = bytes, .geometry = info.geometry, .format = format.id, .layout = format.layout};
  if (info.geometry.cols == cols) {
    if (begin % cols != 0 || end % cols != 0)
      throw Error(Code::kBinding, "{}: [{},{}) of object {}, whole rows of {} elements expected",
                  where, begin, end, quote(info.object->id), cols);
    segment.row_begin = begin / cols;
    segment.row_end = end / cols;
    return segment;
  }
  if (format.word_bytes == 0 || (end - begin) % cols != 0)
    throw Error(Code::kBinding,
                "{}: [{},{}) of object {} with rows of {} elements in format {}, rows of {} "
                "expected",
                where, begin, end, quote(info.object->id), info.geometry.cols, format.name, cols);
  // Words follow each other without groups, so any run of them can be cut into rows anew.
  segment.object = bytes + begin * format.word_bytes;
  segment.geometry = {.rows = (end - begin) / cols, .cols = cols};
  segment.row_begin = 0;
  segment.row_end = segment.geometry.rows;
  return segment;
}

}  // namespace

codec::Matrix Reader::matrix(std::string_view name, codec::Geometry geometry) {
  const Binding* binding = impl_->directory.find_binding(name);
  if (!binding)
    throw Error(Code::kBinding, "{}: parameter {} is not bound", impl_->name(), quote(name));
  return matrix(*binding, geometry, name);
}

codec::Matrix Reader::matrix(const Binding& binding, codec::Geometry geometry,
                             std::string_view name) {
  const std::string where = fmt::format("{}: parameter {}", impl_->name(), quote(name));
  const uint64_t wanted = checked_mul(geometry.rows, geometry.cols, where);
  if (wanted == 0)
    throw Error(Code::kBinding, "{}: shape [{},{}] has no elements", where, geometry.rows,
                geometry.cols);
  codec::Matrix matrix{.segments = {}, .rows = 0, .cols = geometry.cols};
  if (binding.parts.empty()) {
    const TensorInfo info = tensor(binding.object);
    if (info.geometry.rows != geometry.rows || info.geometry.cols != geometry.cols)
      throw Error(Code::kBinding, "{}: object {} is [{},{}], [{},{}] expected", where,
                  quote(binding.object), info.geometry.rows, info.geometry.cols, geometry.rows,
                  geometry.cols);
    codec::append_segment(
        matrix, segment_of(info, mapped(binding.object).data(), 0, wanted, geometry.cols, where));
    return matrix;
  }
  uint64_t sum = 0;
  for (const Part& part : binding.parts) sum = checked_add(sum, part.end - part.begin, where);
  if (sum != wanted)
    throw Error(Code::kBinding, "{}: its parts hold {} elements, [{},{}] has {}", where, sum,
                geometry.rows, geometry.cols, wanted);
  for (const Part& part : binding.parts) {
    const TensorInfo info = tensor(part.object);
    codec::append_segment(matrix, segment_of(info, mapped(part.object).data(), part.begin, part.end,
                                             geometry.cols, where));
  }
  return matrix;
}

void Reader::open_all_parts() const {
  for (size_t i = 1; i < impl_->directory.files.size(); ++i) impl_->file(i);
}

}  // namespace flare::artifact
