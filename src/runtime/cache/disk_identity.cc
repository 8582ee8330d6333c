// Hashes of weights in pieces by several threads; everything else as text.
#include "runtime/cache/disk_identity.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/hash/sha256.h"
#include "base/hash/xxh3.h"
#include "codec/format.h"
#include "codec/panels.h"

namespace flare::runtime {
namespace {

constexpr uint64_t kPiece = uint64_t{16} << 20;

Bytes object_of(const codec::Segment& segment) {
  const uint64_t bytes = segment.layout == codec::LayoutId::kPanels16
                             ? codec::panels_bytes(segment.format, segment.geometry)
                             : codec::format(segment.format).planes(segment.geometry).total_bytes;
  return {segment.object, bytes};
}

std::vector<Hash128> hashes_of(const std::vector<Bytes>& pieces, int threads) {
  std::vector<Hash128> hashes(pieces.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next++) < pieces.size();) hashes[i] = xxh3_128(pieces[i]);
  };
  std::vector<std::jthread> team;
  for (int t = 1; t < threads; ++t) team.emplace_back(work);
  work();
  team.clear();
  return hashes;
}

// Writes text and hashes, each with its length, so that no two models write the same.
class Digest {
 public:
  void add(Bytes bytes) {
    add_number(bytes.size());
    hash_.update(bytes);
  }
  void add(std::string_view text) {
    add(Bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  }
  void add_number(uint64_t number) {
    hash_.update(Bytes(reinterpret_cast<const std::byte*>(&number), sizeof number));
  }
  EntryKey finish() { return hash_.finish(); }

 private:
  Sha256 hash_;
};

void add_layouts(Digest& digest, const package::Rank& rank) {
  digest.add_number(rank.page.tokens);
  digest.add_number(rank.page.bytes);
  digest.add_number(rank.page.regions.size());
  for (const package::PageRegion& region : rank.page.regions) {
    digest.add(region.name);
    for (uint64_t n : {region.offset, region.bytes, static_cast<uint64_t>(region.dtype)})
      digest.add_number(n);
  }
  digest.add_number(rank.row.bytes);
  digest.add_number(rank.row.partial_page.value_or(UINT64_MAX));
  digest.add_number(rank.row.fields.size());
  for (const package::RowField& field : rank.row.fields) {
    digest.add(field.name);
    for (uint64_t n : {static_cast<uint64_t>(field.kind), field.offset, field.bytes,
                       static_cast<uint64_t>(field.dtype)})
      digest.add_number(n);
  }
}

// How rows are computed: kernels with their settings, not how many of them fit into a step.
void add_step(Digest& digest, const package::Rank& rank) {
  const graph::Plan* largest = nullptr;
  for (const package::CatalogEntry& entry : rank.catalog)
    if (entry.graph_class == "step" &&
        (largest == nullptr || entry.plan.capacity.rows > largest->capacity.rows))
      largest = &entry.plan;
  if (largest == nullptr) return;
  digest.add_number(largest->launches.size());
  for (const graph::Launch& launch : largest->launches) digest.add_number(launch.kernel);
  digest.add_number(largest->immediates.size());
  for (const graph::Immediate& immediate : largest->immediates)
    digest.add_number(std::bit_cast<uint64_t>(immediate));
}

void add_weights(Digest& digest, const package::Rank& rank, int threads) {
  std::map<const std::byte*, size_t> first_piece;  // of an object that several weights share
  std::vector<Bytes> pieces;
  const auto cut = [&](Bytes object) {
    if (!first_piece.emplace(object.data(), pieces.size()).second) return;
    for (uint64_t at = 0; at < object.size(); at += kPiece)
      pieces.push_back(object.subspan(at, std::min<uint64_t>(kPiece, object.size() - at)));
  };
  for (const codec::Matrix& weight : rank.weights)
    for (const codec::Segment& segment : weight.segments) cut(object_of(segment));
  const std::vector<Hash128> hashes = hashes_of(pieces, threads);
  digest.add_number(rank.weights.size());
  for (const codec::Matrix& weight : rank.weights) {
    digest.add_number(weight.segments.size());
    for (const codec::Segment& s : weight.segments) {
      for (uint64_t n : {s.geometry.rows, s.geometry.cols, static_cast<uint64_t>(s.format),
                         static_cast<uint64_t>(s.layout), s.row_begin, s.row_end,
                         uint64_t{first_piece.at(s.object)}})
        digest.add_number(n);
    }
  }
  digest.add(std::as_bytes(std::span(hashes)));
  digest.add_number(rank.constants.size());
  for (const kernel::Constant& table : rank.constants) {
    digest.add_number(static_cast<uint64_t>(table.cols));
    digest.add(std::as_bytes(std::span(table.values)));
    digest.add(std::as_bytes(std::span(table.indices)));
  }
}

}  // namespace

EntryKey model_identity(const package::PreparedModel& model, std::string_view backend,
                        int threads) {
  Digest digest;
  const MappedFile program = MappedFile::open("/proc/self/exe");
  digest.add(xxh3_128(program.bytes()));
  digest.add(backend);
  digest.add_number(model.vocab_size);
  digest.add_number(model.ranks.size());
  for (const package::Rank& rank : model.ranks) {
    add_layouts(digest, rank);
    add_step(digest, rank);
    add_weights(digest, rank, threads);
  }
  return digest.finish();
}

}  // namespace flare::runtime
