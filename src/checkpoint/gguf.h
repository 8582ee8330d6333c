// GGUF files, versions 2 and 3: metadata and tensors in place, mapped and never copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"

namespace flare::checkpoint {

// A tensor type of ggml: `values` neighbours of a row are stored in `bytes` bytes.
struct GgmlType {
  uint32_t id;
  std::string_view name;  // e.g. "Q4_K"
  uint32_t values;
  uint32_t bytes;
};
// nullptr for an id that is not known.
const GgmlType* find_ggml_type(uint32_t id);

enum class GgufKind : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};
std::string_view gguf_kind_name(GgufKind kind);

// One metadata value, decoded when it is asked for. The accessors throw kDirectory naming file,
// key, value and expectation. Points into the file, which must outlive it.
class GgufValue {
 public:
  GgufValue(std::string where, GgufKind kind, GgufKind element, uint64_t count, Bytes bytes)
      : where_(std::move(where)), kind_(kind), element_(element), count_(count), bytes_(bytes) {}

  const std::string& where() const { return where_; }  // "FILE: key 'KEY'"
  GgufKind kind() const { return kind_; }
  bool is_array() const { return kind_ == GgufKind::kArray; }
  GgufKind element_kind() const { return element_; }  // of an array
  uint64_t size() const { return count_; }            // of an array; 1 otherwise

  uint64_t as_u64() const;   // any integer that is not negative
  double as_double() const;  // any number
  bool as_bool() const;
  std::string_view as_string() const;  // any bytes
  // Arrays of these.
  std::vector<uint64_t> u64s() const;
  std::vector<double> doubles() const;
  std::vector<bool> bools() const;
  std::vector<std::string_view> strings() const;

 private:
  [[noreturn]] void wrong(std::string_view expected) const;
  void expect_array(bool right, std::string_view expected) const;
  std::string where_;
  GgufKind kind_;
  GgufKind element_;
  uint64_t count_;
  Bytes bytes_;  // of the value, or of the array's elements
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  std::vector<uint64_t> shape;  // slowest dimension first, against the order in the file
  Bytes bytes;
};

// By the file's name or its first bytes.
bool is_gguf(const std::filesystem::path& path);

// Immutable after opening. Errors name file and field; nothing is allocated that the file's real
// size does not bound. kFraming (magic, version, byte order, early end of the header), kDirectory
// (keys, kinds, names, dimensions, alignment), kRange (tensors that overlap, are misaligned or
// leave the file).
class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return file_.path(); }
  const MappedFile& mapping() const { return file_; }
  uint32_t version() const { return version_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in order of offset

  std::vector<std::string_view> keys() const;  // in the file's order
  std::optional<GgufValue> find(std::string_view key) const;
  GgufValue at(std::string_view key) const;  // kDirectory if it is absent
  // Gives back the pages of what stands before the tensors, most of them a vocabulary's; they are
  // read again when asked for.
  void release_metadata() const;

 private:
  struct Entry {
    std::string_view key;
    GgufKind kind, element;
    uint64_t count;
    Bytes bytes;
  };
  class Reader;
  explicit GgufFile(MappedFile file) : file_(std::move(file)) {}
  GgufValue value(const Entry& entry) const;

  MappedFile file_;
  uint32_t version_ = 0;
  std::vector<Entry> entries_;     // in the file's order
  std::vector<uint32_t> by_name_;  // indices into entries_, sorted by key
  std::vector<GgufTensor> tensors_;
};

}  // namespace flare::checkpoint
