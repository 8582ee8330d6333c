// Promises of cpu.h: names of levels, refusals, and facts that agree with the kernel's own.
#include "base/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/test_support.h"

namespace flare {
namespace {

TEST(Cpu, EveryLevelHasANameThatLeadsBack) {
  const char* const names[kIsaLevels] = {"v2", "v3", "v4", "vnni", "bf16", "amx"};
  for (int i = 0; i < kIsaLevels; ++i) {
    EXPECT_EQ(isa_name(static_cast<Isa>(i)), names[i]);
    EXPECT_EQ(isa_from_name(names[i]), static_cast<Isa>(i));
  }
  for (const char* unknown : {"", "v1", "V3", "v3 ", "avx2"})
    EXPECT_EQ(isa_from_name(unknown), std::nullopt) << unknown;
}

TEST(Cpu, LevelAgreesWithTheFlagsOfProcCpuinfo) {
  std::ifstream in("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string word; in >> word && word != "flags";) {
  }
  std::string line;
  std::getline(in, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) flags.insert(word);
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no line of flags";
  const auto all = [&](std::initializer_list<const char*> wanted) {
    return std::ranges::all_of(wanted, [&](const char* name) { return flags.contains(name); });
  };
  ASSERT_TRUE(all({"sse4_2", "popcnt"}));
  Isa expected = Isa::kV2;
  if (all({"avx2", "fma", "f16c", "bmi1", "bmi2"})) {
    expected = Isa::kV3;
    if (all({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"})) {
      expected = Isa::kV4;
      if (all({"avx512_vnni"}))
        expected = all({"avx512_bf16", "avx512vbmi"}) ? Isa::kBf16 : Isa::kVnni;
      if (expected == Isa::kBf16 && all({"amx_tile", "amx_int8", "amx_bf16"})) expected = Isa::kAmx;
    }
  }
  EXPECT_EQ(machine_isa(), expected);
}

TEST(Cpu, ChoiceIsTheMachinesLevelOrALowerOne) {
  const Isa machine = machine_isa().value();
  EXPECT_EQ(choose_isa(""), machine);
  for (int i = 0; i < kIsaLevels; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (isa <= machine) {
      EXPECT_EQ(choose_isa(isa_name(isa)), isa);
      continue;
    }
    try {
      choose_isa(isa_name(isa));
      ADD_FAILURE() << isa_name(isa) << " is above this machine";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kWrongMachine);
    }
  }
  try {
    choose_isa("sse9");
    ADD_FAILURE() << "no such level";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_NE(e.message().find("'sse9'"), std::string::npos) << e.message();
  }
}

TEST(Cpu, UsableCoresAreThoseOfTheAffinityMask) {
  cpu_set_t old;
  ASSERT_EQ(sched_getaffinity(0, sizeof old, &old), 0);
  const std::vector<int> all = usable_cores();
  ASSERT_FALSE(all.empty());
  EXPECT_LE(all.size(), static_cast<size_t>(CPU_COUNT(&old)));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.back(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), std::vector<int>{all.back()});
  ASSERT_EQ(sched_setaffinity(0, sizeof old, &old), 0);
}

TEST(Cpu, PhysicalCoresAreOneHardwareThreadOfEach) {
  const TemporaryFolder root;
  const auto cpu = [&](int number, const char* package, const char* core) {
    const auto folder = root.path() / fmt::format("sys/devices/system/cpu/cpu{}/topology", number);
    std::filesystem::create_directories(folder);
    write_text_file(folder / "physical_package_id", package);
    write_text_file(folder / "core_id", core);
  };
  cpu(0, "0", "0");
  cpu(1, "0", "1");
  cpu(2, "0", "0");  // the sibling of 0
  cpu(3, "0", "1");
  cpu(4, "1", "0");  // another socket
  EXPECT_EQ(physical_cores({0, 1, 2, 3, 4}, root.path()), (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(physical_cores({2, 3}, root.path()), (std::vector<int>{2, 3}));
  EXPECT_EQ(physical_cores({1, 7, 8}, root.path()), (std::vector<int>{1, 7, 8}));  // unknown ones
}

// Case B034: a quota rounds down, and never to nothing.
TEST(Cpu, QuotaLeavesAsManyCoresAsItPaysForInFull) {
  const std::vector<int> eight = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(within_quota(eight, std::nullopt), eight);
  EXPECT_EQ(within_quota(eight, 4.0).size(), 4u);
  EXPECT_EQ(within_quota(eight, 7.65).size(), 7u);
  EXPECT_EQ(within_quota(eight, 0.5).size(), 1u);
  EXPECT_EQ(within_quota(eight, 64.0), eight);
  EXPECT_EQ(within_quota({0, 1, 2, 3}, 7.65).size(), 4u);  // a cpuset of four
}

TEST(Cpu, MemoryIsPositiveAndAvailableIsNotMoreThanAll) {
  EXPECT_GT(available_memory_bytes(), 0u);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
  EXPECT_FALSE(cpu_model_name().empty());
}

}  // namespace
}  // namespace flare
