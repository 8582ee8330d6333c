// Encoders: GB/s of bf16 source on one core, and the relative error they leave, beside ggml's own
// quantiser where FLARE_GGML_LIBRARY names its library. Decoders: GB/s of the numbers they write.
// Per cents are of this machine's read bandwidth in the same run, one core.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/float_types.h"
#include "base/hash/sha256.h"
#include "base/processor_time.h"
#include "codec/format.h"
#include "codec/search.h"
#include "kernel/bench_main.h"
#include "machine/peaks.h"

#ifdef FLARE_GGML
extern "C" {
void quantize_row_q4_0_ref(const float* x, void* y, int64_t k);
void quantize_row_q8_0_ref(const float* x, void* y, int64_t k);
void quantize_row_q4_K_ref(const float* x, void* y, int64_t k);
void quantize_row_q5_K_ref(const float* x, void* y, int64_t k);
void quantize_row_q6_K_ref(const float* x, void* y, int64_t k);
}
#endif

namespace flare::bench {
namespace {

using codec::Format;
using codec::FormatId;

constexpr codec::Geometry kMatrix{256, 4096};
constexpr uint64_t kValues = kMatrix.rows * kMatrix.cols;

// CPU time of this thread: other users of the machine count little.
double seconds() { return thread_processor_ms() * 1e-3; }

// GB/s of bf16 source at the fastest of five runs.
template <typename Run>
double rate(Run run) {
  double best = INFINITY;
  for (int i = 0; i < 5; ++i) {
    const double begin = seconds();
    run();
    best = std::min(best, seconds() - begin);
  }
  return 2e-9 * static_cast<double>(kValues) / best;
}

// Values as bf16 words, gaussian or with heavy tails (Student's t, three degrees of freedom).
std::vector<uint16_t> source(bool heavy) {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal(0, 0.02f);
  std::student_t_distribution<float> tails(3);
  std::vector<uint16_t> out(kValues);
  for (uint16_t& word : out) word = f32_to_bf16(heavy ? 0.01f * tails(random) : normal(random));
  return out;
}

double error_of(const Format& format, const std::vector<float>& x, const std::byte* object) {
  std::vector<float> row(kMatrix.cols);
  double miss = 0, signal = 0;
  for (uint64_t r = 0; r < kMatrix.rows; ++r) {
    format.decode(object, kMatrix, r, 0, kMatrix.cols, row.data());
    for (uint64_t c = 0; c < kMatrix.cols; ++c) {
      const double v = static_cast<double>(x[r * kMatrix.cols + c]);
      miss += (v - static_cast<double>(row[c])) * (v - static_cast<double>(row[c]));
      signal += v * v;
    }
  }
  return std::sqrt(miss / signal);
}

struct Measured {
  double rate = 0, error = 0;
};

// Widening of the bf16 words is part of the time, a row at a time as in a build.
template <typename Encode>
Measured measure(const Format& format, const std::vector<uint16_t>& words, Encode encode) {
  const codec::Planes planes = format.planes(kMatrix);
  std::vector<std::byte> object(planes.total_bytes);
  std::vector<float> all(kValues), row(16 * kMatrix.cols);
  for (uint64_t i = 0; i < kValues; ++i) all[i] = bf16_to_f32(words[i]);
  Measured out;
  out.rate = rate([&] {
    for (uint64_t r = 0; r < kMatrix.rows; r += 16) {
      const uint16_t* from = words.data() + r * kMatrix.cols;
      for (uint64_t i = 0; i < row.size(); ++i) row[i] = bf16_to_f32(from[i]);
      std::byte* to[codec::kMaxPlanes] = {};
      for (int p = 0; p < planes.count; ++p)
        to[p] = object.data() + planes.plane[p].offset + r * planes.plane[p].row_bytes;
      encode(row.data(), 16, to);
    }
  });
  out.error = error_of(format, all, object.data());
  return out;
}

using Peer = void (*)(const float*, void*, int64_t);
Peer peer_of([[maybe_unused]] FormatId id) {
#ifdef FLARE_GGML
  switch (id) {
    case FormatId::kGgufQ4_0:
      return quantize_row_q4_0_ref;
    case FormatId::kGgufQ8_0:
      return quantize_row_q8_0_ref;
    case FormatId::kGgufQ4K:
      return quantize_row_q4_K_ref;
    case FormatId::kGgufQ5K:
      return quantize_row_q5_K_ref;
    case FormatId::kGgufQ6K:
      return quantize_row_q6_K_ref;
    default:
      return nullptr;
  }
#endif
  return nullptr;
}

// Bytes per second that a core reads from memory.
double read_peak() {
  Team team(1);
  const HugeMemory memory(uint64_t{256} << 20);
  return read_bandwidth(team, memory.bytes());
}

void report(const Format& format, double peak) {
  const std::vector<uint16_t> gaussian = source(false), heavy = source(true);
  const auto line = [&](const char* who, auto encode) {
    const Measured g = measure(format, gaussian, encode), h = measure(format, heavy, encode);
    fmt::print("| {} | {} | {:.3f} | {:.1f} | {:.5f} | {:.5f} |\n", format.name, who, g.rate,
               100e9 * g.rate / peak, g.error, h.error);
  };
  const codec::Search search = codec::search_of(format.id);
  const bool is_search = search != nullptr && format.layout == codec::LayoutId::kGgufBlocks;
  line(is_search ? "search" : "absmax",
       [&](const float* x, uint64_t n, std::byte* const* to) { format.encode(x, n, kMatrix, to); });
  if (search != nullptr && !is_search)
    line("search", [&](const float* x, uint64_t n, std::byte* const* to) {
      search(x, n, kMatrix, nullptr, to);
    });
  if (const Peer peer = peer_of(format.id))
    line("ggml", [&](const float* x, uint64_t n, std::byte* const* to) {
      peer(x, to[0], static_cast<int64_t>(n * kMatrix.cols));
    });
}

// Rows one after the other, as building, comparing and verifying decode them.
void report_decoder(const Format& format, double peak) {
  const codec::Planes planes = format.planes(kMatrix);
  // 0x3C is a code of every format, and a number of every type of scale in all its bytes.
  const std::vector<std::byte> object(planes.total_bytes, std::byte{0x3c});
  std::vector<float> row(kMatrix.cols);
  try {
    const double words = rate([&] {
      for (uint64_t r = 0; r < kMatrix.rows; ++r)
        format.decode(object.data(), kMatrix, r, 0, kMatrix.cols, row.data());
    });
    // rate() counts two bytes a value.
    const double stored = words * format.bits_per_weight / 16;
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.1f} |\n", format.name, format.layout_name,
               2 * words, stored, 100e9 * stored / peak);
  } catch (const Error&) {  // known by its bytes alone
  }
}

int run(int, char**) {
  const double peak = read_peak();
  fmt::print("{}, {}, one core, read {:.1f} GB/s\n\n", cpu_model_name(), isa_name(choose_isa("")),
             peak / 1e9);
  fmt::print(
      "| format | encoder | GB/s of bf16 | % of read | error, gaussian | error, heavy tails |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const FormatId id :
       {FormatId::kQ4G64, FormatId::kQ5G64, FormatId::kQ6G64, FormatId::kQ8G32,
        FormatId::kFp8RowBf16, FormatId::kGgufQ4_0, FormatId::kGgufQ8_0, FormatId::kGgufQ4K,
        FormatId::kGgufQ5K, FormatId::kGgufQ6K, FormatId::kMxfp4, FormatId::kMxfp8})
    report(codec::format(id), peak);
  fmt::print("\n| decoder | layout | GB/s of fp32 | GB/s of stored bytes | % of read |\n");
  fmt::print("|---|---|---|---|---|\n");
  for (const Format& format : codec::all_formats())
    if (format.id != FormatId::kInt32) report_decoder(format, peak);
  const std::vector<uint16_t> words = source(false);
  fmt::print("\nSHA-256: {:.2f} GB/s\n",
             rate([&] { sha256_hex(std::as_bytes(std::span(words))); }));
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  return flare::bench::run_main("bench_codec", flare::bench::run, argc, argv);
}
