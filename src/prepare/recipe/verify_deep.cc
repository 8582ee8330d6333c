// Row by row: what the source's numbers become in the artifact may differ from them so much and no
// more.
#include "prepare/recipe/verify_deep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/file_stamps.h"
#include "base/float_types.h"
#include "base/team.h"
#include "prepare/artifact_source.h"
#include "prepare/import/gguf_repacked.h"
#include "prepare/import/import.h"
#include "prepare/import/tensor_pool.h"
#include "prepare/recipe/encode.h"
#include "prepare/recipe/encode_nvfp4.h"

namespace flare::prepare {
namespace {

using codec::FormatId;

constexpr uint64_t kValuesAtOnce = 1 << 21;
// Room for the roundings of binary32 in the encoders themselves.
constexpr float kSlack = 1.0f + 1e-4f;

// How far a number of a group may move: a step of its format for a group whose largest magnitude is
// 1, where the encoder keeps that magnitude in range.
struct Step {
  FormatId format;
  uint64_t group;  // columns; 0: the row
  float largest;   // of the codes that both signs have
};
constexpr Step kSteps[] = {
    {FormatId::kQ4G64, 64, 7},
    {FormatId::kQ5G64, 64, 15},
    {FormatId::kQ6G64, 64, 31},
    {FormatId::kQ8G32, 32, 127},
};

// ggml's and MX blocks encoded from numbers: half a step, a clipped end and a rounded scale
// together, as a share of the block's largest magnitude. `codes`: the largest integer that a
// block's fp16 scale is multiplied with, which counts where that scale is subnormal.
struct Share {
  FormatId format;
  uint64_t group;
  float share, codes;
};
constexpr Share kShares[] = {
    {FormatId::kGgufQ8_0, 32, 1 / 225.0f, 127}, {FormatId::kGgufQ5_0, 32, 1 / 15.5f, 16},
    {FormatId::kGgufQ5_1, 32, 1 / 29.0f, 32},   {FormatId::kGgufQ4_0, 32, 1 / 7.5f, 8},
    {FormatId::kGgufQ4_1, 32, 1 / 14.0f, 16},   {FormatId::kGgufIq4Nl, 32, 1 / 5.0f, 127},
    {FormatId::kGgufQ6K, 256, 0.1f, 4096},      {FormatId::kGgufQ5K, 256, 0.2f, 2016},
    {FormatId::kGgufQ4K, 256, 0.3f, 1008},      {FormatId::kGgufIq4Xs, 256, 0.3f, 4064},
    {FormatId::kGgufQ3K, 256, 0.6f, 128},       {FormatId::kGgufQ2K, 256, 1.0f, 60},
    {FormatId::kMxfp4, 32, 0.25f, 0},           {FormatId::kMxfp8, 32, 0.125f, 0},
};

float largest_of(const float* x, uint64_t n) {
  float largest = 0;
  for (uint64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

// What a parameter's numbers are held to.
class Bounds {
 public:
  // `rounded`: copied, but for a scale.
  Bounds(const codec::Format& format, bool copied, bool rounded, bool searched)
      : format_(format), copied_(copied), rounded_(rounded), searched_(searched) {}

  std::string how() const {
    if (copied_) return "copied";
    if (!format_.quantised) return "cast";
    return searched_ ? "searched" : "encoded";
  }

  // bound[c] for each number of a row of the source. `smallest` is what nvfp4 rounds to nothing.
  void of_row(const float* x, uint64_t cols, float smallest, float* bound) const {
    if (copied_ || !format_.quantised) return of_cast(x, cols, bound);
    for (const Step& step : kSteps)
      if (step.format == format_.id) return of_steps(step, x, cols, bound);
    for (const Share& share : kShares)
      if (share.format == format_.id)
        return of_groups(share.group, x, cols, bound, [&](float largest) {
          return share.share * largest + share.codes * 0x1p-25f;
        });
    switch (format_.id) {
      case FormatId::kFp8RowBf16:
      case FormatId::kFp8RowFp16:
        return of_fp8(x, cols, bound);
      case FormatId::kNvfp4:
        // The widest gap of E2M1 lies between 4 and 6, the scale is right to a sixteenth.
        return of_groups(16, x, cols, bound,
                         [&](float largest) { return largest * (1 + 1 / 16.0f) / 6 + smallest; });
      default:
        throw Error(Code::kSupport, "format {} has no known bound of what is encoded in it",
                    format_.name);
    }
  }

 private:
  // Words are the same, or the nearest of the format. A scale of fp8 that is copied may be rounded
  // to bf16, the divisor of nvfp4 is a rounded reciprocal and its quotient is rounded too.
  void of_cast(const float* x, uint64_t cols, float* bound) const {
    const float share = !rounded_ ? 0 : format_.id == FormatId::kFp8RowBf16 ? 0x1p-8f : 0x1p-22f;
    for (uint64_t c = 0; c < cols; ++c) {
      bound[c] = share * std::fabs(x[c]);
      if (copied_) continue;
      if (format_.id == FormatId::kBf16)
        bound[c] = std::fabs(bf16_to_f32(f32_to_bf16(x[c])) - x[c]);
      if (format_.id == FormatId::kFp16)
        bound[c] = std::fabs(fp16_to_f32(f32_to_fp16(x[c])) - x[c]);
    }
  }

  template <typename Of>
  static void of_groups(uint64_t group, const float* x, uint64_t cols, float* bound, Of of) {
    for (uint64_t c = 0; c < cols; c += group) {
      const uint64_t n = std::min(group, cols - c);
      std::fill_n(bound + c, n, of(largest_of(x + c, n)) * kSlack);
    }
  }

  // Half a step of the scale of §8.2, and what its rounding to fp16 cuts off. A search may choose
  // any scale under which the group's squared error is smaller, so one number may move as far as
  // all of them together would; weighted by columns, no further than to zero.
  void of_steps(const Step& step, const float* x, uint64_t cols, float* bound) const {
    of_groups(step.group, x, cols, bound, [&](float largest) {
      if (searched_) return largest;
      const float scale = std::max(fp16_to_f32(f32_to_fp16(largest / step.largest)), 0x1p-24f);
      return largest == 0 ? 0 : std::max(scale / 2, largest - step.largest * scale);
    });
  }

  // bf16 first, then half the gap of E4M3: a sixteenth of the number, or of the smallest normal
  // one. The scale is right to 2^-8, and what it cuts off is as much.
  static void of_fp8(const float* x, uint64_t cols, float* bound) {
    const float largest = largest_of(x, cols);
    for (uint64_t c = 0; c < cols; ++c)
      bound[c] = (std::max(std::fabs(x[c]) / 16, largest / 448 * 0x1p-10f) + std::fabs(x[c]) / 128 +
                  0x1p-133f) *
                 kSlack;
  }

  const codec::Format& format_;
  const bool copied_, rounded_, searched_;
};

// Whether copying the parameter's words changes a scale.
bool rounds(const ImportedParameter& parameter, const codec::Format& format) {
  return std::ranges::any_of(parameter.pieces, [&](const Piece& piece) {
    return piece.encoded != nullptr && piece.encoded->facts().is_rounded_in(format.id);
  });
}

struct RowSums {
  double worst = 0, noise = 0, signal = 0;
};

class DeepVerifier {
 public:
  DeepVerifier(const std::filesystem::path& artifact, const std::filesystem::path& source,
               int threads, const std::function<void(uint64_t)>& on_progress)
      : artifact_(artifact),
        checkpoint_(checkpoint::Checkpoint::open(source)),
        source_path_(source),
        team_(std::max(1, threads)),
        on_progress_(on_progress) {}

  DeepReport run() {
    std::vector<std::string> components;
    for (const auto& [id, component] : artifact_.directory().components) components.push_back(id);
    FileStamps stamps(artifact_.files());
    stamps.add(checkpoint_.paths());
    ImportedModel model = import_checkpoint(checkpoint_, components);
    std::set<std::string> known;
    for (ImportedComponent& component : model.components) {
      check_config(component);
      for (ImportedParameter& parameter : component.parameters) {
        known.insert(parameter.name);
        check(parameter);
      }
    }
    for (const auto& [name, binding] : artifact_.directory().bindings)
      if (!known.contains(name))
        throw Error(Code::kBinding, "{}: parameter '{}' is not in {}", where(), name,
                    source_path_.string());
    stamps.check();
    for (auto& [key, sums] : totals_) {
      DeepTotal& total = report_.totals.emplace_back(sums.total);
      total.relative = sums.signal > 0 ? std::sqrt(sums.noise / sums.signal) : 0;
    }
    return std::move(report_);
  }

 private:
  struct Totals {
    DeepTotal total;
    double noise = 0, signal = 0;
  };

  std::string where() const { return artifact_.path().string(); }

  void check_config(const ImportedComponent& component) {
    const Json &stored = artifact_.config(component.id), &wanted = component.config;
    if (stored == wanted) return;
    const auto text = [](const Json* member) {
      return member == nullptr ? "missing" : quote(member->to_text());
    };
    for (const Json* side : {&wanted, &stored})
      for (const auto& [key, ignored] : side->as_object()) {
        const Json *ours = stored.find(key), *theirs = wanted.find(key);
        if (ours == nullptr || theirs == nullptr || *ours != *theirs)
          throw Error(Code::kBinding, "{}: '{}' in the config of component {} is {}, {} in {}",
                      where(), key, component.id, text(ours), text(theirs), source_path_.string());
      }
  }

  bool was_searched() const {
    const Json* encoders = artifact_.directory().provenance.find("encoders");
    if (encoders == nullptr || !encoders->is_object()) return false;
    return std::ranges::any_of(encoders->as_object(), [](const auto& member) {
      return member.first.find("search") != member.first.npos;
    });
  }

  void check(ImportedParameter& parameter) {
    const codec::Geometry geometry = geometry_of(parameter);
    const codec::Matrix stored = artifact_.matrix(parameter.name, geometry);
    const codec::Format& format = codec::format(stored.segments.front().format);
    if (format.encode == nullptr) take_over_blocks(checkpoint_, format.id, parameter);
    const Bounds bounds(format, copies_words(parameter, format), rounds(parameter, format),
                        was_searched());
    std::vector<int32_t> columns;
    if (!parameter.inputs.empty())
      columns = artifact_.input_columns(parameter.name, parameter.inputs.front());
    Totals& totals = totals_[{std::string(format.name), bounds.how()}];
    totals.total.format = format.name;
    totals.total.how = bounds.how();
    ++totals.total.parameters;
    ++report_.parameters;
    const uint64_t block = std::max<uint64_t>(1, kValuesAtOnce / geometry.cols);
    for (uint64_t row = 0; row < geometry.rows; row += block) {
      const uint64_t n = std::min(block, geometry.rows - row);
      if (format.stored_only)
        check_words(parameter, stored, format, row, n);
      else
        check_rows({parameter, stored, bounds, columns}, row, n, totals);
      for (const codec::Segment& segment : stored.segments)
        release_mapped(
            {segment.object, codec::format(segment.format).planes(segment.geometry).total_bytes});
      release_rows(checkpoint_, parameter, row, row + n);
      const uint64_t weights = n * geometry.cols;
      totals.total.weights += weights;
      report_.weights += weights;
      if (on_progress_) on_progress_(weights);
    }
    release_sources(checkpoint_, parameter);
  }

  struct Work {
    const ImportedParameter& parameter;
    const codec::Matrix& stored;
    const Bounds& bounds;
    const std::vector<int32_t>& columns;  // of the stored rows; empty: in order
  };

  // What a block of nvfp4 may lose whose scale is rounded to zero or to a subnormal word.
  static float smallest_of(const codec::Segment& segment, uint64_t row) {
    if (segment.format != FormatId::kNvfp4) return 0;
    const codec::Geometry g = segment.geometry;
    const uint64_t bytes = codec::format(segment.format).planes(g).total_bytes;
    const uint64_t index = (segment.row_begin + row) / (g.rows / g.divisors);
    const float divisor = load_le<float>(segment.object + bytes - 4 * g.divisors + 4 * index);
    return divisor > 0 ? 6 * 0x1p-10f / divisor : 0;
  }

  void check_rows(const Work& work, uint64_t row, uint64_t n, Totals& totals) {
    const uint64_t cols = work.stored.cols;
    std::vector<RowSums> rows(n);
    team_.for_range(static_cast<int64_t>(n), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> source(cols), made(cols), raw(cols), bound(cols);
      for (int64_t r = begin; r < end; ++r) {
        const uint64_t at = row + static_cast<uint64_t>(r);
        read_rows(work.parameter, at, 1, source.data());
        codec::decode_row(work.stored, at, raw.data());
        if (work.columns.empty()) made.swap(raw);
        for (size_t c = 0; c < work.columns.size(); ++c)
          made[static_cast<size_t>(work.columns[c])] = raw[c];
        work.bounds.of_row(source.data(), cols, smallest_at(work.stored, at), bound.data());
        rows[static_cast<size_t>(r)] = compare(work.parameter, at, source, made, bound);
        if (work.columns.empty()) made.swap(raw);
      }
    });
    for (const RowSums& sums : rows) {
      totals.total.worst = std::max(totals.total.worst, sums.worst);
      totals.noise += sums.noise;
      totals.signal += sums.signal;
    }
  }

  // Of formats whose numbers nothing reads: the words themselves are the same.
  void check_words(const ImportedParameter& parameter, const codec::Matrix& stored,
                   const codec::Format& format, uint64_t row, uint64_t n) {
    if (!copies_words(parameter, format))
      throw Error(Code::kSupport, "{}: parameter '{}' is {}, which is not what the source has",
                  where(), parameter.name, format.name);
    const uint64_t row_bytes = format.planes({1, stored.cols}).total_bytes;
    std::vector<std::byte> wanted(n * row_bytes);
    encode_rows(parameter, format, row, n, {.plane = {wanted.data()}}, team_);
    uint64_t first = 0;  // of the segment
    for (const codec::Segment& segment : stored.segments) {
      for (uint64_t r = std::max(row, first); r < std::min(row + n, first + segment.rows()); ++r)
        if (std::memcmp(segment.object + (segment.row_begin + r - first) * row_bytes,
                        &wanted[(r - row) * row_bytes], row_bytes) != 0)
          throw Error(Code::kValue, "{}: parameter '{}' row {} has other words than the source",
                      where(), parameter.name, r);
      first += segment.rows();
    }
  }

  static float smallest_at(const codec::Matrix& stored, uint64_t row) {
    for (const codec::Segment& segment : stored.segments) {
      if (row < segment.rows()) return smallest_of(segment, row);
      row -= segment.rows();
    }
    return 0;
  }

  RowSums compare(const ImportedParameter& parameter, uint64_t row,
                  const std::vector<float>& source, const std::vector<float>& made,
                  const std::vector<float>& bound) const {
    RowSums sums;
    for (size_t c = 0; c < source.size(); ++c) {
      // Words of direct formats may be anything, and are the same then.
      if (std::isnan(source[c]) ? std::isnan(made[c]) : source[c] == made[c]) {
        if (std::isfinite(source[c]))
          sums.signal += static_cast<double>(source[c]) * static_cast<double>(source[c]);
        continue;
      }
      const double error = std::fabs(static_cast<double>(made[c]) - static_cast<double>(source[c]));
      if (!(error <= static_cast<double>(bound[c])))
        throw Error(Code::kValue,
                    "{}: parameter '{}' row {} column {} is {}, {} in the source; they may lie {} "
                    "apart",
                    where(), parameter.name, row, c, made[c], source[c], bound[c]);
      sums.worst = std::max(sums.worst, error / static_cast<double>(bound[c]));
      sums.noise += error * error;
      sums.signal += static_cast<double>(source[c]) * static_cast<double>(source[c]);
    }
    return sums;
  }

  ArtifactSource artifact_;
  const checkpoint::Checkpoint checkpoint_;
  const std::filesystem::path source_path_;
  Team team_;
  const std::function<void(uint64_t)>& on_progress_;
  std::map<std::pair<std::string, std::string>, Totals> totals_;
  DeepReport report_;
};

}  // namespace

DeepReport verify_deep(const std::filesystem::path& artifact, const std::filesystem::path& source,
                       int threads, const std::function<void(uint64_t)>& on_progress) {
  return DeepVerifier(artifact, source, threads, on_progress).run();
}

}  // namespace flare::prepare
