// Linear over panels: every format, level, row count and team against the binary64 oracle.
#include "codec/panels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/case_sample_fixture.h"
#include "codec/test_oracle.h"
#include "kernel/cpu/linear/linear.h"
#include "kernel/cpu/linear/panels.h"
#include "kernel/op_fixture.h"

namespace flare::kernel {
namespace {

using codec::FormatId;
using testing::Array;

constexpr uint32_t kSeed = 20261130;
const FormatId kFormats[] = {
    FormatId::kQ4G64,     FormatId::kQ5G64,      FormatId::kQ6G64,      FormatId::kQ8G32,
    FormatId::kGgufQ4_0,  FormatId::kGgufQ8_0,   FormatId::kGgufQ4K,    FormatId::kGgufQ6K,
    FormatId::kGgufQ4_1,  FormatId::kGgufQ5_0,   FormatId::kGgufQ5_1,   FormatId::kGgufQ5K,
    FormatId::kGgufQ2K,   FormatId::kGgufQ3K,    FormatId::kGgufIq4Nl,  FormatId::kGgufIq4Xs,
    FormatId::kMxfp4,     FormatId::kQ4G32Bf16,  FormatId::kQ4G128Bf16, FormatId::kU4G32Bf16,
    FormatId::kU4G64Fp16, FormatId::kU4G128Fp16, FormatId::kI8G32Bf16,  FormatId::kU8G32Fp16,
    FormatId::kI8RowFp32, FormatId::kNvfp4Rows,  FormatId::kQ2G64,      FormatId::kT2G128,
    FormatId::kGgufQ2_0};
// Read by the kernel for binary32 activations alone, and not by it.
const FormatId kFp8Formats[] = {FormatId::kFp8RowBf16, FormatId::kFp8RowFp16, FormatId::kFp8G32,
                                FormatId::kFp8G128, FormatId::kMxfp8};

// Columns that share a scale of x̂.
int64_t group_of(FormatId id) {
  switch (id) {
    case FormatId::kNvfp4Rows:
      return 16;
    case FormatId::kQ4G128Bf16:
    case FormatId::kU4G64Fp16:
    case FormatId::kU4G128Fp16:
    case FormatId::kI8RowFp32:
    case FormatId::kQ4G64:
    case FormatId::kQ5G64:
    case FormatId::kQ6G64:
    case FormatId::kQ2G64:
    case FormatId::kT2G128:
    case FormatId::kGgufQ2_0:
      return 64;
    case FormatId::kGgufQ2K:
    case FormatId::kGgufQ3K:
    case FormatId::kGgufQ6K:
      return 16;
    default:
      return 32;
  }
}
int64_t block_of(FormatId id) {
  const codec::Format& f = codec::format(id);
  return f.layout == codec::LayoutId::kGgufBlocks ? f.group : 1;
}

std::vector<Isa> all_levels() {
  std::vector<Isa> out;
  for (Isa isa : {Isa::kV2, Isa::kV3, Isa::kV4, Isa::kVnni, Isa::kAmx})
    if (isa <= machine_isa().value_or(Isa::kV2)) out.push_back(isa);
  return out;
}

// Where the upper bytes of a ggml block's fp16 numbers stand; a minimum that is taken off is last.
std::vector<uint64_t> high_bytes_of_halves(FormatId id) {
  switch (id) {
    case FormatId::kGgufQ4_1:
    case FormatId::kGgufQ5_1:
    case FormatId::kGgufQ4K:
    case FormatId::kGgufQ5K:
      return {1, 3};
    case FormatId::kGgufQ2K:
      return {81, 83};
    case FormatId::kGgufQ3K:
      return {109};
    case FormatId::kGgufQ6K:
      return {209};
    default:
      return {1};
  }
}
bool takes_minimum_off(FormatId id) {
  return id == FormatId::kGgufQ2K || id == FormatId::kGgufQ4K || id == FormatId::kGgufQ5K;
}

// Scale words of about 2^-6 where a row_blocks_v1 object has them, and divisors of rows about 1.
void set_scales(const codec::Format& f, codec::Geometry g, std::vector<std::byte>& object,
                std::mt19937& random) {
  const codec::Planes planes = f.planes(g);
  const bool has_divisors = f.id == FormatId::kNvfp4Rows;
  std::byte* at = object.data() + planes.plane[planes.count - (has_divisors ? 2 : 1)].offset;
  std::byte* end = object.data() + object.size();
  if (has_divisors) {
    std::byte* divisors = object.data() + planes.plane[planes.count - 1].offset;
    for (std::byte* d = divisors; d != end; d += 4)
      store_le(d, static_cast<uint32_t>(0x3f800000u + (random() & 0x7fffff)));
    end = divisors;
  }
  while (at != end) {
    const auto bits = static_cast<uint32_t>(random() & 0x7f);
    if (f.name.ends_with("_fp32")) {
      store_le(at, 0x3c800000u + (bits << 16));
      at += 4;
    } else if (f.name.ends_with("_bf16") || f.name.ends_with("_fp16")) {
      store_le(at, static_cast<uint16_t>((f.name.ends_with("_bf16") ? 0x3c80 : 0x2400) + bits));
      at += 2;
    } else if (has_divisors) {
      *at++ = static_cast<std::byte>(8 + bits % 8);  // E4M3: 2^-6 …
    } else {
      *at++ = static_cast<std::byte>(119 + bits % 4);  // E8M0
    }
  }
}

bool is_fp8(FormatId id) { return std::ranges::find(kFp8Formats, id) != std::end(kFp8Formats); }

// Random legal stored bytes, scales about 2^-6.
std::vector<std::byte> random_object(const codec::Format& f, codec::Geometry g,
                                     std::mt19937& random) {
  if (f.id == FormatId::kQ2G64) return oracle_random_pairs(codec::kOracleQ2, g, random());
  if (f.id == FormatId::kT2G128) return oracle_random_pairs(codec::kOracleT2, g, random());
  std::vector<std::byte> object(f.planes(g).total_bytes);
  const bool is_split = f.layout == codec::LayoutId::kRowSplitK128;
  if (is_split || f.layout == codec::LayoutId::kRowScale ||
      f.layout == codec::LayoutId::kRowInterleaved) {
    std::normal_distribution<float> normal(0.0f, 0.05f);
    std::vector<float> values(g.rows * g.cols);
    for (float& value : values) value = normal(random);
    for (uint64_t k = 0; is_split && k < std::min<uint64_t>(g.cols, 64); ++k)
      values[k] = 0;  // scale zero
    const codec::Planes planes = f.planes(g);
    std::byte* dst[codec::kMaxPlanes] = {};
    for (int i = 0; i < planes.count; ++i) dst[i] = object.data() + planes.plane[i].offset;
    f.encode(values.data(), g.rows, g, dst);
    return object;
  }
  for (std::byte& b : object) b = static_cast<std::byte>(random());
  if (f.layout == codec::LayoutId::kRowBlocks) {
    if (is_fp8(f.id))
      for (std::byte& code : object)
        if ((code & std::byte{0x7f}) == std::byte{0x7f}) code = std::byte{0x3f};  // no NaN
    set_scales(f, g, object, random);
    return object;
  }
  const auto block = static_cast<uint64_t>(f.bits_per_weight * f.group / 8);
  for (uint64_t at = 0; at < object.size(); at += block)
    for (const uint64_t half : high_bytes_of_halves(f.id))
      object[at + half] = std::byte{0x24};  // positive, 2^-6 … 2^-5
  return object;
}

// One stored tensor in panels, and as binary32 numbers of the size that its products have.
struct Parent {
  Parent(FormatId id, int64_t rows, int64_t cols, std::mt19937& random)
      : id(id), g{static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)} {
    const codec::Format& f = codec::format(id);
    std::vector<std::byte> object = random_object(f, g, random);
    panels.resize(codec::panels_bytes(id, g));
    codec::pack_panels(id, object.data(), g, 0, codec::n_panels(g.rows), panels.data());
    // |step·code| + |low| where a format takes a minimum off: as if it were added.
    if (takes_minimum_off(id))
      for (size_t at = high_bytes_of_halves(id).back(); at < object.size();
           at += static_cast<size_t>(f.bits_per_weight * f.group / 8))
        object[at] ^= std::byte{0x80};
    sizes.resize(g.rows * g.cols);
    for (uint64_t r = 0; r < g.rows; ++r)
      f.decode(object.data(), g, r, 0, g.cols, sizes.data() + r * g.cols);
    for (float& size : sizes) size = std::abs(size);
    if (f.groups != nullptr) add_lows(f, object);
  }
  // |scale·n| + |low|.
  void add_lows(const codec::Format& f, const std::vector<std::byte>& object) {
    const uint64_t width = f.group > 1 ? f.group : g.cols;
    std::vector<float> scale(g.cols), low(g.cols);
    for (uint64_t r = 0; r < g.rows; ++r) {
      f.groups(object.data(), g, r, scale.data(), low.data());
      for (uint64_t k = 0; k < g.cols; ++k) sizes[r * g.cols + k] += 2 * std::abs(low[k / width]);
    }
  }
  codec::Segment segment(uint64_t begin, uint64_t end) const {
    return {panels.data(), g, id, codec::LayoutId::kPanels16, begin, end};
  }
  codec::Segment size_segment(uint64_t begin, uint64_t end) const {
    return {reinterpret_cast<const std::byte*>(sizes.data()),
            g,
            FormatId::kFp32,
            codec::LayoutId::kContiguousLe,
            begin,
            end};
  }
  FormatId id;
  codec::Geometry g;
  std::vector<std::byte> panels;
  std::vector<float> sizes;
};

struct Weight {
  void add(const Parent& parent, uint64_t begin, uint64_t end) {
    codec::append_segment(matrix, parent.segment(begin, end));
    codec::append_segment(sizes, parent.size_segment(begin, end));
  }
  codec::Matrix matrix, sizes;
};

// A launch; everything lives as long as it does.
struct Launch {
  LinearInput input = LinearInput::kPlain;
  LinearOutput output = LinearOutput::kPlain;
  const codec::Matrix* weight = nullptr;
  Array x, y, gate, residual;
  std::vector<float> bias, norm;
  bool in_place = false;  // the residual is y
  KernelId kernel = KernelId::kLinearPanels;

  LaunchArgs args(OperandView* operands, graph::Immediate* immediates, int64_t first_row,
                  int64_t rows) {
    const auto part = [&](Array& a) {
      OperandView v = a.view();
      v.data = reinterpret_cast<std::byte*>(a.row(first_row));
      v.rows = rows;
      return v;
    };
    operands[0] = part(x);
    operands[1].space = graph::Space::kWeight;
    operands[1].weight = weight;
    if (!bias.empty()) operands[2] = testing::constant(bias, 1, static_cast<int64_t>(bias.size()));
    operands[3] = part(y);
    if (!norm.empty()) operands[4] = testing::constant(norm, 1, static_cast<int64_t>(norm.size()));
    if (gate.cols() > 0) operands[5] = part(gate);
    if (residual.cols() > 0) operands[6] = part(in_place ? y : residual);
    immediates[0] = graph::integer(static_cast<int64_t>(graph::Policy::kAllowA8));
    immediates[1] = graph::integer(static_cast<int64_t>(input));
    immediates[2] = graph::integer(static_cast<int64_t>(output));
    immediates[3] = graph::real(1e-6);
    immediates[4] = graph::integer(input == LinearInput::kRmsNorm ? 1 : 0);
    return {.operands = {operands, kLinearOperands}, .immediates = {immediates, kLinearImmediates}};
  }
  void run(Isa isa, int team, int64_t first_row, int64_t rows) {
    OperandView operands[kLinearOperands];
    graph::Immediate immediates[kLinearImmediates];
    y.fill(testing::kPoison);
    if (in_place)
      for (int64_t t = 0; t < y.rows(); ++t) std::copy_n(residual.row(t), y.cols(), y.row(t));
    const LaunchArgs a = args(operands, immediates, first_row, rows);
    testing::run_kernel(kernel, isa, team, a.operands, a.immediates, nullptr);
    y.expect_guards();
  }
  // The oracle's y over `matrix` with x as it is given.
  Array oracle(const codec::Matrix& matrix, Array x_values) {
    Launch copy = *this;
    copy.weight = &matrix;
    copy.x = std::move(x_values);
    copy.in_place = false;
    OperandView operands[kLinearOperands];
    graph::Immediate immediates[kLinearImmediates];
    linear_ref(copy.args(operands, immediates, 0, x.rows()));
    return copy.y;
  }
};

// Activations with what nets have: outliers, a row of zeros, tiny rows.
Array random_activations(int64_t rows, int64_t cols, std::mt19937& random) {
  Array x(rows, cols);
  std::normal_distribution<float> normal;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t k = 0; k < cols; ++k)
      x.row(t)[k] = t % 16 == 4 ? 0.0f
                                : normal(random) * (t % 16 == 6 ? 1e-12f : 1.0f) *
                                      (random() % 200 == 0 ? 30.0f : 1.0f);
  return x;
}

struct Quantised {
  Array values;  // what int8 codes stand for, by the formulas of linear.h
  Array moved;   // how far a value may lie from its code's
};
Quantised quantised(const Array& x, int64_t group) {
  Quantised out{x, x};
  for (int64_t t = 0; t < x.rows(); ++t)
    for (int64_t begin = 0; begin < x.cols(); begin += group) {
      const int64_t end = std::min(begin + group, x.cols());
      float largest = 0;
      for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(x.row(t)[k]));
      for (int64_t k = begin; k < end; ++k) {
        const float code = largest == 0 ? 0 : std::nearbyint(x.row(t)[k] * (127.0f / largest));
        out.values.row(t)[k] = code * (largest / 127.0f);
        // A hair more than half a code: the code itself comes from a rounded product.
        out.moved.row(t)[k] = largest / 127.0f * 0.50001f;
      }
    }
  return out;
}
Array magnitudes(Array a) {
  for (int64_t t = 0; t < a.rows(); ++t)
    for (int64_t k = 0; k < a.cols(); ++k) a.row(t)[k] = std::abs(a.row(t)[k]);
  return a;
}

// Roundings on the way of one product into y, in units of 2^-24 of Σ|x·w|: two products of scales
// and the addition of every group (twice with minima), no fused operation at level v2; bias,
// residual, the oracle's own.
double roundings(int64_t cols, int64_t group) {
  return 4 * std::ceil(static_cast<double>(cols) / static_cast<double>(group)) + 8;
}
constexpr double kUlp = 0x1p-24;

constexpr int64_t kMaxRows = 40;
constexpr int64_t kRowCounts[] = {0, 1, 2, 3, 5, 8, 9, 11, 16, kMaxRows};

// Bits do not depend on rows beside, place in the batch or team.
void check_bits(Launch& launch, Isa isa, const Array& all) {
  std::vector<int64_t> counts(std::begin(kRowCounts), std::end(kRowCounts));
  if (all.rows() > kMaxRows) counts.push_back(all.rows());
  for (const int64_t rows : counts)
    for (int team = 1; team <= 3; ++team) {
      if (rows > all.rows()) continue;
      launch.run(isa, team, 0, rows);
      for (int64_t t = 0; t < rows; ++t)
        ASSERT_EQ(std::memcmp(launch.y.row(t), all.row(t), all.cols() * 4), 0)
            << "row " << t << " of " << rows << ", team of " << team;
    }
  for (const int64_t row : {int64_t{5}, all.rows() - 1}) {
    launch.run(isa, 1, row, 1);
    ASSERT_EQ(std::memcmp(launch.y.row(row), all.row(row), all.cols() * 4), 0) << "row " << row;
  }
}

// A plain product at every level: against the oracle on quantised x, and on x itself.
void check_product(const Weight& weight, int64_t group, bool with_bias, std::mt19937& random,
                   int64_t rows = kMaxRows) {
  const auto n = static_cast<int64_t>(weight.matrix.rows);
  const auto k = static_cast<int64_t>(weight.matrix.cols);
  Launch launch;
  launch.weight = &weight.matrix;
  launch.x = random_activations(rows, k, random);
  launch.y = Array(rows, n);
  const Quantised q = quantised(launch.x, group);
  const Array size = launch.oracle(weight.sizes, magnitudes(q.values));
  const Array moved = launch.oracle(weight.sizes, q.moved);
  if (with_bias) launch.bias = testing::random_values(random, n, -2, 2);
  const Array exact = launch.oracle(weight.matrix, launch.x);
  const Array replaced = launch.oracle(weight.matrix, q.values);
  for (const Isa isa : all_levels()) {
    SCOPED_TRACE(isa_name(isa));
    launch.run(isa, 1, 0, rows);
    const Array all = launch.y;
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < n; ++i) {
        const double largest = size.row(t)[i] + (with_bias ? std::abs(launch.bias[i]) : 0);
        const double sums = roundings(k, group) * kUlp * largest;
        ASSERT_LE(std::abs(all.row(t)[i] - replaced.row(t)[i]), sums) << t << ", " << i;
        ASSERT_LE(std::abs(all.row(t)[i] - exact.row(t)[i]), sums + moved.row(t)[i])
            << t << ", " << i;
      }
    check_bits(launch, isa, all);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

struct Shape {
  int64_t rows, cols;
};
// Edges of blocks, slices and tiles; then rows of real models' projections with ragged ends.
const Shape kShapes[] = {{45, 200},  {1, 1},     {17, 33},   {96, 1100},  {3, 2176},
                         {73, 1024}, {50, 2048}, {41, 3072}, {100, 3072}, {35, 6144},
                         {27, 1000}, {66, 2050}, {19, 3080}, {33, 6145}};

TEST(LinearShares, DealEveryItemOnceAndGoOnWithinALane) {
  for (const int64_t n : {0, 1, 2, 5, 64, 257, 9496})
    for (const int members : {1, 2, 3, 7, 64}) {
      SCOPED_TRACE(fmt::format("{} items, {} members", n, members));
      linear::Shares shares(n, members);
      std::vector<linear::Range> dealt;
      std::vector<int> count(static_cast<size_t>(n));
      for (int64_t i = 0;; ++i) {
        const linear::Range share = shares.at(i);
        if (share.begin == share.end) break;
        dealt.push_back(share);
        for (int64_t item = share.begin; item < share.end; ++item)
          ++count.at(static_cast<size_t>(item));
      }
      EXPECT_EQ(std::ranges::count(count, 1), n);
      EXPECT_EQ(shares.at(static_cast<int64_t>(dealt.size()) + 9).end, shares.at(1 << 20).begin);
      const auto lanes = static_cast<size_t>(members);
      for (size_t i = lanes; i < dealt.size() && dealt[i].end <= n / members * members; ++i)
        EXPECT_EQ(dealt[i].begin, dealt[i - lanes].end);
      if (dealt.empty()) continue;
      linear::Shares late(n, members);  // of a member that the others were ahead of
      EXPECT_EQ(late.at(static_cast<int64_t>(dealt.size()) - 1).begin, dealt.back().begin);
    }
}

TEST(LinearPanels, MatchTheOracleAndKeepBitsAtEveryLevelRowCountAndTeam) {
  SampledCases cases(4);
  for (const FormatId id : kFormats)
    for (const Shape& shape : kShapes) {
      if (!cases.next()) continue;
      const int64_t cols = (shape.cols + block_of(id) - 1) / block_of(id) * block_of(id);
      SCOPED_TRACE(::testing::Message()
                   << codec::format(id).name << " " << shape.rows << " x " << cols);
      std::mt19937 random(cases.number());
      const Parent parent(id, shape.rows, cols, random);
      Weight weight;
      weight.add(parent, 0, static_cast<uint64_t>(shape.rows));
      check_product(weight, group_of(id), cases.number() % 2 == 0, random);
      if (HasFatalFailure()) return;
    }
}

// More columns than a slice, more rows than stay in L2 (kRowsAtOnce), and enough pairs of panels
// that a member takes several at once (kPairsAtOnce).
TEST(LinearPanels, KeepBitsWhenRowsOfXComeInTurns) {
  constexpr int64_t kRows = linear::kRowsAtOnce + 6;
  constexpr int64_t kOutputs = 4 * linear::kPairsAtOnce * linear::kPanelRows + 4;
  std::mt19937 random(kSeed);
  const Parent parent(FormatId::kGgufQ4K, kOutputs, 768, random);
  Weight weight;
  weight.add(parent, 0, kOutputs);
  check_product(weight, 32, true, random, kRows);
}

// A fused projection: segments of several tensors and formats, some of them parts.
TEST(LinearPanels, TakeSegmentsOfSeveralFormatsInOneLaunch) {
  std::mt19937 random(kSeed);
  const Parent a(FormatId::kQ4G64, 64, 512, random), b(FormatId::kQ8G32, 37, 512, random);
  const Parent c(FormatId::kGgufQ6K, 48, 512, random), d(FormatId::kGgufQ4K, 20, 512, random);
  Weight weight;
  weight.add(a, 16, 48);
  weight.add(b, 32, 37);
  weight.add(c, 0, 16);
  weight.add(d, 0, 20);
  weight.add(a, 0, 16);
  Launch launch;
  launch.weight = &weight.matrix;
  launch.x = random_activations(kMaxRows, 512, random);
  launch.y = Array(kMaxRows, static_cast<int64_t>(weight.matrix.rows));
  for (const Isa isa : all_levels()) {
    SCOPED_TRACE(isa_name(isa));
    launch.run(isa, 1, 0, kMaxRows);
    const Array all = launch.y;
    check_bits(launch, isa, all);
    // Every output has the bits that its segment alone gives.
    int64_t output = 0;
    for (const codec::Segment& segment : weight.matrix.segments) {
      codec::Matrix alone;
      codec::append_segment(alone, segment);
      Launch part = launch;
      part.weight = &alone;
      part.y = Array(kMaxRows, static_cast<int64_t>(segment.rows()));
      part.run(isa, 2, 0, kMaxRows);
      for (int64_t t = 0; t < kMaxRows; ++t)
        ASSERT_EQ(std::memcmp(part.y.row(t), all.row(t) + output, segment.rows() * 4), 0);
      output += static_cast<int64_t>(segment.rows());
    }
  }
}

// What stands before and behind the product, against the oracle on x itself: quantisation moves a
// product by at most moved (a whole code, since x̂ comes from rounded operations), behind which
// SwiGLU has slopes up to 1.1 in the gate.
void check_ends(Launch& launch, const Weight& weight, int64_t group) {
  const Array exact = launch.oracle(weight.matrix, launch.x);
  // x̂ by the oracle: a product with the identity.
  const int64_t k = launch.x.cols(), rows = launch.x.rows();
  std::vector<float> identity(static_cast<size_t>(k * k), 0.0f);
  for (int64_t i = 0; i < k; ++i) identity[i * k + i] = 1;
  codec::Matrix unit;
  codec::append_segment(unit, {reinterpret_cast<const std::byte*>(identity.data()),
                               {static_cast<uint64_t>(k), static_cast<uint64_t>(k)},
                               FormatId::kFp32,
                               codec::LayoutId::kContiguousLe,
                               0,
                               static_cast<uint64_t>(k)});
  Launch prepare = launch;
  prepare.output = LinearOutput::kPlain;
  prepare.residual = Array();
  prepare.bias.clear();
  prepare.y = Array(rows, k);
  const Quantised q = quantised(prepare.oracle(unit, launch.x), group);
  Launch plain;
  plain.weight = &weight.matrix;
  plain.x = launch.x;
  plain.y = Array(rows, static_cast<int64_t>(weight.matrix.rows));
  const Array moved = plain.oracle(weight.sizes, q.moved);
  const Array product = plain.oracle(weight.sizes, magnitudes(q.values));
  for (const Isa isa : all_levels()) {
    SCOPED_TRACE(isa_name(isa));
    launch.run(isa, 2, 0, rows);
    const Array all = launch.y;
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < all.cols(); ++i) {
        const auto error_of = [&](int64_t output) {
          return 2 * moved.row(t)[output] +
                 2 * roundings(k, group) * kUlp * (product.row(t)[output] + 2);
        };
        double most = error_of(i);
        if (launch.output == LinearOutput::kSwiglu) {
          const int64_t up = all.cols() + i;
          const double size_up = product.row(t)[up] + 2, size_gate = product.row(t)[i] + 2;
          most = 1.1 * error_of(i) * (size_up + error_of(up)) + size_gate * error_of(up);
        }
        ASSERT_LE(std::abs(all.row(t)[i] - exact.row(t)[i]), most) << t << ", " << i;
      }
    check_bits(launch, isa, all);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(LinearPanels, DoWhatStandsBeforeAndBehindTheProduct) {
  std::mt19937 weights(kSeed);
  const Parent a(FormatId::kQ4G64, 96, 192, weights), b(FormatId::kQ6G64, 48, 192, weights);
  SampledCases cases(4);
  for (const LinearInput input :
       {LinearInput::kPlain, LinearInput::kRmsNorm, LinearInput::kGateMul, LinearInput::kGatedNorm})
    for (const bool swiglu : {false, true})
      for (const bool mixed : {false, true}) {
        if (!cases.next()) continue;
        std::mt19937 random(cases.number());
        SCOPED_TRACE(::testing::Message() << "input " << static_cast<int>(input) << " swiglu "
                                          << swiglu << " mixed " << mixed);
        Weight weight;
        weight.add(a, 0, mixed ? 48 : 96);
        if (mixed) weight.add(b, 0, 48);
        Launch launch;
        launch.weight = &weight.matrix;
        launch.input = input;
        launch.x = random_activations(kMaxRows, 192, random);
        launch.y = Array(kMaxRows, swiglu ? 48 : 96);
        launch.bias = testing::random_values(random, 96, -1, 1);
        if (input == LinearInput::kRmsNorm) launch.norm = testing::random_values(random, 192, 0, 2);
        if (input == LinearInput::kGatedNorm)
          launch.norm = testing::random_values(random, 64, 0, 2);
        if (input == LinearInput::kGateMul || input == LinearInput::kGatedNorm)
          launch.gate = random_activations(kMaxRows, 192, random);
        if (swiglu) {
          launch.output = LinearOutput::kSwiglu;
        } else {
          launch.residual = random_activations(kMaxRows, 96, random);
          launch.in_place = mixed;
        }
        check_ends(launch, weight, 64);
        if (HasFatalFailure()) return;
      }
}

// The same weights with binary32 activations: sums of K/2 products each, two roundings a step where
// nothing is fused, their sum, bias, residual and the oracle's own.
TEST(LinearPanelFloats, MatchTheOracleAndKeepBitsAtEveryLevelRowCountAndTeam) {
  std::vector<FormatId> formats(std::begin(kFormats), std::end(kFormats));
  formats.insert(formats.end(), std::begin(kFp8Formats), std::end(kFp8Formats));
  for (const FormatId id : formats) {
    SCOPED_TRACE(codec::format(id).name);
    std::mt19937 random(kSeed);
    const int64_t cols = (600 + block_of(id) - 1) / block_of(id) * block_of(id);
    const Parent a(id, 70, cols, random), b(FormatId::kQ8G32, 21, cols, random);
    Weight weight;
    weight.add(a, 16, 70);
    weight.add(b, 0, 21);
    Launch launch;
    launch.kernel = KernelId::kLinearPanelFloats;
    launch.weight = &weight.matrix;
    launch.x = random_activations(kMaxRows, cols, random);
    launch.y = Array(kMaxRows, 75);
    const Array size = launch.oracle(weight.sizes, magnitudes(launch.x));
    launch.residual = random_activations(kMaxRows, 75, random);
    launch.in_place = true;
    const Array exact = launch.oracle(weight.matrix, launch.x);
    for (const Isa isa : testing::levels()) {
      SCOPED_TRACE(isa_name(isa));
      launch.run(isa, 1, 0, kMaxRows);
      const Array all = launch.y;
      for (int64_t t = 0; t < kMaxRows; ++t)
        for (int64_t i = 0; i < all.cols(); ++i) {
          const double largest = size.row(t)[i] + std::abs(launch.residual.row(t)[i]);
          ASSERT_LE(std::abs(all.row(t)[i] - exact.row(t)[i]),
                    (static_cast<double>(cols) + 8) * kUlp * largest)
              << t << ", " << i;
        }
      check_bits(launch, isa, all);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LinearPanelFloats, DoSwigluOverHalvesOfTwoFormats) {
  std::mt19937 random(kSeed);
  const Parent a(FormatId::kQ4G64, 48, 192, random), b(FormatId::kQ6G64, 48, 192, random);
  Weight weight;
  weight.add(a, 0, 48);
  weight.add(b, 0, 48);
  Launch launch;
  launch.kernel = KernelId::kLinearPanelFloats;
  launch.weight = &weight.matrix;
  launch.input = LinearInput::kRmsNorm;
  launch.output = LinearOutput::kSwiglu;
  launch.norm = testing::random_values(random, 192, 0, 2);
  launch.x = random_activations(kMaxRows, 192, random);
  launch.y = Array(kMaxRows, 48);
  const Array exact = launch.oracle(weight.matrix, launch.x);
  for (const Isa isa : testing::levels()) {
    launch.run(isa, 2, 0, kMaxRows);
    const Array all = launch.y;
    all.expect_near(exact, 1e-4, 1e-4);  // products of two sums of size 10 with 200 roundings each
    check_bits(launch, isa, all);
  }
}

// All codes at an end of their range against activations of ±127: no sum may saturate.
TEST(LinearPanels, TakeExtremeCodesWithoutSaturation) {
  std::mt19937 random(kSeed);
  for (const FormatId id : kFormats) {
    SCOPED_TRACE(codec::format(id).name);
    Parent parent(id, 16, 512, random);
    const codec::PanelShape shape = codec::panel_shape(id, 512);
    for (uint64_t i = 0; i < shape.bytes; ++i)  // rows in turns; scales stay
      if (i % shape.block_bytes >= shape.scale_bytes)
        parent.panels[i] = i / 4 % 2 == 0 ? std::byte{0xFF} : std::byte{0x00};
    Weight weight;
    weight.add(parent, 0, 16);
    Launch launch;
    launch.weight = &weight.matrix;
    launch.x = Array(11, 512);
    for (int64_t t = 0; t < 11; ++t)
      for (int64_t k = 0; k < 512; ++k) launch.x.row(t)[k] = t % 2 == 0 ? 127.0f : -127.0f;
    launch.y = Array(11, 16);
    const Array want = launch.oracle(weight.matrix, launch.x);
    for (const Isa isa : all_levels()) {
      SCOPED_TRACE(isa_name(isa));
      for (const int64_t rows : {1, 11}) {
        launch.run(isa, 1, 0, rows);
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t i = 0; i < 16; ++i)
            // Sums of equal terms; a minimum taken off leaves a tenth of them at least.
            ASSERT_NEAR(launch.y.row(t)[i], want.row(t)[i], 1e-4 * std::abs(want.row(t)[i]) + 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace flare::kernel
