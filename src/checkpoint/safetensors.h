// Checkpoints: safetensors, one file or shards named by an index, or GGUF, one file or its parts;
// mapped and never copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json/json.h"
#include "checkpoint/gguf.h"

namespace flare::checkpoint {

// Every dtype name of safetensors; those without a codec are parsed and sized all the same. Then
// ggml's blocks, which GGUF files alone hold.
enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kQ4_0,
  kQ8_0,
  kQ4K,
  kQ6K,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_0,
  kQ2K,
  kQ3K,
  kQ5K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
  kNvfp4,
  kPq2_0,
  kTq1_0,
  kTq2_0,
  kQ1_0,
  kIq2Xxs,
  kIq2Xs,
  kIq2S,
  kIq3Xxs,
  kIq3S,
  kIq1S,
  kIq1M,
};
// Whether it is one of ggml's blocks.
bool is_block(DType dtype);
// The block type of this name, e.g. "Q4_K"; nullopt: none of the above.
std::optional<DType> block_dtype(std::string_view name);
// As written in files, e.g. "BF16".
std::string_view dtype_name(DType dtype);
// Bits of one element (4 and 6 for the packed ones, 0 for blocks).
int dtype_bits(DType dtype);

struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // [] is a scalar; a dimension may be 0
  Bytes bytes;                  // mapped
  uint32_t file = 0;            // index into Checkpoint::files() or gguf_parts()
};

// One file. Errors, all naming file and field, before any allocation beyond the header's real size:
// kFraming (length, header size), kDirectory (JSON, names, dtype, shape), kRange (offsets that
// overlap, leave holes, leave the file, or do not match dtype × shape).
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // in order of offset
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }
  const MappedFile& mapping() const { return file_; }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

// A folder with config.json and model.safetensors, or model.safetensors.index.json and its shards;
// or one *.safetensors file (its folder gives the config and assets); or one GGUF file
// or part of several (gguf_parts.h), whose tensors keep their GGUF names and whose config and
// assets are metadata. Index entries may only name siblings (no '/', '\', '..'). Every tensor of
// the index must be in the shard it names, and no tensor may be in two. Immutable after opening.
class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& path);

  const std::filesystem::path& folder() const { return folder_; }
  const Json& config() const { return config_; }  // config.json; null if there is none
  const std::vector<SafetensorsFile>& files() const { return files_; }  // empty for GGUF
  // The one with the metadata; null for safetensors.
  const GgufFile* gguf() const { return parts_.empty() ? nullptr : &parts_.front(); }
  const std::vector<GgufFile>& gguf_parts() const { return parts_; }
  // Of its weights, whichever kind they are.
  std::vector<std::filesystem::path> paths() const;
  // The file that holds a tensor of this checkpoint.
  const MappedFile& mapping(const Tensor& tensor) const;
  const std::vector<Tensor>& tensors() const { return tensors_; }  // sorted by name
  const Tensor* find(std::string_view name) const;
  // Text of a sibling file such as "tokenizer.json"; nullopt if it does not exist.
  std::optional<std::string> asset(std::string_view name) const;
  // Tells the kernel that pages of a tensor are no longer needed: all, or those of
  // [offset, offset+length) of its bytes.
  void release(const Tensor& tensor) const;
  void release(const Tensor& tensor, uint64_t offset, uint64_t length) const;

 private:
  std::filesystem::path folder_;
  Json config_;
  std::vector<SafetensorsFile> files_;
  std::vector<GgufFile> parts_;
  std::vector<Tensor> tensors_;
};

// Writes a single-file checkpoint through an OutputSet (`ignition logits` output, tests).
struct NamedTensor {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;
  Bytes bytes;
};
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata,
                       bool force = false);

}  // namespace flare::checkpoint
