// Progress of long work: a bar on a terminal, a plain line every few seconds otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace flare {

enum class ProgressMode { kAuto, kBar, kPlain, kNone };

// One phase. Writes to stderr: phase, done/total, rate, time left. Confined to one thread.
class Progress {
 public:
  // `unit` is "B" (printed as KiB, MiB, …) or a plural noun such as "tensors".
  Progress(std::string phase, uint64_t total, std::string unit, ProgressMode mode);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(uint64_t amount);
  // Prints the last state; called by the destructor otherwise.
  void finish();

 private:
  void draw(bool last);
  const std::string phase_;
  const uint64_t total_;
  const std::string unit_;
  ProgressMode mode_;
  uint64_t done_ = 0;
  bool finished_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point drawn_;
};

// "1.5 GiB", "640 B".
std::string human_bytes(uint64_t bytes);
// "1:02:03" or "0:07".
std::string human_duration(double seconds);

}  // namespace flare
