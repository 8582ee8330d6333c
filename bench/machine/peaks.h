// Peaks of this machine, measured: what kernel benchmarks give their per cents of.
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/team.h"

namespace flare::bench {

// Bytes per second of reading `memory` once, split over the team.
double read_bandwidth(Team& team, Bytes memory);

enum class Arithmetic {
  kInt8,  // vpdpbusd from kVnni on, else pmaddubsw and an addition in 16 bits
  kBf16,  // vdpbf16ps at kBf16, else as kF32
  kF32,   // multiply and add (FMA from v3 on)
};
// Operations per second (a multiplication and an addition are two) out of registers.
double peak_operations(Team& team, Isa isa, Arithmetic arithmetic);

// Seconds of the fastest of `n` runs: CPU time for a team of one, so that other users of the
// machine count little; wall time for larger teams, which wait for each other.
double fastest_seconds(const Team& team, int n, const std::function<void()>& run);

}  // namespace flare::bench
