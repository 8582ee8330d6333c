// What a directory must satisfy beyond its types (§13.1 steps 3–6).
#include "artifact/checks.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"

namespace flare::artifact {
namespace {

constexpr size_t kMaxRank = 16;

void check_id(std::string_view id, const std::string& file, std::string_view what) {
  if (id.empty() || id.find('\0') != std::string_view::npos)
    throw Error(Code::kDirectory, "{}: {}: {} is no ID, nonempty text without U+0000 expected",
                file, what, quote(id));
}

// Keys of a map that was made in memory; parsed ones are unique already.
template <typename T>
void check_keys(const std::vector<std::pair<std::string, T>>& members, const std::string& file,
                std::string_view what) {
  std::unordered_set<std::string_view> seen;
  for (const auto& [key, value] : members) {
    check_id(key, file, what);
    if (!seen.insert(key).second)
      throw Error(Code::kDirectory, "{}: {}: {} appears twice", file, what, quote(key));
  }
}

void check_binding_form(const Binding& binding, const std::string& file, std::string_view what,
                        std::string_view name) {
  if (binding.parts.empty() == binding.object.empty())
    throw Error(Code::kDirectory, "{}: {}[{}]: exactly one of 'object' and 'parts' expected", file,
                what, quote(name));
  for (const Part& part : binding.parts) check_id(part.object, file, what);
}

void check_component(const std::string& id, const Component& component, const std::string& file) {
  const std::string where = fmt::format("components[{}]", quote(id));
  if (!component.config.is_object())
    throw Error(Code::kDirectory, "{}: {}.config: object expected, got {}", file, where,
                component.config.kind_name());
  if (!component.target.empty()) check_id(component.target, file, where + ".target");
  check_keys(component.resources, file, where + ".resources");
  for (const auto& [role, object] : component.resources)
    check_id(object, file, where + ".resources");
  if (!component.proposal) return;
  const Component::Proposal& proposal = *component.proposal;
  if (id != "text")
    throw Error(Code::kDirectory, "{}: {}.proposal: only component 'text' has one", file, where);
  if (proposal.domain != "full" && proposal.domain != "indexed")
    throw Error(Code::kDirectory, "{}: {}.proposal.domain: {}, 'full' or 'indexed' expected", file,
                where, quote(proposal.domain));
  if (proposal.rows.has_value() != (proposal.domain == "indexed"))
    throw Error(Code::kDirectory, "{}: {}.proposal.rows: {} for domain '{}'", file, where,
                proposal.rows ? "superfluous" : "missing", proposal.domain);
  if (proposal.rows && *proposal.rows == 0)
    throw Error(Code::kDirectory, "{}: {}.proposal.rows: 0, at least 1 expected", file, where);
}

void check_object_fields(const Object& object, size_t index, const std::string& file) {
  const auto where = [&] { return fmt::format("objects[{}] {}", index, quote(object.id)); };
  if (object.id.empty() || object.id.find('\0') != std::string::npos)
    check_id(object.id, file, fmt::format("objects[{}].id", index));
  if (object.bytes == 0)
    throw Error(Code::kDirectory, "{}: {}.bytes: 0, at least 1 expected", file, where());
  if (object.kind == Object::Kind::kResource) {
    if (object.encoding.empty()) check_id(object.encoding, file, where() + ".encoding");
    return;
  }
  if (object.format.empty()) check_id(object.format, file, where() + ".format");
  if (object.layout.empty()) check_id(object.layout, file, where() + ".layout");
  if (object.shape.size() > kMaxRank)
    throw Error(Code::kDirectory, "{}: {}.shape: rank {}, at most {} expected", file, where(),
                object.shape.size(), kMaxRank);
  if (std::find(object.shape.begin(), object.shape.end(), uint64_t{0}) != object.shape.end())
    throw Error(Code::kDirectory, "{}: {}.shape: dimension 0, at least 1 expected", file, where());
  if (object.divisors == 0)
    throw Error(Code::kDirectory, "{}: {}.divisors: 0, at least 1 expected", file, where());
}

void check_use_fields(const Directory& directory, const std::string& file) {
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < directory.uses.size(); ++i) {
    const Use& use = directory.uses[i];
    check_id(use.parameter, file, "uses.parameter");
    check_id(use.input, file, "uses.input");
    const std::string& policy = use.activation_policy;
    if (!policy.empty() && policy != "A16Only" && policy != "AllowA8" && policy != "AllowA4")
      throw Error(Code::kDirectory,
                  "{}: uses[{}].activation_policy: unknown policy {}, A16Only, AllowA8 or AllowA4 "
                  "expected",
                  file, i, quote(policy));
    check_keys(use.auxiliaries, file, fmt::format("uses[{}].auxiliaries", i));
    for (const auto& [role, binding] : use.auxiliaries)
      check_binding_form(binding, file, "uses.auxiliaries", role);
    // IDs hold no zero byte, so the pair is one key.
    if (!seen.insert(use.parameter + '\0' + use.input).second)
      throw Error(Code::kDirectory, "{}: uses[{}]: ({}, {}) appears twice", file, i,
                  quote(use.parameter), quote(use.input));
  }
}

bool legal_part_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Number of elements; a product beyond 64 bits is a defect of the directory here.
uint64_t elements_of(const Object& object, const std::string& file) {
  uint64_t product = 1;
  for (uint64_t dimension : object.shape)
    if (__builtin_mul_overflow(product, dimension, &product))
      throw Error(Code::kDirectory, "{}: object {}.shape: product exceeds 64 bits", file,
                  quote(object.id));
  return product;
}

// Names to objects, for one pass over all references.
class References {
 public:
  References(const Directory& directory, const std::string& file) : file_(file) {
    for (const Object& object : directory.objects) objects_.emplace(object.id, &object);
  }

  const Object& tensor(std::string_view id, std::string_view what, std::string_view name) const {
    return object(id, Object::Kind::kTensor, what, name);
  }
  const Object& object(std::string_view id, Object::Kind kind, std::string_view what,
                       std::string_view name) const {
    const auto found = objects_.find(id);
    if (found == objects_.end())
      throw Error(Code::kReference, "{}: {}[{}]: unknown object {}", file_, what, quote(name),
                  quote(id));
    if (found->second->kind != kind)
      throw Error(Code::kReference, "{}: {}[{}]: object {} is a {}, a {} is needed", file_, what,
                  quote(name), quote(id), kind_text(found->second->kind), kind_text(kind));
    return *found->second;
  }
  void binding(const Binding& binding, std::string_view what, std::string_view name) const {
    if (binding.parts.empty()) tensor(binding.object, what, name);
    for (const Part& part : binding.parts) {
      const uint64_t elements = elements_of(tensor(part.object, what, name), file_);
      if (part.begin >= part.end || part.end > elements)
        throw Error(Code::kReference,
                    "{}: {}[{}].range: [{},{}) of object {}, a nonempty range within its {} "
                    "elements expected",
                    file_, what, quote(name), part.begin, part.end, quote(part.object), elements);
    }
  }

 private:
  static std::string_view kind_text(Object::Kind kind) {
    return kind == Object::Kind::kTensor ? "tensor" : "resource";
  }
  const std::string& file_;
  std::unordered_map<std::string_view, const Object*> objects_;
};

}  // namespace

void check_schema(const Directory& directory, const std::string& file) {
  if (directory.components.empty())
    throw Error(Code::kDirectory, "{}: components: empty, at least one expected", file);
  if (directory.objects.empty())
    throw Error(Code::kDirectory, "{}: objects: empty, at least one expected", file);
  if (directory.files.empty())
    throw Error(Code::kDirectory, "{}: files: empty, at least the entry expected", file);
  check_keys(directory.components, file, "components");
  for (const auto& [id, component] : directory.components) check_component(id, component, file);
  for (size_t i = 0; i < directory.objects.size(); ++i)
    check_object_fields(directory.objects[i], i, file);
  check_keys(directory.bindings, file, "bindings");
  for (const auto& [name, binding] : directory.bindings)
    check_binding_form(binding, file, "bindings", name);
  check_use_fields(directory, file);
  if (!directory.metadata.is_object() || !directory.provenance.is_object())
    throw Error(Code::kDirectory, "{}: metadata and provenance: objects expected", file);
  if (const Json* name = directory.metadata.find("name"))
    if (name->as_string(file + ": metadata.name").empty())
      throw Error(Code::kDirectory, "{}: metadata.name: empty, a public name expected", file);
}

void check_files(const Directory& directory, const std::string& file,
                 const std::string& entry_name) {
  std::unordered_set<std::string_view> names{entry_name};
  uint64_t sum = 0;
  for (size_t i = 0; i < directory.files.size(); ++i) {
    const FileEntry& entry = directory.files[i];
    if (i == 0 && !entry.path.empty())
      throw Error(Code::kDirectory, "{}: files[0].path: {}, null expected", file,
                  quote(entry.path));
    if (i > 0 && !legal_part_name(entry.path))
      throw Error(Code::kDirectory, "{}: files[{}].path: {} is not the name of a sibling file",
                  file, i, quote(entry.path));
    if (i > 0 && !names.insert(entry.path).second)
      throw Error(Code::kDirectory, "{}: files[{}].path: {} is {} already", file, i,
                  quote(entry.path), entry.path == entry_name ? "the entry" : "listed");
    if (entry.payload_bytes == 0)
      throw Error(Code::kDirectory, "{}: files[{}].payload_bytes: 0, at least 1 expected", file, i);
    sum = checked_add(sum, entry.payload_bytes,
                      fmt::format("{}: files[{}].payload_bytes: sum", file, i));
  }
}

void check_objects(const Directory& directory, const std::string& file) {
  std::unordered_set<std::string_view> ids;
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const Object& object = directory.objects[i];
    if (!ids.insert(object.id).second)
      throw Error(Code::kDirectory, "{}: objects[{}].id: {} appears twice", file, i,
                  quote(object.id));
    elements_of(object, file);
  }
  const uint64_t payload_bytes = directory.payload_bytes();
  uint64_t previous_offset = 0;
  uint64_t previous_end = 0;
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const Object& object = directory.objects[i];
    if (object.offset < previous_offset)
      throw Error(Code::kRange, "{}: objects[{}] {}.offset: {} after {}, ascending order expected",
                  file, i, quote(object.id), object.offset, previous_offset);
    if (object.offset < previous_end)
      throw Error(Code::kRange,
                  "{}: objects[{}] {}.offset: {} overlaps the object before, which "
                  "ends at {}",
                  file, i, quote(object.id), object.offset, previous_end);
    uint64_t end = 0;
    if (__builtin_add_overflow(object.offset, object.bytes, &end) || end > payload_bytes)
      throw Error(Code::kRange, "{}: objects[{}] {}: [{}, {}+{}) leaves the payload of {} bytes",
                  file, i, quote(object.id), object.offset, object.offset, object.bytes,
                  payload_bytes);
    previous_offset = object.offset;
    previous_end = end;
  }
}

void check_references(const Directory& directory, const std::string& file) {
  const References references(directory, file);
  for (const auto& [id, component] : directory.components) {
    if (!component.target.empty() && !directory.find_component(component.target))
      throw Error(Code::kReference, "{}: components[{}].target: unknown component {}", file,
                  quote(id), quote(component.target));
    for (const auto& [role, object] : component.resources)
      references.object(object, Object::Kind::kResource,
                        fmt::format("components[{}].resources", quote(id)), role);
  }
  std::unordered_set<std::string_view> names;
  for (const auto& [name, binding] : directory.bindings) {
    references.binding(binding, "bindings", name);
    names.insert(name);
  }
  for (size_t i = 0; i < directory.uses.size(); ++i) {
    const Use& use = directory.uses[i];
    if (!names.contains(use.parameter))
      throw Error(Code::kReference, "{}: uses[{}].parameter: unknown parameter {}", file, i,
                  quote(use.parameter));
    for (const auto& [role, binding] : use.auxiliaries)
      references.binding(binding, "uses.auxiliaries", role);
  }
}

}  // namespace flare::artifact
