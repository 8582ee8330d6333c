// Fuzz target of artifacts: whole entry files, and directories put into one. What opens is read as
// programs read it; a directory that is accepted has one canonical text.
// fuzz links: flare_artifact
#include <cstdint>
#include <string>
#include <string_view>

#include "artifact/directory.h"
#include "artifact/framing.h"
#include "artifact/reader.h"
#include "base/error.h"
#include "memory_file.h"

namespace {

using namespace flare::artifact;

// Payloads that a directory may ask for and get.
constexpr uint64_t kLargestPayload = 1 << 16;

void read_tensor(Reader& reader, const Object& object) {
  const TensorInfo info = reader.tensor(object.id);
  const flare::Bytes bytes = reader.mapped(object.id);
  require(bytes.size() == object.bytes);
  const auto& format = *info.format;
  if (info.geometry.rows == 0 || info.geometry.cols == 0 || info.geometry.cols > kLargestPayload)
    return;
  std::vector<float> row(info.geometry.cols);
  format.decode(bytes.data(), info.geometry, info.geometry.rows - 1, 0, info.geometry.cols,
                row.data());
}

// Everything a program may ask of an artifact that opened; each refusal is an error.
void use(Reader& reader) {
  for (const Object& object : reader.directory().objects) try {
      if (object.kind == Object::Kind::kResource)
        require(reader.read_resource(object.id).size() == object.bytes);
      else
        read_tensor(reader, object);
    } catch (const flare::Error&) {
    }
  for (const auto& [name, binding] : reader.directory().bindings) try {
      reader.matrix(name, {1, 64});
    } catch (const flare::Error&) {
    }
  try {
    verify(reader.path(), 1, false, {});
  } catch (const flare::Error&) {
  }
}

void try_file(std::string_view bytes) {
  static MemoryFile file("entry");
  file.put(bytes.data(), bytes.size());
  try {
    Reader reader = Reader::open(file.path());
    use(reader);
  } catch (const flare::Error&) {
  }
}

void try_directory(std::string_view text) {
  Directory directory;
  std::string canonical;
  try {
    directory = parse_directory(text, "fuzz", "fuzz.ninfer");
    canonical = canonical_text(directory);
  } catch (const flare::Error&) {
    return;
  }
  require(canonical_text(parse_directory(canonical, "fuzz", "fuzz.ninfer")) == canonical);
  const uint64_t payload = directory.files[0].payload_bytes;
  if (payload > kLargestPayload || text.size() > kLargestPayload) return;
  const auto header = entry_header(text.size(), ArtifactId{});
  std::string bytes(flare::as_text(header));
  bytes += text;
  bytes.resize(entry_payload_start(text.size()), '\0');
  for (uint64_t i = 0; i < payload; ++i) bytes += static_cast<char>(i % 5 == 0 ? 0 : i);
  try_file(bytes);
}

}  // namespace

// A text that begins with '{' is a directory, anything else a file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty() && bytes[0] == '{')
    try_directory(bytes);
  else
    try_file(bytes);
  return 0;
}
