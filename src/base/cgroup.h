// What the control groups of this process allow it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace flare {

struct CgroupLimits {
  std::optional<double> cpus;           // quota ÷ period, the smallest on the way to the root
  std::optional<uint64_t> memory_left;  // limit less use, bytes, likewise
};

// Reads versions 1 and 2, also side by side, through the mount points of /proc/self/mountinfo: a
// container may see a part of the tree only. What cannot be read does not limit. `root` stands for
// "/" (tests).
CgroupLimits cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace flare
