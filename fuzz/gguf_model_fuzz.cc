// Fuzz target of what import makes of GGUF files: vocabulary, configuration, and the words and
// numbers of every parameter.
// fuzz links: flare_prepare
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/team.h"
#include "memory_file.h"
#include "prepare/import/gguf_vocabulary.h"
#include "prepare/import/import.h"
#include "prepare/recipe/encode.h"

namespace {

using namespace flare;
using namespace flare::prepare;

template <typename Work>
void attempt(Work&& work) {
  try {
    work();
  } catch (const Error&) {
  }
}

// Numbers of blocks are finite or refused, and words that are taken over decode to them.
void use(const ImportedParameter& parameter, Team& team) {
  constexpr uint64_t kMostRows = 256, kMostNumbers = 1 << 16;
  const codec::Geometry geometry = geometry_of(parameter);
  require(geometry.rows != 0 && geometry.cols != 0);
  if (geometry.rows > kMostRows || geometry.rows * geometry.cols > kMostNumbers) return;
  const auto kept = kept_format(parameter);
  std::vector<float> numbers(geometry.rows * geometry.cols);
  attempt([&] {
    read_rows(parameter, 0, geometry.rows, numbers.data());
    if (parameter.pieces.front().encoded != nullptr)
      for (const float number : numbers) require(std::isfinite(number));
  });
  if (!kept) return;
  const codec::Format& format = codec::format(*kept);
  const codec::Planes planes = format.planes(geometry);
  std::vector<std::byte> object(planes.total_bytes);
  PlaneRows rows;
  for (int p = 0; p < planes.count; ++p) rows.plane[p] = object.data() + planes.plane[p].offset;
  attempt([&] {
    encode_rows(parameter, format, 0, geometry.rows, rows, team);
    const std::vector<std::byte> tail = tail_of(parameter, format);
    std::ranges::copy(tail, object.end() - static_cast<int64_t>(tail.size()));
    if (parameter.pieces.front().encoded != nullptr)
      format.validate(object.data(), geometry, 0, geometry.rows);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file("model");
  static Team team(1);
  file.put(data, size);
  attempt([&] {
    const auto checkpoint = checkpoint::Checkpoint::open(file.path());
    if (checkpoint.gguf() == nullptr) return;
    for (const char* role : {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
                             "chat_template.jinja"})
      attempt([&] { gguf_resource(*checkpoint.gguf(), role); });
    const ImportedModel model = import_checkpoint(checkpoint, {"text", "mtp"});
    for (const ImportedComponent& component : model.components)
      for (const ImportedParameter& parameter : component.parameters) use(parameter, team);
  });
  return 0;
}
