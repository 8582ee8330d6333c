// Comparison of what stat(2) says.
#include "base/file_stamps.h"

#include "base/error.h"

namespace flare {

void FileStamps::add(const std::filesystem::path& path) {
  Stamp stamp{.path = path, .info = {}};
  if (::stat(path.c_str(), &stamp.info) == 0) stamps_.push_back(std::move(stamp));
}

void FileStamps::add(const std::vector<std::filesystem::path>& paths) {
  for (const auto& path : paths) add(path);
}

void FileStamps::check() const {
  for (const Stamp& stamp : stamps_) {
    struct stat now{};
    const struct stat& then = stamp.info;
    const bool same = ::stat(stamp.path.c_str(), &now) == 0 && now.st_size == then.st_size &&
                      now.st_ino == then.st_ino && now.st_dev == then.st_dev &&
                      now.st_mtim.tv_sec == then.st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == then.st_mtim.tv_nsec;
    if (same) continue;
    throw Error(Code::kRead, "{}: was written to while it was read, {} bytes then and {} now",
                stamp.path.string(), then.st_size, now.st_size)
        .set_hint("run the command again when nothing writes to the file");
  }
}

}  // namespace flare
