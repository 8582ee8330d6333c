// Checks everything about an artifact, payload bytes included, in blocks of rows.
#include <algorithm>
#include <mutex>
#include <vector>

#include "artifact/reader.h"
#include "base/checked.h"
#include "base/file_stamps.h"
#include "base/team.h"

namespace flare::artifact {
namespace {

// Per worker: large enough to hide the hand-over between blocks, small against any machine.
constexpr uint64_t kBlockBytes = 4u << 20;
// A single row beyond this is checked in the mapped object instead of a buffer.
constexpr uint64_t kLargestRowBytes = 64u << 20;

// Confined to the thread that runs it, which is member 0 of its team.
class Verifier {
 public:
  Verifier(Reader& reader, int threads, const std::function<void(uint64_t)>& on_progress)
      : reader_(reader),
        team_(std::max(threads, 1)),
        buffers_(static_cast<size_t>(team_.size())),
        on_progress_(on_progress) {}

  void check(const Object& object) {
    if (object.kind == Object::Kind::kResource) return read_through(object.offset, object.bytes);
    const TensorInfo info = reader_.tensor(object.id);
    // Words of direct formats are valid whatever they are; being readable is all they owe.
    if (!info.format->quantised) return read_through(object.offset, object.bytes);
    check_gaps(info);
    check_rows(info);
  }

 private:
  std::string where(const Object& object) const {
    return fmt::format("{}: object {}", reader_.path().string(), quote(object.id));
  }
  void progress(uint64_t bytes) {
    if (on_progress_) on_progress_(bytes);
  }

  // Calls work(block, buffer) for n blocks, `team_.size()` at a time.
  void for_blocks(uint64_t n, const std::function<void(uint64_t, std::vector<std::byte>&)>& work,
                  const std::function<uint64_t(uint64_t)>& bytes_of) {
    const auto members = static_cast<uint64_t>(team_.size());
    for (uint64_t first = 0; first < n; first += members) {
      const uint64_t count = std::min(members, n - first);
      if (count == 1) {
        work(first, buffers_[0]);
      } else {
        team_.run([&](Member& member) {
          const auto i = static_cast<uint64_t>(member.index());
          if (i < count) work(first + i, buffers_[i]);
        });
      }
      for (uint64_t i = 0; i < count; ++i) progress(bytes_of(first + i));
    }
  }

  void read_through(uint64_t offset, uint64_t bytes) {
    const auto size_of = [&](uint64_t block) {
      return std::min(kBlockBytes, bytes - block * kBlockBytes);
    };
    for_blocks((bytes + kBlockBytes - 1) / kBlockBytes,
               [&](uint64_t block, std::vector<std::byte>& buffer) {
                 buffer.resize(size_of(block));
                 reader_.read(offset + block * kBlockBytes, buffer);
               },
               size_of);
  }

  void check_gaps(const TensorInfo& info) {
    const codec::Planes planes = info.format->planes(info.geometry);
    std::vector<std::byte>& buffer = buffers_[0];
    for (int i = 0; i < planes.count; ++i) {
      const codec::Plane& plane = planes.plane[i];
      const uint64_t begin = plane.offset + info.geometry.rows * plane.row_bytes;
      const uint64_t end =
          i + 1 < planes.count ? planes.plane[i + 1].offset : planes.total_bytes - tail_bytes(info);
      buffer.resize(end - begin);
      reader_.read(info.object->offset + begin, buffer);
      const auto bad = std::ranges::find_if(buffer, [](std::byte b) { return b != std::byte{0}; });
      if (bad != buffer.end())
        throw Error(Code::kValue, "{}: byte {} between planes is {}, 0 expected",
                    where(*info.object), begin + static_cast<uint64_t>(bad - buffer.begin()),
                    static_cast<int>(*bad));
      progress(buffer.size());
    }
    progress(tail_bytes(info));
  }

  static bool is_tiled(const TensorInfo& info) {
    return info.format->layout == codec::LayoutId::kBlockScale;
  }
  // The divisors behind the last plane of nvfp4; they are checked with the rows.
  static uint64_t tail_bytes(const TensorInfo& info) {
    return is_tiled(info) ? info.geometry.divisors * sizeof(float) : 0;
  }

  void check_rows(const TensorInfo& info) {
    const codec::Planes planes = info.format->planes(info.geometry);
    uint64_t row_bytes = 0;
    for (int i = 0; i < planes.count; ++i) row_bytes += planes.plane[i].row_bytes;
    const uint64_t rows = info.geometry.rows;
    const uint64_t block_rows =
        std::clamp<uint64_t>(kBlockBytes / std::max<uint64_t>(row_bytes, 1), 1, rows);
    const auto rows_in = [&](uint64_t block) {
      return std::min(block_rows, rows - block * block_rows);
    };
    // Rows of a tiled layout are no object of their own: their scales lie in tiles, and the
    // divisors are the parent's.
    if (row_bytes > kLargestRowBytes || is_tiled(info)) {
      const uint64_t at_once = is_tiled(info) ? block_rows : 1;
      for (uint64_t row = 0; row < rows; row += at_once) {
        const uint64_t n = std::min(at_once, rows - row);
        check_mapped(info, row, n);
        progress(n * row_bytes);
      }
      return;
    }
    uint64_t failed_block = UINT64_MAX;  // the first one, whichever worker was faster
    std::mutex mutex;
    for_blocks((rows + block_rows - 1) / block_rows,
               [&](uint64_t block, std::vector<std::byte>& buffer) {
                 if (block_is_valid(info, planes, block * block_rows, rows_in(block), buffer))
                   return;
                 const std::lock_guard lock(mutex);
                 failed_block = std::min(failed_block, block);
               },
               [&](uint64_t block) {
                 // Looked at again in place, where its rows have their own numbers.
                 if (failed_block != UINT64_MAX) {
                   const uint64_t row = failed_block * block_rows;
                   check_mapped(info, row, rows_in(failed_block));
                   throw Error(Code::kValue, "{}: rows from {} changed while they were checked",
                               where(*info.object), row);
                 }
                 return rows_in(block) * row_bytes;
               });
  }

  // Rows [row, row+n) copied into an object of their own.
  bool block_is_valid(const TensorInfo& info, const codec::Planes& planes, uint64_t row, uint64_t n,
                      std::vector<std::byte>& buffer) const {
    const codec::Geometry geometry{.rows = n, .cols = info.geometry.cols};
    const codec::Planes block = info.format->planes(geometry);
    buffer.resize(block.total_bytes);
    for (int i = 0; i < planes.count; ++i) {
      const codec::Plane& plane = planes.plane[i];
      reader_.read(info.object->offset + plane.offset + row * plane.row_bytes,
                   MutableBytes(buffer).subspan(block.plane[i].offset, n * plane.row_bytes));
    }
    try {
      info.format->validate(buffer.data(), geometry, 0, n);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void check_mapped(const TensorInfo& info, uint64_t row, uint64_t n) {
    const Bytes object = reader_.mapped(info.object->id);
    try {
      info.format->validate(object.data(), info.geometry, row, n);
    } catch (Error& error) {
      error.add_context(where(*info.object));
      throw;
    }
  }

  Reader& reader_;
  Team team_;
  std::vector<std::vector<std::byte>> buffers_;  // one per member
  const std::function<void(uint64_t)>& on_progress_;
};

}  // namespace

void verify(const std::filesystem::path& entry, int threads, bool quick,
            const std::function<void(uint64_t)>& on_progress) {
  Reader reader = Reader::open(entry);
  reader.open_all_parts();
  for (const Object& object : reader.directory().objects) {
    if (object.kind == Object::Kind::kTensor) {
      reader.tensor(object.id);
    } else {
      reader.resource(object.id);
    }
  }
  if (quick) return;
  const FileStamps stamps(reader.file_paths());
  Verifier verifier(reader, threads, on_progress);
  for (const Object& object : reader.directory().objects) verifier.check(object);
  stamps.check();
}

}  // namespace flare::artifact
