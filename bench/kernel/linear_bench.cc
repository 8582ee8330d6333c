// bench_linear: every linear kernel on projection shapes, as per cent of peaks of the same run.
//
//   bench_linear [--threads N] [--isa LEVEL] [--kernel NAME] [--quick]
//
// Few rows (T <= 8): weights come from DRAM, GB/s of weight bytes against the DRAM read bandwidth.
// Many rows: GOP/s against the peak of the arithmetic. Peaks are taken beside each figure.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "base/buffer.h"
#include "base/error.h"
#include "codec/panels.h"
#include "kernel/cpu/linear/linear.h"
#include "machine/peaks.h"

namespace flare::bench {
namespace {

using namespace kernel;
using codec::FormatId;

struct Shape {
  const char* name;
  int64_t n, k;
};
constexpr Shape kShapes[] = {
    {"0.6B qkv", 4096, 1024},  {"0.6B o", 1024, 2048},   {"0.6B gate|up", 6144, 1024},
    {"0.6B down", 1024, 3072}, {"1.7B qkv", 4096, 2048}, {"1.7B gate|up", 12288, 2048},
    {"1.7B down", 2048, 6144},
};

struct Row {
  const char* name;
  Isa isa;
  KernelFn fn;
  uint64_t (*workspace)(const LaunchArgs&, int);
  FormatId format;
  Arithmetic arithmetic;
};
std::vector<Row> rows() {
  constexpr struct {
    const char* name;
    FormatId format;
    Arithmetic arithmetic;
  } integers[] = {
      {"q4", FormatId::kQ4G64, Arithmetic::kInt8By4},
      {"q5", FormatId::kQ5G64, Arithmetic::kInt8},
      {"q6", FormatId::kQ6G64, Arithmetic::kInt8},
      {"q8", FormatId::kQ8G32, Arithmetic::kInt8},
      {"q4_0", FormatId::kGgufQ4_0, Arithmetic::kInt8By4},
      {"q8_0", FormatId::kGgufQ8_0, Arithmetic::kInt8},
      {"q4_k", FormatId::kGgufQ4K, Arithmetic::kInt8By4},
      {"q6_k", FormatId::kGgufQ6K, Arithmetic::kInt8},
      {"q2", FormatId::kQ2G64, Arithmetic::kInt8By4},
      {"t2", FormatId::kT2G128, Arithmetic::kInt8By4},
      {"q2_0", FormatId::kGgufQ2_0, Arithmetic::kInt8By4},
  };
  std::vector<Row> out;
  for (const auto& [name, format, arithmetic] : integers)
    for (const Isa isa : {Isa::kV2, Isa::kV3, Isa::kV4, Isa::kVnni, Isa::kAmx})
      out.push_back({name, isa, kernel_function(KernelId::kLinearPanels, isa),
                     linear_panels_workspace, format, arithmetic});
  const Row others[] = {
      {"q4 a16", Isa::kV3, v3::linear_panel_floats, linear_panel_floats_workspace, FormatId::kQ4G64,
       Arithmetic::kF32},
      {"q4 a16", Isa::kV4, v4::linear_panel_floats, linear_panel_floats_workspace, FormatId::kQ4G64,
       Arithmetic::kF32},
      {"q8 a16", Isa::kV4, v4::linear_panel_floats, linear_panel_floats_workspace, FormatId::kQ8G32,
       Arithmetic::kF32},
      {"q2 a16", Isa::kV3, v3::linear_panel_floats, linear_panel_floats_workspace, FormatId::kQ2G64,
       Arithmetic::kF32},
      {"q2 a16", Isa::kV4, v4::linear_panel_floats, linear_panel_floats_workspace, FormatId::kQ2G64,
       Arithmetic::kF32},
      {"nvfp4 a16", Isa::kV3, v3::linear_panel_floats, linear_panel_floats_workspace,
       FormatId::kNvfp4Rows, Arithmetic::kF32},
      {"nvfp4 a16", Isa::kV4, v4::linear_panel_floats, linear_panel_floats_workspace,
       FormatId::kNvfp4Rows, Arithmetic::kF32},
      {"fp16", Isa::kV4, v4::linear_fp16, linear_generic_workspace, FormatId::kFp16,
       Arithmetic::kF32},
      {"fp32", Isa::kV3, v3::linear_generic, linear_generic_workspace, FormatId::kFp32,
       Arithmetic::kF32},
      {"fp32", Isa::kV4, v4::linear_generic, linear_generic_workspace, FormatId::kFp32,
       Arithmetic::kF32},
      {"bf16", Isa::kV2, v2::linear_bf16, linear_bf16_workspace, FormatId::kBf16, Arithmetic::kF32},
      {"bf16", Isa::kV3, v3::linear_bf16, linear_bf16_workspace, FormatId::kBf16, Arithmetic::kF32},
      {"bf16", Isa::kV4, v4::linear_bf16, linear_bf16_workspace, FormatId::kBf16, Arithmetic::kF32},
      {"bf16", Isa::kBf16, bf16::linear_bf16, linear_bf16_workspace, FormatId::kBf16,
       Arithmetic::kBf16},
      {"bf16", Isa::kAmx, amx::linear_bf16, linear_bf16_workspace, FormatId::kBf16,
       Arithmetic::kBf16},
  };
  out.insert(out.end(), std::begin(others), std::end(others));
  return out;
}

struct Aligned : Buffer {
  explicit Aligned(uint64_t bytes) : Buffer(bytes, "bench memory") {}
};

// Copies of one random weight, together too large for any cache.
struct Weights {
  explicit Weights(uint64_t size) : bytes(size) {}
  Aligned bytes;
  std::vector<codec::Matrix> matrices;
  uint64_t matrix_bytes = 0;
};

// Random legal bytes of one stored weight.
std::vector<std::byte> stored_weight(const codec::Format& format, codec::Geometry g) {
  const codec::Planes planes = format.planes(g);
  std::vector<std::byte> out(planes.total_bytes);
  std::mt19937 random(1);
  if (format.layout == codec::LayoutId::kGgufBlocks) {
    for (std::byte& b : out) b = static_cast<std::byte>(random());
    const auto block = static_cast<uint64_t>(format.bits_per_weight * format.group / 8);
    for (uint64_t at = 0; at < out.size(); at += block)
      for (const uint64_t half : {uint64_t{1}, uint64_t{3}, block - 1})
        out[at + half] &= std::byte{0xBB};  // fp16 fields end there: finite exponents
    return out;
  }
  if (format.encode == nullptr) {  // codes from files alone
    for (uint64_t at = 0; at < out.size(); ++at) out[at] = static_cast<std::byte>(random());
    const uint64_t scales = planes.plane[1].offset;
    if (format.layout == codec::LayoutId::kRowSplitK128) {
      for (uint64_t at = scales; at + 1 < out.size(); at += 2)
        store_le(&out[at], uint16_t{0x2400});  // 2^-6
    } else {
      std::fill(out.begin() + static_cast<int64_t>(scales), out.end(), std::byte{0x38});  // finite
    }
    return out;
  }
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> rows(g.cols * 16);
  for (float& value : rows) value = normal(random);
  for (uint64_t r = 0; r < g.rows; r += 16) {
    std::byte* dst[codec::kMaxPlanes] = {};
    for (int i = 0; i < planes.count; ++i)
      dst[i] = out.data() + planes.plane[i].offset + r * planes.plane[i].row_bytes;
    format.encode(rows.data(), 16, g, dst);
  }
  return out;
}

// As lowering hands it to the kernel: quantised formats in panels, but for the generic kernel.
Weights make_weights(const Row& row, const Shape& shape, uint64_t total_bytes) {
  const FormatId id = row.format;
  const codec::Format& format = codec::format(id);
  const codec::Geometry g{static_cast<uint64_t>(shape.n), static_cast<uint64_t>(shape.k)};
  std::vector<std::byte> object = stored_weight(format, g);
  codec::LayoutId layout = format.layout;
  if (codec::has_panels(id) && row.workspace != linear_generic_workspace) {
    std::vector<std::byte> panels(codec::panels_bytes(id, g));
    codec::pack_panels(id, object.data(), g, 0, codec::n_panels(g.rows), panels.data());
    object = std::move(panels);
    layout = codec::LayoutId::kPanels16;
  }
  const uint64_t pitch = (object.size() + 4095) / 4096 * 4096;
  const uint64_t copies = std::max<uint64_t>(1, total_bytes / pitch);
  Weights out(pitch * copies);
  out.matrix_bytes = object.size();
  for (uint64_t i = 0; i < copies; ++i) {
    std::byte* at = out.bytes.data() + i * pitch;
    std::memcpy(at, object.data(), object.size());
    codec::Matrix matrix;
    codec::append_segment(matrix, {at, g, id, layout, 0, g.rows});
    out.matrices.push_back(std::move(matrix));
  }
  return out;
}

OperandView view(Aligned& data, int64_t rows, int64_t cols) {
  OperandView v;
  v.space = graph::Space::kArena;
  v.data = data.data();
  v.rows = rows;
  v.cols = cols;
  v.stride = cols;
  return v;
}

// Seconds of one launch, the fastest of several passes over the copies.
double seconds_per_launch(const Row& row, const Weights& weights, const Shape& shape, int64_t t,
                          Team& team, int passes) {
  Aligned x(t * shape.k * sizeof(float)), y(t * shape.n * sizeof(float));
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t * shape.k; ++i) store_le(x.data() + i * sizeof(float), normal(random));
  const size_t n_copies = t <= 8 ? weights.matrices.size() : 1;
  std::vector<std::array<OperandView, kLinearOperands>> operands(n_copies);
  for (size_t i = 0; i < n_copies; ++i) {
    operands[i] = {view(x, t, shape.k), {}, {}, view(y, t, shape.n)};
    operands[i][1].weight = &weights.matrices[i];
  }
  // A plain product, without norm or residual.
  const graph::Immediate immediates[kLinearImmediates] = {
      graph::integer(static_cast<int64_t>(graph::Policy::kAllowA8)), graph::integer(0),
      graph::integer(0), graph::real(0), graph::integer(0)};
  LaunchArgs first{operands[0], immediates, nullptr, {}};
  Aligned workspace(row.workspace(first, team.size()));
  const double seconds = fastest_seconds(team, passes, [&] {
    team.run([&](Member& member) {
      for (size_t i = 0; i < n_copies; ++i) {
        row.fn({operands[i], immediates, nullptr, {workspace.data(), workspace.bytes()}}, member);
        member.barrier();
      }
    });
  });
  return seconds / static_cast<double>(n_copies);
}

void run(int threads, std::optional<Isa> only, std::string_view kernel, bool quick) {
  Team team(threads);
  const HugeMemory memory(read_memory_bytes());
  fmt::print("{}, {} threads; per cent of peaks measured beside each figure\n", cpu_model_name(),
             threads);
  for (const Row& row : rows()) {
    if (row.isa > machine_isa().value_or(Isa::kV2) || (only && row.isa != *only)) continue;
    if (!kernel.empty() && kernel != row.name) continue;
    for (const Shape& shape : kShapes) {
      if (quick && &shape != &kShapes[2] && &shape != &kShapes[6]) continue;
      const Weights weights = make_weights(row, shape, memory.size());
      for (const int64_t t : {1, 4, 8}) {
        if (quick && t == 4) continue;
        const double dram = read_bandwidth(team, memory.bytes());
        const double seconds = seconds_per_launch(row, weights, shape, t, team, 5);
        const double rate = static_cast<double>(weights.matrix_bytes) / seconds;
        const double best = std::max(dram, read_bandwidth(team, memory.bytes()));
        fmt::print("{:<11} {:<5} {:<13} T={:<4} {:7.2f} GB/s  {:5.1f} % of {:.1f} GB/s DRAM read\n",
                   row.name, isa_name(row.isa), shape.name, t, rate * 1e-9, 100 * rate / best,
                   best * 1e-9);
      }
      for (const int64_t t : {16, 64, 512}) {
        if (quick && t != 512) continue;
        const double before = peak_operations(team, row.isa, row.arithmetic);
        const double seconds = seconds_per_launch(row, weights, shape, t, team, 5);
        const double rate = 2.0 * static_cast<double>(t * shape.n * shape.k) / seconds;
        const double peak = std::max(before, peak_operations(team, row.isa, row.arithmetic));
        fmt::print("{:<11} {:<5} {:<13} T={:<4} {:7.1f} GOP/s {:5.1f} % of {:.0f} GOP/s peak\n",
                   row.name, isa_name(row.isa), shape.name, t, rate * 1e-9, 100 * rate / peak,
                   peak * 1e-9);
      }
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  int threads = static_cast<int>(flare::usable_cores().size());
  std::optional<flare::Isa> isa;
  std::string_view kernel;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--quick") {
      quick = true;
    } else if (flag == "--threads" && i + 1 < argc) {
      threads = std::max(1, std::atoi(argv[++i]));
    } else if (flag == "--isa" && i + 1 < argc && (isa = flare::isa_from_name(argv[i + 1]))) {
      ++i;
    } else if (flag == "--kernel" && i + 1 < argc) {
      kernel = argv[++i];
    } else {
      fmt::print(stderr,
                 "usage: bench_linear [--threads N] [--isa v2|v3|v4|vnni|bf16|amx] [--kernel NAME] "
                 "[--quick]\n");
      return 2;
    }
  }
  flare::bench::run(threads, isa, kernel, quick);
}
