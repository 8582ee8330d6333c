// bench_machine: peaks of this machine for 1 … n threads and every ISA level, as a table or JSON.
//
//   bench_machine [--threads N] [--json]
//
// The read bandwidth is that of the fastest loop over memory in huge pages, twice as large as the
// last cache; the table has every loop's. A barrier is what a launch of a replayed
// plan costs besides its work, a run what waking a spinning team costs.
#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "machine/peaks.h"

namespace flare::bench {
namespace {

constexpr int kRounds = 3;  // the best of each counts

struct TeamPeaks {
  int threads = 0;
  double barrier_s = 1e30, run_s = 1e30;
  double read_bytes[std::size(kReadLoops)] = {};  // per second, by loop
  std::vector<Peaks> by_level;                    // ascending from v2
};

TeamPeaks measure(int threads, Isa highest, Bytes memory) {
  Team team(threads);
  TeamPeaks out{.threads = threads};
  out.by_level.resize(static_cast<size_t>(highest) + 1);
  for (int round = 0; round < kRounds; ++round) {
    out.barrier_s = std::min(out.barrier_s, barrier_seconds(team));
    out.run_s = std::min(out.run_s, run_seconds(team));
    for (size_t i = 0; i < std::size(kReadLoops); ++i)
      out.read_bytes[i] = std::max(out.read_bytes[i], read_bandwidth(team, memory, kReadLoops[i]));
    for (size_t level = 0; level < out.by_level.size(); ++level)
      for (int i = 0; i < kArithmetics; ++i) {
        double& best = out.by_level[level].operations[i];
        best = std::max(best,
                        peak_operations(team, static_cast<Isa>(level), static_cast<Arithmetic>(i)));
      }
  }
  for (Peaks& peaks : out.by_level) peaks.read_bytes = std::ranges::max(out.read_bytes);
  return out;
}

void print_table(const std::vector<TeamPeaks>& teams) {
  fmt::print("{}, best of {} rounds\n\n", cpu_model_name(), kRounds);
  fmt::print("threads  read GB/s  barrier µs  run µs\n");
  for (const TeamPeaks& t : teams)
    fmt::print("{:>7}  {:>9.1f}  {:>10.3f}  {:>6.3f}\n", t.threads, t.by_level[0].read_bytes / 1e9,
               t.barrier_s * 1e6, t.run_s * 1e6);
  fmt::print("\nread GB/s by streams of a member, bytes ahead\nthreads");
  for (const ReadLoop& loop : kReadLoops)
    fmt::print("  {:>7}", fmt::format("{}, {}", loop.streams, loop.ahead));
  fmt::print("\n");
  for (const TeamPeaks& t : teams) {
    fmt::print("{:>7}", t.threads);
    for (const double rate : t.read_bytes) fmt::print("  {:>7.1f}", rate / 1e9);
    fmt::print("\n");
  }
  fmt::print("\nGOP/s    level");
  for (int i = 0; i < kArithmetics; ++i)
    fmt::print("  {:>9}", arithmetic_name(static_cast<Arithmetic>(i)));
  fmt::print("\n");
  for (const TeamPeaks& t : teams)
    for (size_t level = 0; level < t.by_level.size(); ++level) {
      fmt::print("{:>7}  {:>5}", t.threads, isa_name(static_cast<Isa>(level)));
      for (const double rate : t.by_level[level].operations) fmt::print("  {:>9.1f}", rate / 1e9);
      fmt::print("\n");
    }
}

Json to_json(const std::vector<TeamPeaks>& teams) {
  Json rows = Json::array({});
  for (const TeamPeaks& t : teams) {
    Json levels = Json::object({});
    for (size_t level = 0; level < t.by_level.size(); ++level)
      levels.set(std::string(isa_name(static_cast<Isa>(level))), peaks_json(t.by_level[level]));
    Json loops = Json::array({});
    for (size_t i = 0; i < std::size(kReadLoops); ++i)
      loops.push_back(Json::object({{"streams", kReadLoops[i].streams},
                                    {"ahead", kReadLoops[i].ahead},
                                    {"read_bytes_per_s", t.read_bytes[i]}}));
    rows.push_back(Json::object({{"threads", t.threads},
                                 {"barrier_s", t.barrier_s},
                                 {"run_s", t.run_s},
                                 {"read_loops", loops},
                                 {"levels", levels}}));
  }
  return Json::object({{"cpu", cpu_model_name()}, {"teams", rows}});
}

int run(int max_threads, bool json) {
  const Isa highest = choose_isa("");
  const HugeMemory memory(read_memory_bytes());
  std::vector<TeamPeaks> teams;
  for (int threads = 1; threads <= max_threads; ++threads)
    teams.push_back(measure(threads, highest, memory.bytes()));
  if (json) {
    fmt::print("{}\n", to_json(teams).to_text());
  } else {
    print_table(teams);
  }
  return 0;
}

}  // namespace
}  // namespace flare::bench

int main(int argc, char** argv) {
  int threads = static_cast<int>(flare::usable_cores().size());
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--json") {
      json = true;
    } else if (flag == "--threads" && i + 1 < argc) {
      const std::string_view text = argv[++i];
      std::from_chars(text.data(), text.data() + text.size(), threads);
    } else {
      threads = 0;
    }
  }
  if (threads < 1) {
    fmt::print(stderr, "usage: bench_machine [--threads N] [--json]\n");
    return 2;
  }
  try {
    return flare::bench::run(threads, json);
  } catch (const flare::Error& e) {
    fmt::print(stderr, "bench_machine: {}\n", e.message());
    return flare::exit_code(e.code());
  }
}
