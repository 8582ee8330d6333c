// Placement, reserve, splitting, interval accounting and publication of a file set.
#include "artifact/writer.h"

#include <algorithm>
#include <map>
#include <random>

#include "artifact/checks.h"
#include "artifact/framing.h"
#include "artifact/reader.h"
#include "base/checked.h"
#include "base/file_stamps.h"
#include "base/one_line.h"

namespace flare::artifact {
namespace {

struct Interval {
  uint64_t begin = 0, end = 0;
};

// Which bytes of the declared intervals are written: each exactly once.
class Coverage {
 public:
  explicit Coverage(std::vector<Interval> declared) : declared_(std::move(declared)) {}

  // False where [begin, end) is not inside one run of touching declared intervals.
  bool declares(uint64_t begin, uint64_t end) const {
    auto i = std::upper_bound(declared_.begin(), declared_.end(), begin,
                              [](uint64_t at, const Interval& x) { return at < x.begin; });
    if (i == declared_.begin()) return false;
    --i;
    uint64_t reach = i->end;
    while (reach < end && ++i != declared_.end() && i->begin == reach) reach = i->end;
    return end <= reach && begin < reach;
  }
  // False, and nothing changes, where part of [begin, end) is written already.
  bool add(uint64_t begin, uint64_t end) {
    const auto next = written_.lower_bound(begin);
    if (next != written_.end() && next->first < end) return false;
    auto previous = written_.end();
    if (next != written_.begin()) {
      previous = std::prev(next);
      if (previous->second > begin) return false;
      if (previous->second < begin) previous = written_.end();
    }
    // Neighbours become one, so that streams of rows stay a few entries.
    if (next != written_.end() && next->first == end) {
      end = next->second;
      written_.erase(next);
    }
    if (previous != written_.end()) {
      previous->second = end;
    } else {
      written_.emplace(begin, end);
    }
    return true;
  }
  // The first declared byte that is not written.
  std::optional<uint64_t> first_missing() const {
    for (const Interval& wanted : declared_) {
      uint64_t at = wanted.begin;
      auto i = written_.upper_bound(at);
      if (i != written_.begin()) at = std::max(at, std::prev(i)->second);
      if (at < wanted.end) return at;
    }
    return std::nullopt;
  }

 private:
  std::vector<Interval> declared_;  // ascending, disjoint
  std::map<uint64_t, uint64_t> written_;
};

uint64_t reserve_for(uint64_t text_bytes) {
  return checked_align_up(checked_add(kHeaderBytes, text_bytes, "directory"), kFileAlignment,
                          "directory") -
         kHeaderBytes;
}

bool is_utf8(const std::string& text) {
  try {
    parse_json(quote_json(text), "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<FileEntry> split(uint64_t payload_bytes, uint64_t json_bytes,
                             const std::string& entry_name, std::optional<uint64_t> limit) {
  const uint64_t start = entry_payload_start(json_bytes);
  if (!limit || checked_add(start, payload_bytes, "entry length") <= *limit)
    return {{.path = "", .payload_bytes = payload_bytes}};
  const auto capacity = [&](uint64_t payload_start) {
    return *limit <= payload_start ? 0 : (*limit - payload_start) / kFileAlignment * kFileAlignment;
  };
  const uint64_t entry_capacity = capacity(start);
  const uint64_t part_capacity = capacity(kFileAlignment);
  if (entry_capacity == 0 || part_capacity == 0)
    throw Error(Code::kUsage,
                "{}: max_file_bytes {} is too small, at least {} expected for this "
                "directory",
                entry_name, *limit, std::max(start, kFileAlignment) + kFileAlignment);
  if (!is_utf8(entry_name))
    throw Error(Code::kUsage,
                "{}: the name is no UTF-8, which it must be to name parts of a split file",
                one_line(entry_name));
  std::vector<FileEntry> files{{.path = "", .payload_bytes = entry_capacity}};
  for (uint64_t at = entry_capacity; at < payload_bytes;) {
    const uint64_t bytes = std::min(part_capacity, payload_bytes - at);
    files.push_back(
        {.path = fmt::format("{}.part-{:04}", entry_name, files.size()), .payload_bytes = bytes});
    at += bytes;
  }
  return files;
}

// Parts of the set at `entry` that are its own beyond doubt. None where it is no artifact.
std::vector<std::filesystem::path> old_parts(const std::filesystem::path& entry) {
  std::vector<std::filesystem::path> parts;
  try {
    const Reader old = Reader::open(entry);
    for (size_t i = 1; i < old.directory().files.size(); ++i) {
      try {
        open_part(old.file_path(i), i, old.id(), old.directory().files[i].payload_bytes);
        parts.push_back(old.file_path(i));
      } catch (const Error&) {
        // A foreign file that bears a part's name is not ours to remove.
      }
    }
  } catch (const Error&) {
    // Whatever stands there is one file.
  }
  return parts;
}

std::vector<Interval> intervals_of(const std::vector<Object>& objects) {
  std::vector<Interval> out;
  for (const Object& object : objects)
    out.push_back({.begin = object.offset, .end = object.offset + object.bytes});
  return out;
}

uint64_t payload_end(const Directory& directory) {
  if (directory.objects.empty()) return 0;
  const Object& last = directory.objects.back();
  return checked_add(last.offset, last.bytes, "end of the last object");
}

}  // namespace

ArtifactId random_id() {
  std::random_device random;
  ArtifactId id;
  for (std::byte& b : id) b = static_cast<std::byte>(random());
  // UUID version 4, variant 1 (RFC 9562 §5.4).
  id[6] = (id[6] & std::byte{0x0f}) | std::byte{0x40};
  id[8] = (id[8] & std::byte{0x3f}) | std::byte{0x80};
  return id;
}

ArtifactId id_from_hex(std::string_view hex) {
  ArtifactId id;
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    throw Error(Code::kUsage, "artifact id {}: 32 hex digits expected", quote(hex));
  };
  if (hex.size() != 2 * id.size())
    throw Error(Code::kUsage, "artifact id {}: 32 hex digits expected", quote(hex));
  for (size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<std::byte>(16 * digit(hex[2 * i]) + digit(hex[2 * i + 1]));
  return id;
}

void place_objects(Directory& directory) {
  uint64_t end = 0;
  for (Object& object : directory.objects) {
    const bool tensor = object.kind == Object::Kind::kTensor;
    object.offset = checked_align_up(end, tensor ? kTensorAlignment : 1, "object offset");
    end = checked_add(object.offset, object.bytes, "object end");
  }
}

FilePlan plan_files(const Directory& directory, uint64_t payload_bytes,
                    const std::string& entry_name, const WriteOptions& options) {
  Directory planned = directory;
  FilePlan plan;
  planned.files = {{.path = "", .payload_bytes = payload_bytes}};
  plan.json_bytes =
      reserve_for(std::max<uint64_t>(canonical_text(planned).size(), options.min_json_bytes));
  while (true) {
    planned.files = split(payload_bytes, plan.json_bytes, entry_name, options.max_file_bytes);
    plan.text = canonical_text(planned);
    if (plan.text.size() <= plan.json_bytes) break;
    plan.json_bytes = reserve_for(plan.text.size());
  }
  plan.files = std::move(planned.files);
  return plan;
}

struct Writer::Impl {
  Impl(const std::filesystem::path& target_path, Directory made, const WriteOptions& options,
       std::vector<Interval> declared, uint64_t payload_bytes)
      : target(target_path),
        force(options.force),
        output(options.force),
        coverage(std::move(declared)) {
    const std::string entry_name = target.filename().string();
    const FilePlan plan = plan_files(made, payload_bytes, entry_name, options);
    // Reading the text back proves what no reader may refuse: UTF-8, nesting, unique names.
    directory = parse_directory(plan.text, target.string(), entry_name);
    json_bytes = plan.json_bytes;
    const ArtifactId id = options.id ? *options.id : random_id();
    starts.push_back(0);
    for (size_t i = 0; i < directory.files.size(); ++i) {
      const FileEntry& entry = directory.files[i];
      output.create(i == 0 ? target : target.parent_path() / entry.path);
      output.resize(i, payload_start(i) + entry.payload_bytes);
      output.write_at(i, 0, i == 0 ? entry_header(json_bytes, id) : part_header(i, id));
      starts.push_back(starts.back() + entry.payload_bytes);
    }
    std::string text = plan.text;
    text.resize(json_bytes, ' ');
    output.write_at(0, kHeaderBytes, as_bytes(text));
  }

  uint64_t payload_start(size_t i) const {
    return i == 0 ? entry_payload_start(json_bytes) : kFileAlignment;
  }
  void write(uint64_t offset, Bytes bytes);
  void finish();
  std::string object_at(uint64_t offset) const;

  std::filesystem::path target;
  bool force;
  bool finished = false;
  Directory directory;
  uint64_t json_bytes = 0;
  std::vector<uint64_t> starts;  // P_i, and the payload's end
  OutputSet output;
  Coverage coverage;
};

// The object that holds a byte, for messages.
std::string Writer::Impl::object_at(uint64_t offset) const {
  for (const Object& object : directory.objects)
    if (offset >= object.offset && offset - object.offset < object.bytes)
      return fmt::format("object {} byte {}", quote(object.id), offset - object.offset);
  return fmt::format("payload byte {}", offset);
}

void Writer::Impl::write(uint64_t offset, Bytes bytes) {
  if (bytes.empty()) return;
  const uint64_t end = checked_add(offset, bytes.size(), "write");
  if (finished)
    throw Error(Code::kWrite, "{}: write at {} after the set was finished", target.string(),
                offset);
  if (!coverage.declares(offset, end))
    throw Error(Code::kWrite, "{}: write of [{},{}) leaves the objects declared there",
                target.string(), offset, end);
  if (!coverage.add(offset, end))
    throw Error(Code::kWrite, "{}: [{},{}), {}, is written twice", target.string(), offset, end,
                object_at(offset));
  size_t i =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) -
      1;
  for (; !bytes.empty(); ++i) {
    const uint64_t length = std::min<uint64_t>(bytes.size(), starts[i + 1] - offset);
    output.write_at(i, payload_start(i) + (offset - starts[i]), bytes.first(length));
    bytes = bytes.subspan(length);
    offset += length;
  }
}

void Writer::Impl::finish() {
  if (finished) throw Error(Code::kWrite, "{}: finished twice", target.string());
  if (const auto missing = coverage.first_missing())
    throw Error(Code::kWrite, "{}: {} was never written", target.string(), object_at(*missing));
  std::vector<size_t> order;
  for (size_t i = 1; i < directory.files.size(); ++i) order.push_back(i);
  order.push_back(0);
  output.publish(order, force ? old_parts(target) : std::vector<std::filesystem::path>{});
  finished = true;
}

Writer::Writer(const std::filesystem::path& target, Directory directory,
               const WriteOptions& options) {
  const uint64_t end = payload_end(directory);
  // Offsets are checked before intervals are made of them.
  directory.files = {{.path = "", .payload_bytes = end}};
  check_directory(directory, target.string(), target.filename().string());
  std::vector<Interval> declared = intervals_of(directory.objects);
  impl_ = std::make_unique<Impl>(target, std::move(directory), options, std::move(declared), end);
}
Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

Writer Writer::whole_payload(const std::filesystem::path& target, Directory directory,
                             uint64_t payload_bytes, const WriteOptions& options) {
  directory.files = {{.path = "", .payload_bytes = payload_bytes}};
  check_directory(directory, target.string(), target.filename().string());
  return Writer(std::make_unique<Impl>(target, std::move(directory), options,
                                       std::vector<Interval>{{.begin = 0, .end = payload_bytes}},
                                       payload_bytes));
}

const Directory& Writer::directory() const { return impl_->directory; }
void Writer::write(uint64_t logical_offset, Bytes bytes) { impl_->write(logical_offset, bytes); }
void Writer::finish() { impl_->finish(); }

void reshard(const std::filesystem::path& source, const std::filesystem::path& target,
             const WriteOptions& options, const std::function<void(uint64_t)>& on_progress) {
  constexpr uint64_t kChunkBytes = 8u << 20;
  const Reader reader = Reader::open(source);
  reader.open_all_parts();
  const uint64_t payload_bytes = reader.directory().payload_bytes();
  const FileStamps stamps(reader.file_paths());
  Writer writer = Writer::whole_payload(target, reader.directory(), payload_bytes, options);
  std::vector<std::byte> buffer;
  for (uint64_t at = 0; at < payload_bytes; at += buffer.size()) {
    buffer.resize(std::min(kChunkBytes, payload_bytes - at));
    reader.read(at, buffer);
    writer.write(at, buffer);
    if (on_progress) on_progress(buffer.size());
  }
  stamps.check();
  writer.finish();
}

}  // namespace flare::artifact
