// What the benchmarks of ops share: operands over vectors, a timed launch.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "kernel/kernels.h"
#include "machine/peaks.h"

namespace flare::bench {

// Random floats in huge pages, like those of an arena.
class Floats {
 public:
  explicit Floats(int64_t n, float scale = 1)
      : size_(n), memory_(std::max<uint64_t>(static_cast<uint64_t>(n) * sizeof(float), 64)) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-scale, scale);
    for (int64_t i = 0; i < n; ++i) data()[i] = uniform(random);
  }
  float* data() { return reinterpret_cast<float*>(memory_.data()); }
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  HugeMemory memory_;
};

inline kernel::OperandView value(Floats& data, int64_t rows, int64_t cols) {
  kernel::OperandView v;
  v.space = graph::Space::kArena;
  v.data = reinterpret_cast<std::byte*>(data.data());
  v.rows = rows;
  v.cols = v.stride = cols;
  return v;
}

// Seconds of the fastest of `n` runs of one launch for every entry of `steps`.
inline double launch_seconds(Team& team, int n, kernel::KernelId id, Isa isa,
                             const std::vector<kernel::OperandView>& operands,
                             const std::vector<graph::Immediate>& immediates,
                             const std::vector<kernel::StepInputs>& steps) {
  kernel::LaunchArgs args{.operands = operands, .immediates = immediates, .step = steps.data()};
  const kernel::KernelInfo& info = kernel::kernel_info(id);
  const uint64_t bytes =
      info.workspace_bytes == nullptr ? 64 : info.workspace_bytes(args, team.size());
  HugeMemory workspace(std::max<uint64_t>(bytes, 64));
  args.workspace = {workspace.data(), bytes};
  const kernel::KernelFn fn = kernel::kernel_function(id, isa);
  return fastest_seconds(team, n, [&] {
    team.run([&](Member& member) {
      kernel::LaunchArgs own = args;
      for (const kernel::StepInputs& step : steps) {
        own.step = &step;
        fn(own, member);
        member.barrier();
      }
    });
  });
}

}  // namespace flare::bench
