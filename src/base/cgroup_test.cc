// Promises of cgroup.h on made-up trees: both versions, side by side, seen whole or from inside.
#include "base/cgroup.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_support.h"

namespace flare {
namespace {

namespace fs = std::filesystem;

class Tree {
 public:
  void write(const std::string& path, std::string_view text) {
    fs::create_directories((folder_.path() / path).parent_path());
    write_text_file(folder_.path() / path, text);
  }
  CgroupLimits limits() const { return cgroup_limits(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

constexpr std::string_view kUnified =
    "22 1 0:20 / /proc rw - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Cgroup, NothingThereDoesNotLimit) {
  Tree tree;
  EXPECT_EQ(tree.limits().cpus, std::nullopt);
  EXPECT_EQ(tree.limits().memory_left, std::nullopt);
}

TEST(Cgroup, Version2TakesTheSmallestLimitUpToTheRoot) {
  Tree tree;
  tree.write("proc/self/mountinfo", kUnified);
  tree.write("proc/self/cgroup", "0::/pod/box\n");
  tree.write("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  tree.write("sys/fs/cgroup/pod/cpu.max", "765000 100000\n");
  tree.write("sys/fs/cgroup/pod/box/memory.max", "5000\n");
  tree.write("sys/fs/cgroup/pod/box/memory.current", "1000\n");
  tree.write("sys/fs/cgroup/pod/memory.max", "max\n");
  EXPECT_DOUBLE_EQ(tree.limits().cpus.value(), 7.65);
  EXPECT_EQ(tree.limits().memory_left, 4000u);
}

TEST(Cgroup, NamespaceOfAContainerShowsItsOwnRoot) {
  Tree tree;
  tree.write("proc/self/mountinfo", kUnified);
  tree.write("proc/self/cgroup", "0::/\n");
  tree.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  tree.write("sys/fs/cgroup/memory.max", "5000\n");
  tree.write("sys/fs/cgroup/memory.current", "6000\n");
  EXPECT_DOUBLE_EQ(tree.limits().cpus.value(), 4);
  EXPECT_EQ(tree.limits().memory_left, 0u);
}

constexpr std::string_view kSplit =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(Cgroup, Version1FindsEachControllersHierarchy) {
  Tree tree;
  tree.write("proc/self/mountinfo", kSplit);
  tree.write("proc/self/cgroup", "4:memory:/a/b\n3:cpuset:/\n2:cpu,cpuacct:/c\n0::/\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "250000\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000\n");
  tree.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "500\n");
  tree.write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4000\n");
  tree.write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "400\n");
  EXPECT_DOUBLE_EQ(tree.limits().cpus.value(), 2.5);
  EXPECT_EQ(tree.limits().memory_left, 2500u);
}

TEST(Cgroup, Version1InAContainerNamesGroupsFromTheHostsRoot) {
  Tree tree;
  tree.write("proc/self/mountinfo",
             "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  tree.write("proc/self/cgroup", "2:cpu:/docker/abc\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  EXPECT_DOUBLE_EQ(tree.limits().cpus.value(), 6);
}

TEST(Cgroup, UnreadableWordsDoNotLimit) {
  Tree tree;
  tree.write("proc/self/mountinfo", std::string(kUnified) + "\nshort line\n");
  tree.write("proc/self/cgroup", "nonsense\n0::/x\n");
  tree.write("sys/fs/cgroup/x/cpu.max", "100000\n");
  tree.write("sys/fs/cgroup/cpu.max", "0 0\n");
  tree.write("sys/fs/cgroup/memory.max", "");
  EXPECT_EQ(tree.limits().cpus, std::nullopt);
  EXPECT_EQ(tree.limits().memory_left, std::nullopt);
}

}  // namespace
}  // namespace flare
