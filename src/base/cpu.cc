// CPUID, XGETBV, /proc and cgroup files behind cpu.h.
#include "base/cpu.h"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

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

// First number of a small file; nullopt when missing or "max".
std::optional<uint64_t> number_in(const std::string& path) {
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

// The cgroup v2 folder of this process, from its own up to the root.
std::vector<std::string> cgroup_folders() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with("0::")) continue;
    std::vector<std::string> out;
    std::string path = line.substr(3);
    while (!path.empty() && path != "/") {
      out.push_back("/sys/fs/cgroup" + path);
      path.erase(path.rfind('/'));
    }
    out.push_back("/sys/fs/cgroup");
    return out;
  }
  return {};
}

}  // namespace

std::string_view isa_name(Isa isa) {
  constexpr std::string_view names[kIsaLevels] = {"v2", "v3", "v4", "vnni", "bf16"};
  return names[static_cast<int>(isa)];
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (int i = 0; i < kIsaLevels; ++i)
    if (isa_name(static_cast<Isa>(i)) == name) return static_cast<Isa>(i);
  return std::nullopt;
}

std::optional<Isa> machine_isa() {
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
  if (!has(cpuid(7, 1).a, {5})) return Isa::kVnni;           // BF16
  return Isa::kBf16;
}

Isa choose_isa(std::string_view wanted) {
  const std::optional<Isa> machine = machine_isa();
  if (!machine)
    throw Error(Code::kWrongMachine, "this CPU lacks x86-64-v2 (SSE4.2, POPCNT), which is needed");
  if (wanted.empty()) return *machine;
  const std::optional<Isa> isa = isa_from_name(wanted);
  if (!isa) throw Error(Code::kUsage, "--isa {}: v2, v3, v4, vnni or bf16 expected", quote(wanted));
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

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) cores.push_back(i);
  if (cores.empty()) cores.push_back(0);
  // Two hardware threads of one core share its arithmetic units: the second adds nothing.
  std::set<std::pair<uint64_t, uint64_t>> seen;
  std::erase_if(cores, [&seen](int core) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", core);
    const auto package = number_in(folder + "physical_package_id");
    const auto id = number_in(folder + "core_id");
    return package && id && !seen.emplace(*package, *id).second;
  });
  for (const std::string& folder : cgroup_folders()) {
    std::ifstream in(folder + "/cpu.max");
    double quota, period;
    if (in >> quota >> period && period > 0) {
      const auto limit = static_cast<size_t>(std::max(1.0, std::floor(quota / period)));
      if (limit < cores.size()) cores.resize(limit);
    }
  }
  return cores;
}

uint64_t total_memory_bytes() { return meminfo_bytes("MemTotal:"); }

uint64_t available_memory_bytes() {
  uint64_t bytes = meminfo_bytes("MemAvailable:");
  for (const std::string& folder : cgroup_folders()) {
    const auto limit = number_in(folder + "/memory.max");
    const auto used = number_in(folder + "/memory.current");
    if (limit) bytes = std::min(bytes, *limit > used.value_or(0) ? *limit - used.value_or(0) : 0);
  }
  return bytes;
}

}  // namespace flare
