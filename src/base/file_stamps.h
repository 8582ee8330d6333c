// Whether files are still what they were when work on them began.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <vector>

namespace flare {

// For work that reads a file for minutes: its output would be half of one file and half of another
// if somebody wrote to it meanwhile. Mappings and reads do not notice. Confined to one thread.
class FileStamps {
 public:
  FileStamps() = default;
  explicit FileStamps(const std::vector<std::filesystem::path>& paths) { add(paths); }
  // From now on the file at `path` is expected to stay; a path that names none is passed by.
  void add(const std::filesystem::path& path);
  void add(const std::vector<std::filesystem::path>& paths);
  // kRead naming the first file whose size, time of change or identity is another one.
  void check() const;

 private:
  struct Stamp {
    std::filesystem::path path;
    struct stat info;
  };
  std::vector<Stamp> stamps_;
};

}  // namespace flare
