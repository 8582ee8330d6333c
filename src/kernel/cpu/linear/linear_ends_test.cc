// What stands before and behind the product of linear: the bits of separate launches, and the
// oracle.
#include <gtest/gtest.h>

#include "codec/panels.h"
#include "kernel/add.h"
#include "kernel/gate_mul.h"
#include "kernel/gated_norm.h"
#include "kernel/geglu.h"
#include "kernel/linear.h"
#include "kernel/op_fixture.h"
#include "kernel/rms_norm.h"

namespace flare::kernel {
namespace {

using codec::FormatId;
using testing::Array;

constexpr double kUlp = 0x1p-24;
constexpr double kEps = 1e-5;

enum class Behind { kNothing, kResidual, kResidualInPlace, kSwiglu, kGeglu };
bool takes_halves(Behind behind) { return behind == Behind::kSwiglu || behind == Behind::kGeglu; }

struct Ends {
  LinearInput input;
  Behind behind;
};
std::vector<Ends> all_ends() {
  std::vector<Ends> out;
  for (const LinearInput input :
       {LinearInput::kPlain, LinearInput::kRmsNorm, LinearInput::kGateMul, LinearInput::kGatedNorm})
    for (const Behind behind : {Behind::kNothing, Behind::kResidual, Behind::kResidualInPlace,
                                Behind::kSwiglu, Behind::kGeglu})
      out.push_back({input, behind});
  return out;
}

struct Shape {
  int64_t k, head, m;  // N = 2·M
};

// Everything that a launch of any ends may read.
struct Launch {
  Launch(FormatId format, const Shape& s, int64_t n_rows, std::mt19937& random)
      : shape(s), rows(n_rows), x(rows, s.k), gate(rows, s.k), residual(rows, 2 * s.m) {
    x.randomise(random, 2);
    gate.randomise(random, 4);
    residual.randomise(random, 3);
    norm = testing::random_values(random, s.k, -1, 2);
    bias = testing::random_values(random, 2 * s.m, -1, 1);
    const codec::Format& f = codec::format(format);
    const codec::Geometry g{static_cast<uint64_t>(2 * s.m), static_cast<uint64_t>(s.k)};
    const codec::Planes planes = f.planes(g);
    object.resize(planes.total_bytes);
    std::byte* dst[codec::kMaxPlanes] = {};
    for (int i = 0; i < planes.count; ++i) dst[i] = object.data() + planes.plane[i].offset;
    const std::vector<float> values = testing::random_values(random, 2 * s.m * s.k, -0.2f, 0.2f);
    f.encode(values.data(), g.rows, g, dst);
    codec::LayoutId layout = f.layout;
    if (codec::has_panels(format)) {  // as route_linear's kernels want it
      std::vector<std::byte> panels(codec::panels_bytes(format, g));
      codec::pack_panels(format, object.data(), g, 0, codec::n_panels(g.rows), panels.data());
      object = std::move(panels);
      layout = codec::LayoutId::kPanels16;
    }
    codec::append_segment(weight, {object.data(), g, format, layout, 0, g.rows});
  }

  OperandView norm_view(LinearInput input) {
    if (input == LinearInput::kRmsNorm) return testing::constant(norm, 1, shape.k);
    if (input == LinearInput::kGatedNorm) return testing::constant(norm, 1, shape.head);
    return {};
  }
  std::vector<OperandView> operands(const Ends& ends, Array& in, Array& y) {
    OperandView w;
    w.space = graph::Space::kWeight;
    w.weight = &weight;
    const bool is_gated =
        ends.input == LinearInput::kGateMul || ends.input == LinearInput::kGatedNorm;
    OperandView added;
    if (ends.behind == Behind::kResidual) added = residual.view();
    if (ends.behind == Behind::kResidualInPlace) added = y.view();
    return {in.view(),
            w,
            testing::constant(bias, 1, 2 * shape.m),
            y.view(),
            norm_view(ends.input),
            is_gated ? gate.view() : OperandView{},
            added};
  }
  static std::vector<graph::Immediate> immediates(const Ends& ends) {
    const auto output = ends.behind == Behind::kSwiglu  ? LinearOutput::kSwiglu
                        : ends.behind == Behind::kGeglu ? LinearOutput::kGeglu
                                                        : LinearOutput::kPlain;
    return {graph::integer(static_cast<int64_t>(graph::Policy::kAllowA8)),
            graph::integer(static_cast<int64_t>(ends.input)),
            graph::integer(static_cast<int64_t>(output)), graph::real(kEps),
            graph::integer(ends.input == LinearInput::kRmsNorm ? 1 : 0)};
  }
  // Room for y, holding the residual where that is y itself.
  Array room(const Ends& ends) const {
    if (ends.behind == Behind::kResidualInPlace) return residual;
    return Array(rows, takes_halves(ends.behind) ? shape.m : 2 * shape.m);
  }

  // x̂ by the op of its own, a kernel or (isa absent) its oracle.
  Array prepared(LinearInput input, std::optional<Isa> isa) {
    Array out = x;
    std::vector<OperandView> o = {x.view(), gate.view(), out.view()};
    std::vector<graph::Immediate> im = {graph::real(kEps)};
    KernelId id = KernelId::kGateMul;
    auto oracle = gate_mul_ref;
    if (input == LinearInput::kPlain) return out;
    if (input == LinearInput::kRmsNorm) {
      id = KernelId::kRmsNorm;
      oracle = rms_norm_ref;
      o[1] = norm_view(input);
      im.push_back(graph::integer(1));
    } else if (input == LinearInput::kGatedNorm) {
      id = KernelId::kGatedNorm;
      oracle = gated_norm_ref;
      o.insert(o.begin() + 2, norm_view(input));
    } else {
      im.clear();
    }
    if (isa) {
      testing::run_kernel(id, *isa, 1, o, im, nullptr);
    } else {
      oracle({.operands = o, .immediates = im});
    }
    return out;
  }

  // The launch as separate kernels.
  Array apart(const Ends& ends, KernelId linear, Isa isa) {
    Array in = prepared(ends.input, isa);
    const Ends plain{LinearInput::kPlain, Behind::kNothing};
    Array product = room(plain), y = room(ends);
    testing::run_kernel(linear, isa, 1, operands(plain, in, product), immediates(plain), nullptr);
    if (ends.behind == Behind::kNothing) return product;
    OperandView first = product.view(), second = residual.view();
    if (takes_halves(ends.behind)) {
      second = first;
      first.cols = second.cols = shape.m;
      second.data += shape.m * sizeof(float);
    }
    const OperandView o[] = {first, second, y.view()};
    const KernelId behind = ends.behind == Behind::kSwiglu  ? KernelId::kSwiglu
                            : ends.behind == Behind::kGeglu ? KernelId::kGeglu
                                                            : KernelId::kAdd;
    testing::run_kernel(behind, isa, 1, o, {}, nullptr);
    return y;
  }

  Shape shape;
  int64_t rows;
  Array x, gate, residual;
  std::vector<float> norm, bias;
  std::vector<std::byte> object;
  codec::Matrix weight;
};

// The machine's levels that a kernel has a function of: elsewhere it has the arithmetic of a lower
// level than the separate ops.
std::vector<Isa> levels_of(KernelId id) {
  std::vector<Isa> out;
  for (int i = 0; i <= static_cast<int>(machine_isa().value_or(Isa::kV2)); ++i)
    if (kernel_info(id).fn[i] != nullptr) out.push_back(static_cast<Isa>(i));
  return out;
}

constexpr FormatId kFormats[] = {FormatId::kFp32, FormatId::kBf16, FormatId::kQ4G64,
                                 FormatId::kQ6G64, FormatId::kQ8G32};

TEST(LinearEnds, GiveTheBitsOfSeparateLaunchesInAnyTeam) {
  std::mt19937 random(41);
  for (const FormatId format : kFormats)
    for (const Shape& shape : {Shape{150, 50, 48}, Shape{1152, 128, 16}})
      for (const int64_t rows : {0, 1, 2, 9, 33}) {
        Launch launch(format, shape, rows, random);
        const KernelId linear = route_linear(launch.weight, graph::Policy::kAllowA8);
        for (const Isa isa : levels_of(linear))
          for (const Ends& ends : all_ends()) {
            const Array expected = launch.apart(ends, linear, isa);
            for (const int team : {1, 2, 3}) {
              SCOPED_TRACE(::testing::Message()
                           << kernel_info(linear).name << " " << isa_name(isa) << " rows " << rows
                           << " K " << shape.k << " input " << static_cast<int>(ends.input)
                           << " behind " << static_cast<int>(ends.behind) << " team " << team);
              Array y = launch.room(ends);
              testing::run_kernel(linear, isa, team, launch.operands(ends, launch.x, y),
                                  Launch::immediates(ends), nullptr);
              ASSERT_TRUE(y.same_bits(expected));
            }
          }
      }
}

// Roundings in units of 2^-24 for K columns, at most 512: of x̂ (a mean over K/4 steps of two,
// halved by the root; root, quotient, products; an exponential of 2 ulp and its quotient), and of
// the product (linear_test.cc).
double input_roundings(int64_t k) { return static_cast<double>(k) / 4 + 24; }
double product_roundings(int64_t k) { return static_cast<double>(k) / 2 + 10; }
// The slopes of SiLU and GELU are below 1.13; themselves and the product cost 12 roundings, and
// GELU's exponent 2z, of four roundings, moves it by 4·|x·σ(2z)·2z| < 5 more.
constexpr double kSlope = 1.13;
constexpr double kUnitRoundings = 12;
constexpr double kExponentRoundings = 5;

double silu(double x) { return x / (1 + std::exp(-x)); }

// The generic kernel and linear_ref against the oracles of the separate ops.
TEST(LinearEnds, FollowTheOracles) {
  std::mt19937 random(42);
  const Shape shape{150, 50, 24};
  Launch launch(FormatId::kFp32, shape, 7, random);
  const auto* w = reinterpret_cast<const float*>(launch.object.data());
  for (const Ends& ends : all_ends()) {
    SCOPED_TRACE(::testing::Message() << "input " << static_cast<int>(ends.input) << " behind "
                                      << static_cast<int>(ends.behind));
    const Array in = launch.prepared(ends.input, std::nullopt);
    Array oracle = launch.room(ends);
    linear_ref({.operands = launch.operands(ends, launch.x, oracle),
                .immediates = Launch::immediates(ends)});
    oracle.expect_guards();
    for (const Isa isa : testing::levels()) {
      Array y = launch.room(ends);
      testing::run_kernel(KernelId::kLinearGeneric, isa, 2, launch.operands(ends, launch.x, y),
                          Launch::immediates(ends), nullptr);
      y.expect_guards();
      for (int64_t t = 0; t < launch.rows; ++t) {
        std::vector<double> product, error;
        for (int64_t n = 0; n < 2 * shape.m; ++n) {
          double sum = launch.bias[n], size = std::abs(launch.bias[n]);
          for (int64_t i = 0; i < shape.k; ++i) {
            const double term = static_cast<double>(in.row(t)[i]) * w[n * shape.k + i];
            sum += term;
            size += std::abs(term);
          }
          product.push_back(sum);
          error.push_back((input_roundings(shape.k) + product_roundings(shape.k)) * kUlp * size);
        }
        for (int64_t n = 0; n < y.cols(); ++n) {
          double want = product[n], bound = error[n];
          if (takes_halves(ends.behind)) {
            const double up = product[shape.m + n];
            const double gate =
                ends.behind == Behind::kSwiglu ? silu(product[n]) : gelu_tanh(product[n]);
            want = gate * up;
            bound = kSlope * error[n] * std::abs(up) + std::abs(gate) * error[shape.m + n] +
                    kUnitRoundings * kUlp * std::abs(want) +
                    kExponentRoundings * kUlp * std::abs(up);
          } else if (ends.behind != Behind::kNothing) {
            want += launch.residual.row(t)[n];
            bound += kUlp * std::abs(want);
          }
          ASSERT_NEAR(y.row(t)[n], want, bound) << t << " " << n;
          ASSERT_NEAR(oracle.row(t)[n], want, bound) << t << " " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flare::kernel
