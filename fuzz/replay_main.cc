// Runs a fuzz target over files: the corpus and the found cases, as tests do.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::printf("%s: %zu bytes\n", path.filename().c_str(), bytes.size());
  std::fflush(stdout);  // the last line names the file if the target crashes
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

// usage: fuzz_NAME FOLDER…      missing folders count as empty, no file at all is an error
int main(int argc, char** argv) try {
  size_t n_files = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      replay(entry.path());
      ++n_files;
    }
  }
  std::printf("%zu files\n", n_files);
  return n_files > 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
