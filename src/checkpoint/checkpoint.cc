// A checkpoint: which files it consists of, and one sorted list of their tensors.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/safetensors.h"

namespace flare::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Whether a file is there. A folder, a pipe or a link to nothing in its place is refused rather
// than taken for absent: a model without its tokenizer or template would answer otherwise.
bool is_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return true;
  if (!fs::exists(fs::symlink_status(path, error))) return false;
  throw Error(Code::kNotFound, "{}: a link to nothing or no regular file, a file expected",
              path.string());
}

fs::path folder_of(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// tensor → shard, as the index file says.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

void check_shard_name(const std::string& shard, const std::string& where) {
  const bool control = std::any_of(shard.begin(), shard.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (shard.empty() || shard == "." || control || shard.find("..") != std::string::npos ||
      shard.find_first_of("/\\") != std::string::npos)
    throw Error(Code::kDirectory, "{}: file {}, the plain name of a sibling expected", where,
                quote(shard));
}

WeightMap read_index(const fs::path& path) {
  const std::string name = path.string();
  const Json index = parse_large_json(read_text_file(path), name);
  const Json::Object& map = index.at("weight_map", name).as_object(name + ": weight_map");
  if (map.empty()) throw Error(Code::kDirectory, "{}: weight_map is empty, tensors expected", name);
  WeightMap out;
  out.reserve(map.size());
  for (const auto& [tensor, shard] : map) {
    const std::string where = name + ": weight_map: " + quote(tensor);
    out.emplace_back(tensor, shard.as_string(where));
    check_shard_name(out.back().second, where);
  }
  return out;
}

std::vector<SafetensorsFile> open_shards(const fs::path& folder, const WeightMap& weight_map) {
  std::map<std::string_view, std::string_view> first_tensor;  // of each shard, in order of name
  for (const auto& [tensor, shard] : weight_map) first_tensor.try_emplace(shard, tensor);
  // All of them first: mapping hundreds of gigabytes to find the last one missing helps nobody.
  for (const auto& [shard, tensor] : first_tensor)
    if (std::error_code ignored; !fs::is_regular_file(folder / shard, ignored))
      throw Error(Code::kFileset, "{}: shard {} is missing, tensor {} is in it",
                  (folder / kIndex).string(), quote(shard), quote(tensor));
  std::vector<SafetensorsFile> files;
  for (const auto& [shard, tensor] : first_tensor)
    files.push_back(SafetensorsFile::open(folder / shard));
  return files;
}

// All tensors of all files, sorted by name; a name in two files is refused.
std::vector<Tensor> collect(const std::vector<SafetensorsFile>& files) {
  std::vector<Tensor> all;
  for (uint32_t i = 0; i < files.size(); ++i) {
    for (const Tensor& tensor : files[i].tensors()) {
      all.push_back(tensor);
      all.back().file = i;
    }
  }
  std::sort(all.begin(), all.end(), [](const Tensor& a, const Tensor& b) {
    return std::tie(a.name, a.file) < std::tie(b.name, b.file);
  });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].name == all[i - 1].name)
      throw Error(Code::kDirectory, "{}: tensor {} is also in {}, one file expected",
                  files[all[i].file].path().string(), quote(all[i].name),
                  files[all[i - 1].file].path().filename().string());
  return all;
}

DType dtype_of(const GgufTensor& tensor, const std::string& file) {
  constexpr std::pair<std::string_view, DType> kStored[] = {
      {"F32", DType::kF32}, {"F16", DType::kF16}, {"BF16", DType::kBf16}, {"F64", DType::kF64},
      {"I8", DType::kI8},   {"I16", DType::kI16}, {"I32", DType::kI32},   {"I64", DType::kI64},
  };
  for (const auto& [name, dtype] : kStored)
    if (name == tensor.type->name) return dtype;
  if (const auto block = block_dtype(tensor.type->name)) return *block;
  throw Error(Code::kSupport,
              "{}: tensor {} is {}, which is for activations; F32, F16, BF16, Q1_0 to Q8_0, Q2_K "
              "to Q6_K, IQ1_S to IQ4_XS, MXFP4, NVFP4, PQ2_0, TQ1_0 or TQ2_0 expected",
              file, quote(tensor.name), tensor.type->name);
}

std::vector<Tensor> tensors_of(const std::vector<GgufFile>& parts) {
  std::vector<Tensor> out;
  for (uint32_t i = 0; i < parts.size(); ++i)
    for (const GgufTensor& tensor : parts[i].tensors())
      out.push_back(
          {tensor.name, dtype_of(tensor, parts[i].path().string()), tensor.shape, tensor.bytes, i});
  std::sort(out.begin(), out.end(),
            [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  return out;
}

void check_index(const Checkpoint& checkpoint, const WeightMap& weight_map) {
  const std::string index = (checkpoint.folder() / kIndex).string();
  for (const auto& [name, shard] : weight_map) {
    const Tensor* tensor = checkpoint.find(name);
    if (tensor == nullptr)
      throw Error(Code::kReference, "{}: tensor {} is not in shard {}", index, quote(name),
                  quote(shard));
    const fs::path actual = checkpoint.files()[tensor->file].path().filename();
    if (actual != shard)
      throw Error(Code::kReference, "{}: tensor {} is not in shard {} but in {}", index,
                  quote(name), quote(shard), actual.string());
  }
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw Error(Code::kNotFound, "{}: no such file or folder", path.string());
  Checkpoint checkpoint;
  checkpoint.folder_ = folder_of(path);
  WeightMap weight_map;
  if (!fs::is_directory(path, ignored)) {
    if (path.extension() != ".safetensors" && is_gguf(path)) {
      checkpoint.parts_ = open_gguf_parts(path);
      checkpoint.tensors_ = tensors_of(checkpoint.parts_);
      return checkpoint;
    }
    if (path.extension() != ".safetensors")
      throw Error(Code::kInvalid, "{}: a folder, a *.safetensors or a GGUF file expected",
                  path.string());
    checkpoint.files_.push_back(SafetensorsFile::open(path));
  } else if (is_file(path / kSingle)) {
    checkpoint.files_.push_back(SafetensorsFile::open(path / kSingle));
  } else if (is_file(path / kIndex)) {
    weight_map = read_index(path / kIndex);
    checkpoint.files_ = open_shards(path, weight_map);
  } else {
    throw Error(Code::kNotFound, "{}: neither {} nor {} is in this folder", path.string(), kSingle,
                kIndex);
  }
  checkpoint.tensors_ = collect(checkpoint.files_);
  check_index(checkpoint, weight_map);
  const fs::path config = checkpoint.folder_ / "config.json";
  if (is_file(config)) {
    checkpoint.config_ = parse_json(read_text_file(config), config.string());
    if (!checkpoint.config_.is_object())
      throw Error(Code::kDirectory, "{}: {} found, an object expected", config.string(),
                  checkpoint.config_.kind_name());
  }
  return checkpoint;
}

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const Tensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::optional<std::string> Checkpoint::asset(std::string_view name) const {
  if (!parts_.empty()) return std::nullopt;
  const fs::path path = folder_ / name;
  if (!is_file(path)) return std::nullopt;
  return read_text_file(path);
}

std::vector<fs::path> Checkpoint::paths() const {
  std::vector<fs::path> out;
  for (const SafetensorsFile& file : files_) out.push_back(file.path());
  for (const GgufFile& part : parts_) out.push_back(part.path());
  return out;
}

const MappedFile& Checkpoint::mapping(const Tensor& tensor) const {
  return parts_.empty() ? files_.at(tensor.file).mapping() : parts_.at(tensor.file).mapping();
}

void Checkpoint::release(const Tensor& tensor) const { release(tensor, 0, tensor.bytes.size()); }

void Checkpoint::release(const Tensor& tensor, uint64_t offset, uint64_t length) const {
  const MappedFile& file = mapping(tensor);
  const auto begin = static_cast<uint64_t>(tensor.bytes.data() - file.bytes().data());
  file.release(begin + offset, length);
}

}  // namespace flare::checkpoint
