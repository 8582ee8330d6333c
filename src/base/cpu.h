// Facts about this machine's CPU: instruction-set levels, usable cores, memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flare {

// Levels in ascending order; each includes the ones before. A kernel table has one column per
// level.
enum class Isa : uint8_t {
  kV2,    // x86-64-v2: SSE4.2, POPCNT
  kV3,    // AVX2, FMA, F16C, BMI2
  kV4,    // AVX-512 F, BW, DQ, VL, CD
  kVnni,  // and AVX512-VNNI
  kBf16,  // and AVX512-BF16, AVX512-VBMI
  kAmx,   // and AMX-INT8, AMX-BF16
};
inline constexpr int kIsaLevels = 6;

// "v2", "v3", "v4", "vnni", "bf16", "amx": the values of --isa.
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// Highest level of this CPU and operating system (CPUID and XGETBV). nullopt below x86-64-v2. The
// first call asks Linux for the process's use of tile registers, which it gives only then.
std::optional<Isa> machine_isa();
// machine_isa() lowered to `wanted`. Errors: kWrongMachine if wanted is above the machine, or the
// machine is below x86-64-v2; kUsage for an unknown name. Empty means the machine's own level.
Isa choose_isa(std::string_view wanted);

std::string cpu_model_name();
// Whether Intel made this CPU: what some kernels choose by where levels do not tell the speed.
bool is_intel_cpu();
// One hardware thread of each physical core among `cpus`, the first: two of one core share its
// arithmetic units, so the second adds nothing. Those without topology files count as cores. `root`
// stands for "/" (tests).
std::vector<int> physical_cores(std::vector<int> cpus, const std::filesystem::path& root = "/");
// The physical cores of the calling thread's affinity mask; at least one.
std::vector<int> own_cores();
// The first ⌊cpus⌋ of the cores, at least one; all without a quota.
std::vector<int> within_quota(std::vector<int> cores, std::optional<double> cpus);
// own_cores() within the CPU quota of the control groups: how many threads serve this process.
std::vector<int> usable_cores();
// MemAvailable capped by what the control groups leave, bytes.
uint64_t available_memory_bytes();
uint64_t total_memory_bytes();

}  // namespace flare
