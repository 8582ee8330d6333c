// `ignition extract`: the bytes or the numbers of one object of an artifact.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "artifact/reader.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/file_stamps.h"
#include "ignition/commands.h"

namespace flare::app {
namespace {

struct Flags {
  std::string file, object, output;
  bool decode = false;
};

constexpr const char* kFooter = R"(
Examples:
  ignition extract nano.ninfer resource/text/chat_template.jinja --output template.jinja
  ignition extract nano.ninfer weight/000003 --output words.bin
  ignition extract nano.ninfer weight/000003 --output numbers.safetensors --decode

--decode writes fp32 numbers (int32 as they are) in C order, little-endian; a FILE.safetensors
gets a header with the object's name and shape.

Exit codes: 0 done, 2 usage, 3 file or folder missing, 4 artifact invalid or without the object,
8 output exists)";

constexpr uint64_t kChunkBytes = 8u << 20;

// A file that appears when everything is in it.
class Output {
 public:
  explicit Output(const std::string& path) : file_(set_.create(path)) {}
  void append(Bytes bytes) { set_.append(file_, bytes); }
  void publish() { set_.publish(); }

 private:
  OutputSet set_;
  size_t file_;
};

void copy(const artifact::Reader& reader, const artifact::Object& object, Progress& progress,
          Output& output) {
  std::vector<std::byte> chunk;
  for (uint64_t at = 0; at < object.bytes; at += chunk.size()) {
    check_interrupted();
    chunk.resize(std::min(kChunkBytes, object.bytes - at));
    reader.read(object.offset + at, chunk);
    output.append(chunk);
    progress.advance(chunk.size());
  }
}

// The header of a file of one tensor (safetensors: u64 length, then JSON).
void append_header(const artifact::TensorInfo& tensor, bool is_integer, Output& output) {
  Json::Array shape;
  for (uint64_t n : tensor.object->shape) shape.emplace_back(n);
  const uint64_t bytes = checked_mul(codec::element_count(tensor.object->shape), 4, "decoded size");
  Json header = Json::object();
  header.set(tensor.object->id,
             Json::object({{"dtype", is_integer ? "I32" : "F32"},
                           {"shape", std::move(shape)},
                           {"data_offsets", Json::array({uint64_t{0}, bytes})}}));
  std::string text = header.to_text();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::byte length[8];
  store_le(length, static_cast<uint64_t>(text.size()));
  output.append(length);
  output.append(as_bytes(text));
}

void decode(artifact::Reader& reader, const artifact::TensorInfo& tensor, bool with_header,
            Progress& progress, Output& output) {
  const bool is_integer = tensor.format->id == codec::FormatId::kInt32;
  if (with_header) append_header(tensor, is_integer, output);
  if (is_integer) return copy(reader, *tensor.object, progress, output);
  const codec::Geometry g = tensor.geometry;
  const Bytes words = reader.mapped(tensor.object->id);
  // A multiple of every group; most rows are shorter.
  constexpr uint64_t kValuesAtOnce = kChunkBytes / sizeof(float);
  std::vector<float> values;
  for (uint64_t row = 0; row < g.rows; ++row)
    for (uint64_t col = 0; col < g.cols; col += kValuesAtOnce) {
      const uint64_t n = std::min(kValuesAtOnce, g.cols - col), used = values.size();
      values.resize(used + n);
      tensor.format->decode(words.data(), g, row, col, n, values.data() + used);
      const bool is_last = row + 1 == g.rows && col + n == g.cols;
      if (values.size() < kValuesAtOnce && !is_last) continue;
      check_interrupted();
      output.append(std::as_bytes(std::span(values)));
      progress.advance(values.size() * sizeof(float));
      values.clear();
      release_mapped(words);
    }
}

int run(const Flags& flags, const CommonFlags& common) {
  auto reader = artifact::Reader::open(flags.file);
  const artifact::Object* object = reader.directory().find_object(flags.object);
  if (object == nullptr)
    throw Error(Code::kReference, "{}: no object {}", flags.file, quote(flags.object))
        .set_hint("`ignition inspect FILE --objects` lists the objects");
  const bool is_tensor = object->kind == artifact::Object::Kind::kTensor;
  if (flags.decode && !is_tensor)
    throw Error(Code::kUsage, "--decode: object {} is a resource, which has no numbers",
                quote(flags.object));
  if (flags.decode && reader.tensor(object->id).format->stored_only)
    throw Error(Code::kEncoding, "{}: object {} is {}, whose numbers nothing here reads",
                flags.file, quote(object->id), object->format)
        .set_hint("without --decode its bytes are extracted");
  const FileStamps stamps(reader.file_paths());
  Output output(flags.output);
  Json result = Json::object({{"object", object->id}, {"output", flags.output}});
  if (flags.decode) {
    const artifact::TensorInfo tensor = reader.tensor(object->id);
    const uint64_t elements = codec::element_count(object->shape);
    Progress progress("extract", checked_mul(elements, 4, "decoded size"), "B", common.progress);
    decode(reader, tensor, flags.output.ends_with(".safetensors"), progress, output);
    result.set("format", object->format);
    result.set("elements", elements);
  } else {
    Progress progress("extract", object->bytes, "B", common.progress);
    copy(reader, *object, progress, output);
    result.set("bytes", object->bytes);
  }
  stamps.check();
  output.publish();
  print_result(common, result, common.quiet ? "" : flags.output + "\n");
  return 0;
}

}  // namespace

std::function<int()> declare_extract(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->file, "artifact (.ninfer)")->required();
  app.add_option("OBJECT", flags->object, "name of the object")->required();
  app.add_option("--output", flags->output, "file to write")->type_name("FILE")->required();
  app.add_flag("--decode", flags->decode, "numbers instead of bytes");
  app.footer(kFooter);
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
