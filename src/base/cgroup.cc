// /proc/self/cgroup, /proc/self/mountinfo and the control files of both versions.
#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace flare {
namespace {

namespace fs = std::filesystem;

// First number of a small file; nullopt when missing, or a word such as "max".
template <typename Number>
std::optional<Number> number_in(const fs::path& path) {
  std::ifstream in(path);
  Number value;
  if (in >> value) return value;
  return std::nullopt;
}

bool lists(std::string_view words, std::string_view wanted) {
  std::istringstream in{std::string(words)};
  for (std::string word; std::getline(in, word, ',');)
    if (word == wanted) return true;
  return false;
}

// A mounted hierarchy: `shown` of its tree appears at `at`.
struct Mount {
  std::string shown;
  std::string at;
};

// The mount of one controller of version 1, or of version 2 for an empty name.
std::optional<Mount> find_mount(const fs::path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // id parent major:minor root mount-point options optional… - type source super-options
    std::istringstream words(line);
    std::string skipped, type, source, options;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.shown >> mount.at;
    while (words >> skipped && skipped != "-") {
    }
    words >> type >> source >> options;
    if (controller.empty() ? type == "cgroup2" : type == "cgroup" && lists(options, controller))
      return mount;
  }
  return std::nullopt;
}

// This process's group in that hierarchy, as a path of its tree.
std::optional<std::string> find_group(const fs::path& root, std::string_view controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : lists(names, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// The folders of this process's group and of all above it that are to be seen, own one first.
std::vector<fs::path> group_folders(const fs::path& root, std::string_view controller) {
  const auto mount = find_mount(root, controller);
  const auto group = find_group(root, controller);
  if (!mount || !group) return {};
  const fs::path top = root / fs::path(mount->at).relative_path();
  std::string below = *group;
  if (mount->shown != "/") {
    // Inside a container the group is named from the host's root, or from a root of its own.
    const bool inside = below == mount->shown || below.starts_with(mount->shown + "/");
    below = inside ? below.substr(mount->shown.size()) : "";
  }
  std::vector<fs::path> folders;
  for (fs::path part = fs::path(below).relative_path(); !part.empty(); part = part.parent_path())
    folders.push_back(top / part);
  folders.push_back(top);
  return folders;
}

template <typename Number>
void lower_to(std::optional<Number>& limit, std::optional<Number> found) {
  if (found && (!limit || *found < *limit)) limit = found;
}

std::optional<double> quotient(std::optional<double> quota, std::optional<double> period) {
  // Version 1 writes −1 for no quota.
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<uint64_t> left(std::optional<uint64_t> limit, std::optional<uint64_t> used) {
  if (!limit) return std::nullopt;
  return *limit - std::min(*limit, used.value_or(0));
}

}  // namespace

CgroupLimits cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  for (const fs::path& folder : group_folders(root, "")) {
    std::ifstream in(folder / "cpu.max");
    double quota, period;
    if (in >> quota >> period) lower_to(limits.cpus, quotient(quota, period));
    lower_to(limits.memory_left, left(number_in<uint64_t>(folder / "memory.max"),
                                      number_in<uint64_t>(folder / "memory.current")));
  }
  for (const fs::path& folder : group_folders(root, "cpu"))
    lower_to(limits.cpus, quotient(number_in<double>(folder / "cpu.cfs_quota_us"),
                                   number_in<double>(folder / "cpu.cfs_period_us")));
  // Version 1 writes "no limit" as the largest whole page.
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  for (const fs::path& folder : group_folders(root, "memory")) {
    const auto limit = number_in<uint64_t>(folder / "memory.limit_in_bytes");
    if (limit && *limit >= kNoLimit) continue;
    lower_to(limits.memory_left,
             left(limit, number_in<uint64_t>(folder / "memory.usage_in_bytes")));
  }
  return limits;
}

}  // namespace flare
