// Speed of images on one thread: base64, decoding, resizing, patches, on files of a folder.
//
// usage: bench_media FOLDER [--json]      `bench/frontend/media_peer.py` makes the folder, runs
// this
//                                         beside Pillow and prints both
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "frontend/media/media.h"
#include "frontend/media/processor.h"
#include "machine/peaks.h"

namespace flare::bench {
namespace {

using namespace flare::media;

constexpr int kRuns = 7;

struct Line {
  std::string what;
  double seconds;
  double amount;     // megapixels, or gigabytes of base64 text
  std::string unit;  // "Mpixel/s", "GB/s"
};

double seconds_of(const std::function<void()>& run) {
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const double begin = team_clock(1);
    run();
    best = std::min(best, team_clock(1) - begin);
  }
  return best;
}

void bench_base64(std::vector<Line>& lines) {
  const std::string text(32 << 20, 'Q');
  std::string wrapped;
  for (size_t at = 0; at < text.size(); at += 76) wrapped += text.substr(at, 76) + "\r\n";
  for (const auto& [name, source] : {std::pair{"base64", &text}, {"base64 in lines", &wrapped}})
    lines.push_back({name, seconds_of([&] { decode_base64(*source); }),
                     static_cast<double>(source->size()) / 1e9, "GB/s"});
}

void bench_file(const std::filesystem::path& path, std::vector<Line>& lines) {
  const std::string file = read_text_file(path);
  const Image image = decode_image(as_bytes(file));
  const double megapixels = image.width * 1e-6 * image.height;
  lines.push_back({"decode " + path.filename().string(),
                   seconds_of([&] { decode_image(as_bytes(file)); }), megapixels, "Mpixel/s"});
}

// Speeds count the pixels of the larger side of a resize.
void bench_resize(const Image& image, std::vector<Line>& lines) {
  const auto add = [&](std::string_view name, Filter filter, uint32_t height, uint32_t width) {
    const double larger = std::max(1.0 * image.width * image.height, 1.0 * height * width);
    lines.push_back({fmt::format("resize {} {}x{}", name, height, width),
                     seconds_of([&] { resize(image, height, width, filter); }), larger / 1e6,
                     "Mpixel/s"});
  };
  add("bicubic", Filter::kBicubic, 2016, 3008);
  add("bicubic", Filter::kBicubic, 896, 1344);
  add("bicubic", Filter::kBicubic, 256, 384);
  add("bilinear", Filter::kBilinear, 896, 896);
  add("lanczos", Filter::kLanczos, 896, 1344);
  const ProcessorConfig config =
      ProcessorConfig::parse(PatchLayout::kMergeBlocks, Json::object(), "defaults");
  lines.push_back({"process to patches", seconds_of([&] { process(image, config); }),
                   image.width * 1e-6 * image.height, "Mpixel/s"});
  const PixelPatches patches = process(image, config);
  std::vector<float> floats(static_cast<size_t>(patches.row_floats * 1024));
  const int64_t n = std::min<int64_t>(1024, patches.n_patches);
  floats.resize(static_cast<size_t>(n * patches.row_floats));
  lines.push_back({"floats of 1024 patches", seconds_of([&] { patches.copy_values(0, floats); }),
                   static_cast<double>(floats.size()) * 4e-9, "GB/s"});
}

void print(const std::vector<Line>& lines, const Peaks& peaks, Isa isa, bool as_json) {
  if (as_json) {
    Json out = Json::object({{"cpu", cpu_model_name()},
                             {"isa", isa_name(isa)},
                             {"threads", 1},
                             {"peaks", peaks_json(peaks)}});
    for (const Line& line : lines)
      out.set(line.what, Json::object({{"ms", line.seconds * 1e3},
                                       {"speed", line.amount / line.seconds},
                                       {"unit", line.unit}}));
    fmt::print("{}\n", out.to_text());
    return;
  }
  fmt::print("{}, {}, 1 thread\n{}\n", cpu_model_name(), isa_name(isa), peaks_text(peaks));
  for (const Line& line : lines)
    fmt::print("{:32} {:9.2f} ms {:9.1f} {}\n", line.what, line.seconds * 1e3,
               line.amount / line.seconds, line.unit);
}

int run(int argc, char** argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && std::strcmp(argv[2], "--json") != 0)) {
    fmt::print(stderr, "usage: bench_media FOLDER [--json]\n");
    return 2;
  }
  const Isa isa = choose_isa("");
  Team team(1);
  HugeMemory memory(uint64_t{256} << 20);
  Peaks peaks = measure_peaks(team, isa, memory.bytes());
  std::vector<Line> lines;
  bench_base64(lines);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const auto& path : paths) bench_file(path, lines);
  if (!paths.empty()) bench_resize(decode_image(as_bytes(read_text_file(paths.front()))), lines);
  peaks = best_of(peaks, measure_peaks(team, isa, memory.bytes()));
  print(lines, peaks, isa, argc == 3);
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) try {
  return flare::bench::run(argc, argv);
} catch (const std::exception& e) {
  fmt::print(stderr, "bench_media: {}\n", e.what());
  return 1;
}
