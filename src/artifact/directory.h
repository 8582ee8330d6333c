// The directory of a `.ninfer` v3 artifact as plain data (spec/artifact.md §3–§5, §9–§12), with its
// strict reader from JSON and its canonical text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/json/json.h"
#include "codec/format.h"

namespace flare::artifact {

using ArtifactId = std::array<std::byte, 16>;

inline constexpr uint64_t kHeaderBytes = 32;
inline constexpr uint64_t kFileAlignment = 4096;
inline constexpr uint64_t kTensorAlignment = 256;

struct Object {
  enum class Kind { kTensor, kResource };
  Kind kind = Kind::kTensor;
  std::string id;
  codec::Shape shape;    // tensor
  std::string format;    // tensor: kept as text, interpreted on request (§13.2)
  std::string layout;    // tensor
  std::string encoding;  // resource
  uint64_t offset = 0;   // logical payload
  uint64_t bytes = 0;
  uint64_t divisors = 1;  // tensor
};

struct Part {
  std::string object;
  uint64_t begin = 0, end = 0;  // logical elements
};

// Whole: one object of equal shape (`parts` empty). Parts: their elements, concatenated.
struct Binding {
  std::string object;
  std::vector<Part> parts;
};

struct Use {
  std::string parameter;
  std::string input;
  std::string activation_policy;  // "A16Only", "AllowA8", "AllowA4" or empty
  std::vector<std::pair<std::string, Binding>> auxiliaries;
};

struct Component {
  Json config;
  std::string target;                                          // empty: none
  std::vector<std::pair<std::string, std::string>> resources;  // role → object id
  struct Proposal {
    std::string domain;  // "full", "indexed"
    std::optional<uint64_t> rows;
  };
  std::optional<Proposal> proposal;
};

struct FileEntry {
  std::string path;  // empty for item 0, the entry
  uint64_t payload_bytes = 0;
};

struct Directory {
  std::vector<std::pair<std::string, Component>> components;
  std::vector<Object> objects;
  std::vector<std::pair<std::string, Binding>> bindings;
  std::vector<Use> uses;
  Json metadata = Json::object();
  Json provenance = Json::object();
  std::vector<FileEntry> files;

  const Component* find_component(std::string_view id) const;
  const Object* find_object(std::string_view id) const;      // O(log n) after index()
  const Binding* find_binding(std::string_view name) const;  // O(log n) after index()
  uint64_t payload_bytes() const;                            // Σ files[i].payload_bytes
  // (Re)builds the look-up tables; parse_directory and the writer call it.
  void index();

 private:
  std::vector<size_t> object_order_, binding_order_;  // positions, ascending by id or name
};

// Checks of §13.1 steps 2–6 in that order. `file` is the path for messages, `entry_name` the file
// name that parts must not use. Errors: kDirectory, kRange, kReference.
Directory parse_directory(std::string_view text, const std::string& file,
                          const std::string& entry_name);

// Steps 3–6 for a directory made in memory.
void check_directory(const Directory& directory, const std::string& file,
                     const std::string& entry_name);

// §14.5, without padding. Components and resource roles are put into their canonical order (unknown
// ones last, as they stand); bindings, uses and configs keep the order given, which is the caller's
// to choose. kValue for a real that JSON or binary32 cannot hold.
std::string canonical_text(const Directory& directory);

}  // namespace flare::artifact
