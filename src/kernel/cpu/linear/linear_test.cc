// Every linear kernel at every ISA level of this machine against the binary64 oracle.
#include "kernel/cpu/linear/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "base/case_sample_fixture.h"
#include "base/float_types.h"
#include "codec/panels.h"

namespace flare::kernel {
namespace {

using codec::FormatId;

constexpr int64_t kMaxRows = 64;
constexpr int64_t kRowCounts[] = {0, 1, 2, 3, 7, 8, 9, 16, 17, kMaxRows};
constexpr float kPoison = -12345.75f;
constexpr std::byte kGuard{0xA5};
constexpr int64_t kGuardBytes = 256;

enum class Activations { kKept, kRounded };  // f32, bf16

struct Kernel {
  const char* name;
  Isa isa;
  KernelFn fn;
  uint64_t (*workspace)(const LaunchArgs&, int);
  std::vector<FormatId> formats;  // of weights it runs
  Activations activations;
};

std::vector<Kernel> kernels() {
  using enum FormatId;
  const std::vector<FormatId> any = {kBf16, kFp32, kInt32, kFp16, kQ4G64, kQ5G64, kQ6G64, kQ8G32};
  const auto generic = linear_generic_workspace;
  const auto bf16 = linear_bf16_workspace;
  const auto kept = Activations::kKept;
  const std::vector<Kernel> all = {
      {"generic v2", Isa::kV2, v2::linear_generic, generic, any, kept},
      {"generic v3", Isa::kV3, v3::linear_generic, generic, any, kept},
      {"generic v4", Isa::kV4, v4::linear_generic, generic, any, kept},
      {"bf16 v2", Isa::kV2, v2::linear_bf16, bf16, {kBf16}, kept},
      {"bf16 v3", Isa::kV3, v3::linear_bf16, bf16, {kBf16}, kept},
      {"bf16 v4", Isa::kV4, v4::linear_bf16, bf16, {kBf16}, kept},
      {"fp16 v2", Isa::kV2, v2::linear_fp16, generic, {kFp16}, kept},
      {"fp16 v3", Isa::kV3, v3::linear_fp16, generic, {kFp16}, kept},
      {"fp16 v4", Isa::kV4, v4::linear_fp16, generic, {kFp16}, kept},
      {"bf16 bf16", Isa::kBf16, bf16::linear_bf16, bf16, {kBf16}, Activations::kRounded},
      {"bf16 amx", Isa::kAmx, amx::linear_bf16, bf16, {kBf16}, Activations::kRounded},
  };
  std::vector<Kernel> out;
  for (const Kernel& kernel : all)
    if (kernel.isa <= machine_isa().value_or(Isa::kV2)) out.push_back(kernel);
  return out;
}

// A matrix with the bytes that it refers to. Objects end where their memory ends, so that a
// sanitizer sees a read behind them, and begin at odd addresses.
struct Weight {
  codec::Matrix matrix;
  std::vector<std::unique_ptr<std::byte[]>> objects;
};

codec::Segment make_object(Weight& weight, FormatId id, uint64_t rows, uint64_t cols,
                           std::mt19937& random) {
  const codec::Format& format = codec::format(id);
  const codec::Geometry g{rows, cols};
  const codec::Planes planes = format.planes(g);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> values(rows * cols);
  for (float& value : values)
    value = id == FormatId::kInt32 ? std::round(normal(random) * 100) : normal(random);
  // Some groups of zeros, whose scale is zero.
  for (uint64_t k = 0; k < std::min<uint64_t>(cols, 64); ++k) values[k] = 0;
  constexpr uint64_t kOdd = 3;
  auto bytes = std::make_unique<std::byte[]>(planes.total_bytes + kOdd);
  std::memset(bytes.get(), 0, planes.total_bytes + kOdd);
  std::byte* object = bytes.get() + kOdd;
  std::byte* dst[codec::kMaxPlanes] = {};
  for (int i = 0; i < planes.count; ++i) dst[i] = object + planes.plane[i].offset;
  format.encode(values.data(), rows, g, dst);
  weight.objects.push_back(std::move(bytes));
  return {object, g, id, format.layout, 0, rows};
}

Weight plain_weight(FormatId id, uint64_t rows, uint64_t cols, std::mt19937& random) {
  Weight weight;
  codec::append_segment(weight.matrix, make_object(weight, id, rows, cols, random));
  return weight;
}

// Rows of two objects in turns, as a fused q|gate projection has them, of uneven lengths.
Weight interleaved_weight(FormatId first, FormatId second, uint64_t cols, std::mt19937& random) {
  Weight weight;
  const codec::Segment a = make_object(weight, first, 70, cols, random);
  const codec::Segment b = make_object(weight, second, 61, cols, random);
  uint64_t at_a = 1, at_b = 0;
  for (const uint64_t n : {1, 7, 16, 19, 4}) {
    codec::Segment s = a;
    s.row_begin = at_a;
    s.row_end = at_a += n;
    codec::append_segment(weight.matrix, s);
    s = b;
    s.row_begin = at_b;
    s.row_end = at_b += n + 2;
    codec::append_segment(weight.matrix, s);
  }
  return weight;
}

// How to make a weight: those that are not wanted cost nothing.
using WeightMaker = std::function<Weight(std::mt19937&)>;

std::vector<WeightMaker> weights_for(const Kernel& kernel) {
  std::vector<WeightMaker> out;
  const auto plain = [&](FormatId id, uint64_t rows, uint64_t cols) {
    out.push_back([=](std::mt19937& random) { return plain_weight(id, rows, cols, random); });
  };
  const auto interleaved = [&](FormatId first, FormatId second, uint64_t cols) {
    out.push_back(
        [=](std::mt19937& random) { return interleaved_weight(first, second, cols, random); });
  };
  for (const FormatId id : kernel.formats) {
    plain(id, 45, 200);
    interleaved(id, id, 128);
    if (id != kernel.formats[0]) continue;
    plain(id, 1, 1);
    plain(id, 17, 33);
    plain(id, 96, 1100);
    plain(id, 3, 2176);
  }
  if (kernel.formats.size() > 1) interleaved(FormatId::kQ5G64, FormatId::kBf16, 200);
  return out;
}

// Activations with what nets have: outliers, a row of zeros, tiny rows.
std::vector<float> random_activations(int64_t rows, int64_t cols, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (float& value : x) value = normal(random);
  for (int64_t t = 0; t < rows; ++t) {
    x[t * cols + t * 7 % cols] *= 50;
    if (t % 16 == 5) std::fill_n(&x[t * cols], cols, 0.0f);
    if (t % 16 == 6)
      for (int64_t k = 0; k < cols; ++k) x[t * cols + k] *= 1e-12f;
  }
  return x;
}

// The values that the kernel's arithmetic replaces x by, from the formulas of linear.h.
std::vector<float> replaced(const Kernel& kernel, const std::vector<float>& x) {
  std::vector<float> out = x;
  if (kernel.activations == Activations::kRounded)
    for (float& value : out) value = bf16_to_f32(f32_to_bf16(value));
  return out;
}

struct Outputs {
  std::vector<float> y;  // [T, N], dense
};

OperandView view(float* data, int64_t rows, int64_t cols, int64_t stride) {
  OperandView v;
  v.space = graph::Space::kArena;
  v.data = reinterpret_cast<std::byte*>(data);
  v.rows = rows;
  v.cols = cols;
  v.stride = stride;
  return v;
}

struct Case {
  const codec::Matrix* weight;
  const std::vector<float>* x;  // dense
  int64_t first_row, rows;
  const std::vector<float>* bias;  // null: none
};

// fn null: the oracle. Strides are larger than rows; outputs are poisoned, ends are guarded.
Outputs run_case(const Kernel* kernel, const Case& c, Team& team) {
  const auto n = static_cast<int64_t>(c.weight->rows), k = static_cast<int64_t>(c.weight->cols);
  const int64_t x_stride = k + 3, y_stride = n + 5;
  std::vector<float> x(static_cast<size_t>((c.rows + 1) * x_stride),
                       std::numeric_limits<float>::quiet_NaN());
  for (int64_t t = 0; t < c.rows; ++t)
    std::copy_n(c.x->data() + (c.first_row + t) * k, k, x.data() + t * x_stride);
  std::vector<float> y(static_cast<size_t>((c.rows + 1) * y_stride), kPoison);
  std::vector<float> bias = c.bias ? *c.bias : std::vector<float>();
  OperandView operands[kLinearOperands] = {
      view(x.data(), c.rows, k, x_stride), {}, {}, view(y.data() + 1, c.rows, n, y_stride)};
  operands[1].space = graph::Space::kWeight;
  operands[1].weight = c.weight;
  if (c.bias) {
    operands[2] = view(bias.data(), 1, n, n);
    operands[2].space = graph::Space::kConst;
  }
  const graph::Immediate immediates[kLinearImmediates] = {
      graph::integer(static_cast<int64_t>(graph::Policy::kAllowA8)), graph::integer(0),
      graph::integer(0), graph::real(0), graph::integer(0)};
  LaunchArgs args{operands, immediates, nullptr, {}};
  if (kernel == nullptr) {
    linear_ref(args);
  } else {
    const uint64_t bytes = kernel->workspace(args, team.size());
    std::vector<std::byte> memory(bytes + kGuardBytes + 64, kGuard);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* workspace = memory.data() + (64 - address % 64) % 64;
    std::memset(workspace, 0xff, bytes);
    args.workspace = {workspace, bytes};
    team.run([&](Member& member) { kernel->fn(args, member); });
    EXPECT_TRUE(std::all_of(workspace + bytes, workspace + bytes + kGuardBytes,
                            [](std::byte b) { return b == kGuard; }))
        << kernel->name << " wrote behind its workspace";
  }
  Outputs out;
  bool guards_hold = y[0] == kPoison;
  for (size_t i = 1; i < y.size(); ++i) {
    const auto t = static_cast<int64_t>(i - 1) / y_stride;
    const int64_t col = static_cast<int64_t>(i - 1) % y_stride;
    if (t < c.rows && col < n)
      out.y.push_back(y[i]);
    else
      guards_hold &= y[i] == kPoison;
  }
  EXPECT_TRUE(guards_hold) << (kernel ? kernel->name : "oracle") << " wrote outside y";
  return out;
}

bool same_bits(const float* a, const float* b, size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(float)) == 0;
}

std::vector<float> magnitudes(std::vector<float> values) {
  for (float& value : values) value = std::abs(value);
  return values;
}

// Σ_k |x|·|w| + |b| by the oracle itself, on weights widened to fp32.
struct Magnitudes {
  Weight weight;
  explicit Magnitudes(const codec::Matrix& m) {
    auto bytes = std::make_unique<std::byte[]>(m.rows * m.cols * sizeof(float));
    std::vector<float> row(m.cols);
    for (uint64_t r = 0; r < m.rows; ++r) {
      codec::decode_row(m, r, row.data());
      row = magnitudes(row);
      std::memcpy(bytes.get() + r * m.cols * 4, row.data(), m.cols * 4);
    }
    codec::append_segment(weight.matrix, {bytes.get(),
                                          {m.rows, m.cols},
                                          FormatId::kFp32,
                                          codec::LayoutId::kContiguousLe,
                                          0,
                                          m.rows});
    weight.objects.push_back(std::move(bytes));
  }
};

// Roundings on the way of one product into y, in units of 2^-24 of Σ|x·w|: its own, the lane's
// partial sum (at most a chunk over four lanes, two roundings a step where there is no FMA), the
// tree over the lanes, chunks or groups, scales, bias and the oracle's own last one.
double sum_roundings(uint64_t cols) {
  const auto k = static_cast<double>(cols);
  return 1 + 2.0 * kF32Chunk / 4 + 6 + std::ceil(k / kF32Chunk) + 2;
}
constexpr double kUlp = 0x1p-24;
// What one activation may move by: half a code of its group, or half a unit of bf16 (8 bits).
constexpr double kBf16Rounding = 0x1p-8;
// Error of binary32 sums relative to the result's size that --exact may have.
constexpr double kExactRms = 4e-7;

struct Oracle {
  Outputs exact, replaced, magnitude, moved;
};

// Σ_k |moved x|·|w|: how far quantised activations may move an output.
std::vector<float> most_moved(const Kernel& kernel, const std::vector<float>& x) {
  std::vector<float> out(x.size(), 0.0f);
  if (kernel.activations == Activations::kRounded)
    for (size_t i = 0; i < x.size(); ++i)
      out[i] = static_cast<float>(std::abs(x[i]) * kBf16Rounding);
  return out;
}

void check_kernel(const Kernel& kernel, const Weight& weight, bool with_bias, int64_t max_rows,
                  std::span<const int64_t> row_counts, std::vector<std::unique_ptr<Team>>& teams,
                  std::mt19937& random) {
  const codec::Matrix& matrix = weight.matrix;
  const auto n = static_cast<int64_t>(matrix.rows), k = static_cast<int64_t>(matrix.cols);
  SCOPED_TRACE(fmt::format("{}: {} × {} in {} segments, format {}, bias {}", kernel.name, n, k,
                           matrix.segments.size(), codec::format(matrix.segments[0].format).name,
                           with_bias));
  const std::vector<float> x = random_activations(max_rows, k, random);
  const std::vector<float> bias_values = random_activations(1, n, random);
  const std::vector<float> no_bias(static_cast<size_t>(n), 0.0f);
  const std::vector<float>* bias = with_bias ? &bias_values : nullptr;
  const std::vector<float> bias_size = magnitudes(with_bias ? bias_values : no_bias);
  const Magnitudes sizes(matrix);
  const std::vector<float> x_replaced = replaced(kernel, x);
  const std::vector<float> x_size = magnitudes(x_replaced);
  const std::vector<float> x_moved = most_moved(kernel, x);
  Team& alone = *teams[0];
  Oracle oracle;
  oracle.exact = run_case(nullptr, {&matrix, &x, 0, max_rows, bias}, alone);
  oracle.replaced = run_case(nullptr, {&matrix, &x_replaced, 0, max_rows, bias}, alone);
  oracle.magnitude =
      run_case(nullptr, {&sizes.weight.matrix, &x_size, 0, max_rows, &bias_size}, alone);
  oracle.moved = run_case(nullptr, {&sizes.weight.matrix, &x_moved, 0, max_rows, nullptr}, alone);

  const Outputs all = run_case(&kernel, {&matrix, &x, 0, max_rows, bias}, alone);
  double error2 = 0, size2 = 0;
  for (size_t i = 0; i < all.y.size(); ++i) {
    const double sums = sum_roundings(matrix.cols) * kUlp * oracle.magnitude.y[i];
    ASSERT_LE(std::abs(all.y[i] - oracle.replaced.y[i]), sums)
        << "row " << i / n << " output " << i % n;
    ASSERT_LE(std::abs(all.y[i] - oracle.exact.y[i]), sums + oracle.moved.y[i])
        << "row " << i / n << " output " << i % n;
    error2 += std::pow(all.y[i] - oracle.replaced.y[i], 2);
    size2 += std::pow(oracle.replaced.y[i], 2);
  }
  EXPECT_LE(std::sqrt(error2), kExactRms * std::sqrt(size2));

  for (const int64_t rows : row_counts)
    for (const std::unique_ptr<Team>& team : teams) {
      const Outputs some = run_case(&kernel, {&matrix, &x, 0, rows, bias}, *team);
      ASSERT_TRUE(same_bits(some.y.data(), all.y.data(), some.y.size()))
          << rows << " rows on a team of " << team->size() << " differ from " << max_rows
          << " rows on a team of 1";
    }
  for (const int64_t row : {int64_t{5}, max_rows - 1}) {
    const Outputs one = run_case(&kernel, {&matrix, &x, row, 1, bias}, alone);
    ASSERT_TRUE(same_bits(one.y.data(), all.y.data() + row * n, one.y.size()))
        << "row " << row << " alone differs from itself among " << max_rows;
  }
}

std::vector<std::unique_ptr<Team>> teams_of_one_two_three() {
  std::vector<std::unique_ptr<Team>> teams;
  for (int n = 1; n <= 3; ++n) teams.push_back(std::make_unique<Team>(n));
  return teams;
}

TEST(Linear, MatchesTheOracleAndKeepsBitsAtEveryLevelRowCountAndTeam) {
  auto teams = teams_of_one_two_three();
  SampledCases cases(3);
  for (const Kernel& kernel : kernels())
    for (const WeightMaker& make_weight : weights_for(kernel)) {
      if (!cases.next()) continue;
      std::mt19937 random(cases.number());
      const Weight weight = make_weight(random);
      check_kernel(kernel, weight, cases.number() % 2 == 0, kMaxRows, kRowCounts, teams, random);
      if (HasFatalFailure()) return;
    }
}

TEST(RouteLinear, IsTotalAndSendsWhatHasNoFastKernelToTheGenericOne) {
  using enum FormatId;
  using enum KernelId;
  const auto route = [](std::vector<codec::Segment> segments, graph::Policy policy) {
    codec::Matrix matrix;  // routes are chosen before a byte is read
    for (const codec::Segment& segment : segments) codec::append_segment(matrix, segment);
    return route_linear(matrix, policy);
  };
  const auto rows = [](FormatId id, uint64_t begin, uint64_t end) {
    return codec::Segment{nullptr, {70, 256}, id, codec::format(id).layout, begin, end};
  };
  const auto a16 = graph::Policy::kA16Only, a8 = graph::Policy::kAllowA8;
  for (const codec::Format& format : codec::all_formats()) {
    for (int policy = 0; policy < 4; ++policy) {
      const KernelId id = route({rows(format.id, 0, 70)}, static_cast<graph::Policy>(policy));
      EXPECT_GE(id, kLinearGeneric);
      EXPECT_LE(id, kLinearPanelFloats);
    }
    EXPECT_EQ(route({rows(format.id, 0, 70)}, graph::Policy::kExact), kLinearGeneric);
    EXPECT_EQ(reads_panels(route({rows(format.id, 0, 70)}, a8)), codec::has_panels(format.id));
  }
  EXPECT_EQ(route({rows(kBf16, 3, 9)}, a16), kLinearBf16);
  EXPECT_EQ(route({rows(kBf16, 3, 9)}, a8), kLinearBf16);
  EXPECT_EQ(route({rows(kFp16, 3, 9)}, a16), kLinearFp16);
  EXPECT_EQ(route({rows(kQ4G64, 0, 70)}, a16), kLinearPanelFloats);
  EXPECT_EQ(route({rows(kQ4G64, 0, 70)}, graph::Policy::kAllowA4), kLinearPanels);
  EXPECT_EQ(route({rows(kNvfp4Rows, 0, 70)}, a16), kLinearPanelFloats);
  // Panels begin at multiples of 16 rows and end there or with their tensor.
  EXPECT_EQ(route({rows(kQ4G64, 16, 32), rows(kQ8G32, 48, 70)}, a8), kLinearPanels);
  EXPECT_EQ(route({rows(kQ4G64, 15, 32)}, a8), kLinearGeneric);
  EXPECT_EQ(route({rows(kQ4G64, 16, 33)}, a8), kLinearGeneric);
  EXPECT_EQ(route({rows(kQ4G64, 0, 16), rows(kBf16, 0, 16)}, a8), kLinearGeneric);
  EXPECT_EQ(route({}, a8), kLinearGeneric);
}

}  // namespace
}  // namespace flare::kernel
