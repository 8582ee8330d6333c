// CPUID, XGETBV, /proc and /sys behind cpu.h.
#include "base/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "base/cgroup.h"
#include "base/error.h"

namespace flare {
namespace {

struct Cpuid {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Cpuid cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Cpuid r;
  if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

uint64_t xgetbv() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool has(uint32_t word, std::initializer_list<int> bits) {
  return std::ranges::all_of(bits, [word](int bit) { return (word >> bit) & 1; });
}

// Whether this process may use tiles: Linux saves their 8 KiB only for those that asked.
bool may_use_tiles(uint64_t state) {
  constexpr uint64_t kTileState = 0x60000;  // XTILECFG and XTILEDATA saved by the system
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return (state & kTileState) == kTileState &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// First number of a small file; nullopt when missing.
std::optional<uint64_t> number_in(const std::filesystem::path& path) {
  std::ifstream in(path);
  uint64_t value;
  if (in >> value) return value;
  return std::nullopt;
}

uint64_t meminfo_bytes(std::string_view key) {
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  uint64_t kib;
  while (in >> name >> kib) {
    std::getline(in, unit);
    if (name == key) return kib * 1024;
  }
  return 0;
}

// CPUs of this thread's affinity mask, which a cpuset narrows too.
std::vector<int> allowed_cpus() {
  // The kernel refuses a set smaller than its own, so ask with growing ones.
  for (int n = CPU_SETSIZE; n <= 1 << 20; n *= 2) {
    std::vector<cpu_set_t> set(static_cast<size_t>(n / CPU_SETSIZE));
    const size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) != 0) continue;
    std::vector<int> cpus;
    for (int i = 0; i < n; ++i)
      if (CPU_ISSET_S(i, bytes, set.data())) cpus.push_back(i);
    return cpus;
  }
  return {};
}

}  // namespace

std::string_view isa_name(Isa isa) {
  constexpr std::string_view names[kIsaLevels] = {"v2", "v3", "v4", "vnni", "bf16", "amx"};
  return names[static_cast<int>(isa)];
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (int i = 0; i < kIsaLevels; ++i)
    if (isa_name(static_cast<Isa>(i)) == name) return static_cast<Isa>(i);
  return std::nullopt;
}

namespace {

std::optional<Isa> find_machine_isa() {
  const Cpuid one = cpuid(1);
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
  if (!has(one.c, {0, 9, 13, 19, 20, 23})) return std::nullopt;
  if (!has(one.c, {12, 27, 28, 29})) return Isa::kV2;  // FMA, OSXSAVE, AVX, F16C
  const uint64_t state = xgetbv();
  if ((state & 0x6) != 0x6) return Isa::kV2;  // XMM and YMM saved by the system
  const Cpuid seven = cpuid(7);
  if (!has(seven.b, {3, 5, 8})) return Isa::kV2;             // BMI1, AVX2, BMI2
  if ((state & 0xe6) != 0xe6) return Isa::kV3;               // opmask and ZMM saved by the system
  if (!has(seven.b, {16, 17, 28, 30, 31})) return Isa::kV3;  // F, DQ, CD, BW, VL
  if (!has(seven.c, {11})) return Isa::kV4;                  // VNNI
  if (!has(seven.c, {1}) || !has(cpuid(7, 1).a, {5})) return Isa::kVnni;  // VBMI, BF16
  // AMX-BF16, AMX-TILE, AMX-INT8
  return has(seven.d, {22, 24, 25}) && may_use_tiles(state) ? Isa::kAmx : Isa::kBf16;
}

}  // namespace

std::optional<Isa> machine_isa() {
  static const std::optional<Isa> isa = find_machine_isa();
  return isa;
}

Isa choose_isa(std::string_view wanted) {
  const std::optional<Isa> machine = machine_isa();
  if (!machine)
    throw Error(Code::kWrongMachine, "this CPU lacks x86-64-v2 (SSE4.2, POPCNT), which is needed");
  if (wanted.empty()) return *machine;
  const std::optional<Isa> isa = isa_from_name(wanted);
  if (!isa)
    throw Error(Code::kUsage, "--isa {}: v2, v3, v4, vnni, bf16 or amx expected", quote(wanted));
  if (*isa > *machine)
    throw Error(Code::kWrongMachine, "--isa {}: this CPU goes up to {}", wanted,
                isa_name(*machine));
  return *isa;
}

std::string cpu_model_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line))
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

bool is_intel_cpu() {
  uint32_t most = 0, name[3] = {};  // the vendor's name comes in the order b, d, c
  if (!__get_cpuid(0, &most, &name[0], &name[2], &name[1])) return false;
  return std::memcmp(name, "GenuineIntel", sizeof name) == 0;
}

std::vector<int> physical_cores(std::vector<int> cpus, const std::filesystem::path& root) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  std::erase_if(cpus, [&](int cpu) {
    const auto folder = root / fmt::format("sys/devices/system/cpu/cpu{}/topology", cpu);
    const auto package = number_in(folder / "physical_package_id");
    const auto id = number_in(folder / "core_id");
    return package && id && !seen.emplace(*package, *id).second;
  });
  return cpus;
}

std::vector<int> own_cores() {
  std::vector<int> cores = physical_cores(allowed_cpus());
  if (cores.empty()) cores.push_back(0);
  return cores;
}

std::vector<int> within_quota(std::vector<int> cores, std::optional<double> cpus) {
  if (!cpus) return cores;
  const auto limit = static_cast<size_t>(std::max(1.0, std::floor(*cpus)));
  if (limit < cores.size()) cores.resize(limit);
  return cores;
}

std::vector<int> usable_cores() { return within_quota(own_cores(), cgroup_limits().cpus); }

uint64_t total_memory_bytes() { return meminfo_bytes("MemTotal:"); }

uint64_t available_memory_bytes() {
  uint64_t bytes = meminfo_bytes("MemAvailable:");
  if (const auto left = cgroup_limits().memory_left) bytes = std::min(bytes, *left);
  return bytes;
}

}  // namespace flare
