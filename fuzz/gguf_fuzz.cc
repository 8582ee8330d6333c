// Fuzz target of GGUF files: what opens hands out values and tensors that lie in the file.
// fuzz links: flare_checkpoint
#include <cstdint>
#include <string>

#include "base/error.h"
#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"
#include "memory_file.h"

namespace {

using namespace flare::checkpoint;

template <typename Work>
void attempt(Work&& work) {
  try {
    work();
  } catch (const flare::Error&) {
  }
}

// Every accessor either decodes the whole value or refuses it by name.
void read_value(const GgufValue& value) {
  attempt([&] { value.as_u64(); });
  attempt([&] { value.as_double(); });
  attempt([&] { value.as_bool(); });
  attempt([&] { value.as_string(); });
  attempt([&] { require(value.u64s().size() == value.size()); });
  attempt([&] { require(value.doubles().size() == value.size()); });
  attempt([&] { require(value.bools().size() == value.size()); });
  attempt([&] { require(value.strings().size() == value.size()); });
}

void use(const GgufFile& file) {
  for (const std::string_view key : file.keys()) {
    const auto value = file.find(key);
    require(value.has_value());
    read_value(*value);
  }
  uint64_t sum = 0, most = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.bytes.empty()) continue;
    sum += static_cast<uint64_t>(tensor.bytes.front()) + static_cast<uint64_t>(tensor.bytes.back());
    most += 2 * 255;
    require(tensor.bytes.size() <= file.mapping().bytes().size());
  }
  require(sum <= most);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file("gguf");
  file.put(data, size);
  attempt([&] { use(GgufFile::open(file.path())); });
  attempt([&] {
    const Checkpoint checkpoint = Checkpoint::open(file.path());
    for (const Tensor& tensor : checkpoint.tensors())
      require(checkpoint.find(tensor.name) == &tensor);
  });
  return 0;
}
