// Rows are read as numbers by the team and encoded where they belong.
#include "prepare/recipe/encode_nvfp4.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "codec/nvfp4.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

// Values that one worker converts at a time.
constexpr uint64_t kValuesAtOnce = 1 << 16;

// Calls body(first row of the parameter, rows, their values) on every member of the team.
template <typename Body>
void for_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows, Team& team,
              Body&& body) {
  const uint64_t cols = geometry_of(parameter).cols;
  const uint64_t at_once = std::max<uint64_t>(1, kValuesAtOnce / cols);
  team.for_range(static_cast<int64_t>(n_rows), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> values;
    for (auto r = static_cast<uint64_t>(begin); r < static_cast<uint64_t>(end); r += at_once) {
      const uint64_t n = std::min(at_once, static_cast<uint64_t>(end) - r);
      values.resize(n * cols);
      read_rows(parameter, row + r, n, values.data());
      try {
        body(r, n, values);
      } catch (Error& error) {
        error.add_context(fmt::format("parameter '{}' from row {}", parameter.name, row + r));
        throw;
      }
    }
  });
}

}  // namespace

float largest_magnitude(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows,
                        Team& team) {
  float largest = 0;
  std::mutex mutex;
  for_rows(parameter, row, n_rows, team, [&](uint64_t, uint64_t, const std::vector<float>& values) {
    float here = 0;
    for (const float value : values) {
      if (!std::isfinite(value))
        throw Error(Code::kValue, "a value is {}, finite ones expected", value);
      here = std::max(here, std::fabs(value));
    }
    const std::lock_guard lock(mutex);
    largest = std::max(largest, here);
  });
  return largest;
}

void encode_nvfp4_rows(const ImportedParameter& parameter, uint64_t row, uint64_t n_rows,
                       float divisor, codec::Geometry g, uint64_t object_row, std::byte* object,
                       Team& team) {
  for_rows(parameter, row, n_rows, team,
           [&](uint64_t first, uint64_t n, const std::vector<float>& values) {
             codec::nvfp4_encode_rows(values.data(), object_row + first, n, g, divisor, object);
           });
}

}  // namespace flare::prepare
