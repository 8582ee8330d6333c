// Rendering of chat templates, in one line of JSON a case; template_peer.py runs it beside jinja2.
//
// usage: bench_template TEMPLATE VARIABLES.json SECONDS
// Prints {"parse_us", "render_us", "bytes"}: the median of repetitions over SECONDS, one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json/json.h"
#include "frontend/template/template.h"

namespace {

using Clock = std::chrono::steady_clock;

template <typename F>
double median_us(double seconds, F f) {
  std::vector<double> times;
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    f();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  using namespace flare;
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_template TEMPLATE VARIABLES.json SECONDS\n");
    return 2;
  }
  try {
    const std::string source = read_text_file(argv[1]);
    const Json variables = parse_json(read_text_file(argv[2]), argv[2], {.max_depth = 256});
    const double seconds = std::atof(argv[3]);
    constexpr int64_t kClock = 1'767'323'045;
    const double parse =
        median_us(seconds / 4, [&] { frontend::Template::parse(source, "bench"); });
    const frontend::Template parsed = frontend::Template::parse(source, "bench");
    const frontend::RenderLimits limits{.max_steps = 100'000'000, .timeout_ms = 60'000};
    size_t bytes = 0;
    const double render = median_us(seconds, [&] {
      bytes = parsed.render(variables, {"bos_token", "eos_token"}, kClock, limits).size();
    });
    std::printf("{\"parse_us\": %.1f, \"render_us\": %.1f, \"bytes\": %zu}\n", parse, render,
                bytes);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
}
