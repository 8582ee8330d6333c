// Peaks of this machine, measured: what every benchmark gives its per cents of.
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/json/json.h"
#include "base/team.h"

namespace flare::bench {

// Zeroed anonymous memory in huge pages where the system gives them, every page touched. Errors:
// kDoesNotFit.
class HugeMemory {
 public:
  explicit HugeMemory(uint64_t bytes);
  ~HugeMemory();
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  std::byte* data() const { return data_; }
  uint64_t size() const { return bytes_; }
  Bytes bytes() const { return {data_, bytes_}; }

 private:
  std::byte* data_;
  uint64_t bytes_;
};

// A way of reading memory: every member takes pieces of 2 MiB, reads `streams` (1, 2 or 4) equal
// parts of one in turn and asks for each part's lines `ahead` bytes before it uses them (0: never).
struct ReadLoop {
  int streams;
  int64_t ahead;
};
// Those that were the fastest somewhere: prefetchers of one CPU run ahead of a single stream as
// far as the memory allows, those of another stop at 4 KiB pages.
inline constexpr ReadLoop kReadLoops[] = {{1, 0}, {1, 2048}, {2, 1024}, {4, 512}};

// Bytes of memory whose reading tells what DRAM gives: twice the last cache's, 256 MiB at least
// and 1 GiB at most.
uint64_t read_memory_bytes();
// Bytes per second of reading `memory` once, dealt out over the team, by one loop or by the fastest
// of kReadLoops. `memory` is larger than the caches.
double read_bandwidth(Team& team, Bytes memory, const ReadLoop& loop);
double read_bandwidth(Team& team, Bytes memory);

enum class Arithmetic {
  // 8-bit weights by 8-bit activations into 32 bits: tdpbssd at kAmx, vpdpbusd from kVnni on, else
  // pmaddubsw, pmaddwd and paddd for each vector of weights.
  kInt8,
  // 4-bit weights by 8-bit activations: as kInt8 from kVnni on, else pmaddubsw and paddw, with one
  // pmaddwd and paddd for eight vectors (more would not fit into 16 bits).
  kInt8By4,
  kBf16,  // tdpbf16ps at kAmx, vdpbf16ps at kBf16, else as kF32
  kF32,   // multiply and add (FMA from v3 on)
};
inline constexpr int kArithmetics = 4;
std::string_view arithmetic_name(Arithmetic arithmetic);  // "int8", "int8·4bit", "bf16", "f32"
// Operations per second (a multiplication and an addition are two) out of registers.
double peak_operations(Team& team, Isa isa, Arithmetic arithmetic);

// Seconds of one barrier of a running team: the cost of a launch of a replayed plan.
double barrier_seconds(Team& team);
// Seconds of Team::run with nothing to do, while the workers still spin.
double run_seconds(Team& team);

// The clock of benchmarks, in seconds: CPU time of the calling thread for a team of one, so that
// other users of the machine count little; wall time for larger teams, which wait for each other.
double team_clock(int n_members);
// Seconds of the fastest of `n` runs by that clock.
double fastest_seconds(const Team& team, int n, const std::function<void()>& run);

// Peaks of one team and level. A benchmark measures them several times over its run and keeps the
// best of each: what the machine can do, whoever else used it meanwhile.
struct Peaks {
  double read_bytes = 0;                 // per second
  double operations[kArithmetics] = {};  // per second
  double of(Arithmetic a) const { return operations[static_cast<int>(a)]; }
};
Peaks measure_peaks(Team& team, Isa isa, Bytes memory);
Peaks best_of(const Peaks& a, const Peaks& b);
// "peaks: read 30.1 GB/s, int8 930 GOP/s, …" and the same as an object of plain numbers.
std::string peaks_text(const Peaks& peaks);
Json peaks_json(const Peaks& peaks);

}  // namespace flare::bench
