// Fuzz target of safetensors: whole files, headers with as much data as they describe, and the
// index of a checkpoint in shards.
// fuzz links: flare_checkpoint
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "memory_file.h"

namespace {

using namespace flare::checkpoint;
namespace fs = std::filesystem;

// Touches the ends of every tensor: what a reader hands out lies in the file.
void use(const SafetensorsFile& file) {
  uint64_t sum = 0;
  for (const Tensor& tensor : file.tensors()) {
    require(!dtype_name(tensor.dtype).empty());
    if (!tensor.bytes.empty())
      sum +=
          static_cast<uint64_t>(tensor.bytes.front()) + static_cast<uint64_t>(tensor.bytes.back());
    require(tensor.bytes.size() <= file.mapping().bytes().size());
  }
  require(sum <= 2 * 255 * file.tensors().size());
}

void try_file(std::string_view bytes) {
  static MemoryFile file("tensors");
  file.put(bytes.data(), bytes.size());
  try {
    use(SafetensorsFile::open(file.path()));
  } catch (const flare::Error&) {
  }
}

// `text` as the header of a file with n bytes of data.
void try_header(std::string_view text, size_t n) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i));
  bytes += text;
  bytes.append(n, 'x');
  try_file(bytes);
}

// A folder with two shards, whose index is what is tried.
class Shards {
 public:
  Shards() {
    std::string name = (fs::temp_directory_path() / "flare-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    for (const char* shard : {"a", "b"})
      write_safetensors(
          folder_ / (std::string(shard) + ".safetensors"),
          {{std::string(shard) + ".weight", DType::kU8, {4}, flare::as_bytes("1234")}}, {});
  }
  ~Shards() { fs::remove_all(folder_); }

  void try_index(std::string_view text) {
    std::ofstream(folder_ / "model.safetensors.index.json", std::ios::binary) << text;
    try {
      const Checkpoint checkpoint = Checkpoint::open(folder_);
      for (const SafetensorsFile& file : checkpoint.files()) {
        use(file);
        require(file.path().parent_path() == folder_);
      }
      for (const Tensor& tensor : checkpoint.tensors())
        require(checkpoint.find(tensor.name) == &tensor);
    } catch (const flare::Error&) {
    }
  }

 private:
  fs::path folder_;
};

}  // namespace

// 'H' and a number of bytes: a header with so much data. 'I': an index. Anything else: a file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size >= 2 && bytes[0] == 'H') {
    try_header(bytes.substr(2), data[1]);
  } else if (size >= 1 && bytes[0] == 'I') {
    static Shards shards;
    shards.try_index(bytes.substr(1));
  } else {
    try_file(bytes);
  }
  return 0;
}
