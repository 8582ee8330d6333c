// Rows one by one: the source's numbers beside both decodings.
#include "prepare/recipe/encoding_error.h"

#include <cstring>

namespace flare::prepare {
namespace {

// One member's buffers for a row.
class RowError {
 public:
  RowError(const ImportedParameter& parameter, const codec::Format& format,
           std::span<const float> importance)
      : parameter_(parameter),
        format_(format),
        importance_(importance),
        geometry_{1, geometry_of(parameter).cols},
        planes_(format.planes(geometry_)),
        object_(planes_.total_bytes),
        values_(geometry_.cols),
        decoded_(geometry_.cols) {}

  ErrorSums measure(uint64_t row, const std::byte* const* encoded) {
    read_rows(parameter_, row, 1, values_.data());
    ErrorSums sums;
    for (uint64_t c = 0; c < geometry_.cols; ++c)
      sums.signal += weight(c) * static_cast<double>(values_[c]) * static_cast<double>(values_[c]);
    for (int p = 0; p < planes_.count; ++p)
      std::memcpy(object_.data() + planes_.plane[p].offset, encoded[p], planes_.plane[p].row_bytes);
    sums.after = squared();
    std::byte* to[codec::kMaxPlanes] = {};
    for (int p = 0; p < planes_.count; ++p) to[p] = object_.data() + planes_.plane[p].offset;
    format_.encode(values_.data(), 1, geometry_, to);
    sums.before = squared();
    return sums;
  }

 private:
  double weight(uint64_t c) const {
    return importance_.empty() ? 1.0 : static_cast<double>(importance_[c]);
  }
  double squared() {
    format_.decode(object_.data(), geometry_, 0, 0, geometry_.cols, decoded_.data());
    double sum = 0;
    for (uint64_t c = 0; c < geometry_.cols; ++c) {
      const double miss = static_cast<double>(values_[c]) - static_cast<double>(decoded_[c]);
      sum += weight(c) * miss * miss;
    }
    return sum;
  }

  const ImportedParameter& parameter_;
  const codec::Format& format_;
  std::span<const float> importance_;
  codec::Geometry geometry_;
  codec::Planes planes_;
  std::vector<std::byte> object_;
  std::vector<float> values_, decoded_;
};

}  // namespace

ErrorSums measure_rows(const ImportedParameter& parameter, const codec::Format& format,
                       uint64_t row, uint64_t n_rows, const PlaneRows& encoded,
                       std::span<const float> importance, Team& team) {
  const codec::Planes planes = format.planes({n_rows, geometry_of(parameter).cols});
  std::vector<ErrorSums> rows(n_rows);
  team.for_range(static_cast<int64_t>(n_rows), 1, [&](int64_t begin, int64_t end) {
    RowError error(parameter, format, importance);
    for (auto r = static_cast<uint64_t>(begin); r < static_cast<uint64_t>(end); ++r) {
      const std::byte* from[codec::kMaxPlanes] = {};
      for (int p = 0; p < planes.count; ++p)
        from[p] = encoded.plane[p] + r * planes.plane[p].row_bytes;
      rows[r] = error.measure(row + r, from);
    }
  });
  ErrorSums sum;
  for (const ErrorSums& one : rows) sum.add(one);
  return sum;
}

}  // namespace flare::prepare
