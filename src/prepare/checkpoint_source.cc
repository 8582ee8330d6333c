// Binding of checkpoint tensors, in place or encoded.
#include "prepare/checkpoint_source.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "base/one_line.h"
#include "checkpoint/gguf_parts.h"
#include "codec/nvfp4.h"
#include "prepare/import/gguf_vocabulary.h"
#include "prepare/import/import.h"
#include "prepare/import/tensor_pool.h"
#include "prepare/recipe/encode.h"
#include "prepare/recipe/encode_nvfp4.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;

// `chat_template` of tokenizer_config.json: one text, or a list of named ones.
std::optional<std::string> template_in_config(const std::string& text, const std::string& where) {
  const Json config = parse_large_json(text, where);
  const Json* value = config.find("chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->as_string();
  if (!value->is_array()) return std::nullopt;
  for (const Json& item : value->as_array()) {
    const Json* name = item.find("name");
    const Json* body = item.find("template");
    if (name != nullptr && name->is_string() && name->as_string() == "default" && body != nullptr &&
        body->is_string())
      return body->as_string();
  }
  return std::nullopt;
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error) || path.extension() == ".safetensors" ||
      path.extension() == ".gguf")
    return true;
  return checkpoint::is_gguf(path);
}

std::string checkpoint_name(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(path, error);
  if (error) whole = path;
  if (!fs::is_directory(whole, error)) {
    if (whole.extension() == ".gguf") return one_line(checkpoint::gguf_model_name(whole));
    if (whole.filename() != "model.safetensors") return one_line(whole.stem().string());
    whole = whole.parent_path();
  }
  const std::string name = one_line(whole.filename().string());
  return name.empty() ? "model" : name;
}

std::optional<std::string> checkpoint_resource(const checkpoint::Checkpoint& checkpoint,
                                               std::string_view role) {
  if (const checkpoint::GgufFile* const gguf = checkpoint.gguf()) {
    auto text = gguf_resource(*gguf, role);
    gguf->release_metadata();
    return text;
  }
  if (auto text = checkpoint.asset(role)) return text;
  if (role != "chat_template.jinja") return std::nullopt;
  const auto config = checkpoint.asset("tokenizer_config.json");
  if (!config) return std::nullopt;
  return template_in_config(*config, (checkpoint.folder() / "tokenizer_config.json").string());
}

CheckpointSource::CheckpointSource(const fs::path& path, std::string_view recipe_name, int threads)
    : path_(path),
      name_(checkpoint_name(path)),
      checkpoint_(checkpoint::Checkpoint::open(path)),
      team_(std::max(1, threads)) {
  const Recipe& recipe = find_recipe(recipe_name.empty() ? "keep" : recipe_name);
  model_ = import_checkpoint(checkpoint_);
  for (const ImportedComponent& component : model_.components)
    for (const ImportedParameter& parameter : component.parameters)
      entries_.emplace(parameter.name,
                       Entry{&parameter, choose_format(recipe, component, parameter)});
}

const CheckpointSource::Entry& CheckpointSource::find(std::string_view parameter) const {
  const auto it = entries_.find(parameter);
  if (it == entries_.end())
    throw Error(Code::kBinding, "{}: parameter '{}' is missing", path_.string(), parameter);
  return it->second;
}

const Json& CheckpointSource::config(std::string_view component) const {
  const ImportedComponent* found = model_.find(component);
  if (found == nullptr)
    throw Error(Code::kComponent, "{}: component '{}' is not in this checkpoint", path_.string(),
                component);
  return found->config;
}

bool CheckpointSource::has(std::string_view parameter) const {
  return entries_.find(parameter) != entries_.end();
}

std::vector<std::string> CheckpointSource::parameters(std::string_view component) const {
  std::vector<std::string> names;
  if (const ImportedComponent* found = model_.find(component))
    for (const ImportedParameter& parameter : found->parameters) names.push_back(parameter.name);
  return names;
}

bool CheckpointSource::in_place(const Entry& entry) const {
  const ImportedParameter& parameter = *entry.parameter;
  // Kernels take rows by the dozen: where the source has them one here and one there, a copy in
  // order is worth its memory.
  constexpr uint64_t kShortPiece = 16;
  const size_t n = parameter.pieces.size();
  if (n > 1 && geometry_of(parameter).rows / n < kShortPiece) return false;
  const bool in_order = parameter.columns.empty() ||
                        keeps_source_columns(parameter, codec::format(entry.choice.format));
  return parameter.transform == Transform::kNone && in_order &&
         std::ranges::all_of(parameter.pieces, [&](const Piece& piece) {
           return piece.encoded == nullptr &&
                  direct_format_of(piece.tensor->dtype) == entry.choice.format;
         });
}

CheckpointSource::Encoded& CheckpointSource::encoded(const Entry& entry) {
  const ImportedParameter& parameter = *entry.parameter;
  Encoded& encoded = encoded_[parameter.tied_to.empty() ? parameter.name : parameter.tied_to];
  if (encoded.entry == nullptr) {
    const codec::Format& format = codec::format(entry.choice.format);
    encoded.entry = &entry;
    encoded.memory = Buffer(format.planes(geometry_of(parameter)).total_bytes, parameter.name);
  }
  return encoded;
}

// Block by block, giving back the source's pages on the way: they may be four times what they
// become.
void CheckpointSource::fill(Encoded& encoded) {
  if (encoded.filled) return;
  const ImportedParameter& parameter = *encoded.entry->parameter;
  const codec::Format& format = codec::format(encoded.entry->choice.format);
  const codec::Geometry geometry = geometry_of(parameter);
  const codec::Planes planes = format.planes(geometry);  // the gaps between them stay zero
  const auto for_blocks = [&](auto&& body) {
    constexpr uint64_t kBlockValues = uint64_t{1} << 21;
    const uint64_t step = row_step(format);
    const uint64_t block =
        std::max<uint64_t>(1, kBlockValues / std::max<uint64_t>(1, geometry.cols) / step) * step;
    for (uint64_t row = 0; row < geometry.rows; row += block) {
      const uint64_t end = std::min(row + block, geometry.rows);
      body(row, end - row);
      release_rows(checkpoint_, parameter, row, end);
    }
  };
  if (format.id == codec::FormatId::kNvfp4 && !copies_words(parameter, format)) {
    float largest = 0;
    for_blocks([&](uint64_t row, uint64_t n) {
      largest = std::max(largest, largest_magnitude(parameter, row, n, team_));
    });
    const float divisor = codec::nvfp4_divisor(largest);
    for_blocks([&](uint64_t row, uint64_t n) {
      encode_nvfp4_rows(parameter, row, n, divisor, geometry, row, encoded.memory.data(), team_);
    });
    codec::nvfp4_set_divisors(geometry, &divisor, encoded.memory.data());
  } else {
    for_blocks([&](uint64_t row, uint64_t n) {
      PlaneRows rows;
      for (int p = 0; p < planes.count; ++p)
        rows.plane[p] =
            encoded.memory.data() + planes.plane[p].offset + row * planes.plane[p].row_bytes;
      encode_rows(parameter, format, row, n, rows, team_,
                  {.encoder = encoded.entry->choice.encoder});
    });
  }
  const std::vector<std::byte> tail = tail_of(parameter, format);
  std::ranges::copy(tail, encoded.memory.data() + planes.total_bytes - tail.size());
  release_sources(checkpoint_, parameter);
  encoded.filled = true;
}

void CheckpointSource::fill() {
  for (auto& [owner, encoded] : encoded_) fill(encoded);
}

codec::Matrix CheckpointSource::matrix(std::string_view name, codec::Geometry geometry) {
  const Entry& entry = find(name);
  const ImportedParameter& parameter = *entry.parameter;
  if (geometry_of(parameter) != geometry)
    throw Error(Code::kBinding, "{}: parameter '{}' has shape {}, expected {}", path_.string(),
                name, shape_text(parameter.shape), shape_text({geometry.rows, geometry.cols}));
  const codec::Format& format = codec::format(entry.choice.format);
  codec::Matrix matrix;
  matrix.cols = geometry.cols;
  if (!in_place(entry)) {
    codec::append_segment(matrix, {encoded(entry).memory.data(), geometry, format.id, format.layout,
                                   0, geometry.rows});
    return matrix;
  }
  for (const Piece& piece : parameter.pieces)
    codec::append_segment(
        matrix, {piece.tensor->bytes.data(), codec::geometry_of(piece.tensor->shape), format.id,
                 format.layout, piece.row_begin, piece.row_end});
  return matrix;
}

std::vector<float> CheckpointSource::values(std::string_view name, uint64_t n) {
  const Entry& entry = find(name);
  const ImportedParameter& parameter = *entry.parameter;
  if (codec::element_count(parameter.shape) != n)
    throw Error(Code::kBinding, "{}: parameter '{}' has shape {}, expected {} elements",
                path_.string(), name, shape_text(parameter.shape), n);
  const codec::Matrix stored = matrix(name, geometry_of(parameter));
  if (!in_place(entry)) fill(encoded(entry));
  std::vector<float> out(n);
  for (uint64_t row = 0; row < stored.rows; ++row)
    codec::decode_row(stored, row, out.data() + row * stored.cols);
  return out;
}

const CheckpointSource::Entry& CheckpointSource::find_use(std::string_view name,
                                                          std::string_view input) const {
  const Entry& entry = find(name);
  if (std::ranges::find(entry.parameter->inputs, input) == entry.parameter->inputs.end())
    throw Error(Code::kBinding, "{}: parameter '{}' has no use at input '{}'", path_.string(), name,
                input);
  return entry;
}

graph::Policy CheckpointSource::policy(std::string_view name, std::string_view input) const {
  return find_use(name, input).choice.policy;
}

std::vector<int32_t> CheckpointSource::input_columns(std::string_view name,
                                                     std::string_view input) {
  const Entry& entry = find_use(name, input);
  return prepare::input_columns(*entry.parameter, codec::format(entry.choice.format));
}

void CheckpointSource::release(Bytes part) { release_mapped(part); }

std::optional<std::string> CheckpointSource::resource(std::string_view role) const {
  return checkpoint_resource(checkpoint_, role);
}

}  // namespace flare::prepare
