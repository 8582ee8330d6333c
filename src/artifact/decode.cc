// Directory JSON to plain data: closed member sets, types and enums, nothing that needs a second
// look at another record.
#include <algorithm>
#include <array>

#include "artifact/checks.h"

namespace flare::artifact {
namespace {

// Where a value stands, turned into text only when there is something to say.
struct Place {
  const std::string& file;
  std::string_view list;
  std::string_view name = {};  // key in a map
  size_t index = 0;            // otherwise position
  bool keyed = false;

  static Place item(const std::string& file, std::string_view list, size_t index) {
    return {.file = file, .list = list, .index = index};
  }
  static Place key(const std::string& file, std::string_view list, std::string_view name) {
    return {.file = file, .list = list, .name = name, .keyed = true};
  }
  std::string text(std::string_view member = {}) const {
    std::string out = file + ": " + std::string(list);
    if (!list.empty()) out += fmt::format("[{}]", keyed ? quote(name) : std::to_string(index));
    if (!member.empty()) out.append(list.empty() ? "" : ".").append(member);
    return out;
  }
};

// The members of an object with a closed member set, in the order of `names`; the first `required`
// of them must be there, absent others are nullptr.
template <size_t N>
std::array<const Json*, N> members_of(const Json& value, const Place& place,
                                      const std::string_view (&names)[N], size_t required) {
  std::array<const Json*, N> found{};
  if (!value.is_object()) value.as_object(place.text());
  for (const auto& [name, member] : value.as_object()) {
    const size_t i = static_cast<size_t>(std::find(names, names + N, name) - names);
    if (i == N) throw Error(Code::kDirectory, "{}: unknown member {}", place.text(), quote(name));
    found[i] = &member;
  }
  for (size_t i = 0; i < required; ++i)
    if (!found[i]) throw Error(Code::kDirectory, "{}: member '{}' missing", place.text(), names[i]);
  return found;
}

uint64_t u64_of(const Json& value, const Place& place, std::string_view member) {
  try {
    return value.as_u64();
  } catch (const Error&) {
    return value.as_u64(place.text(member));  // the same error, with its place
  }
}
const std::string& string_of(const Json& value, const Place& place, std::string_view member) {
  if (!value.is_string()) return value.as_string(place.text(member));
  return value.as_string();
}
const std::string& id_of(const Json& value, const Place& place, std::string_view member) {
  const std::string& id = string_of(value, place, member);
  if (id.empty() || id.find('\0') != std::string::npos)
    throw Error(Code::kDirectory, "{}: {} is no ID, nonempty text without U+0000 expected",
                place.text(member), quote(id));
  return id;
}
const Json::Array& array_of(const Json& value, const Place& place, std::string_view member) {
  if (!value.is_array()) return value.as_array(place.text(member));
  return value.as_array();
}
const Json::Object& object_of(const Json& value, const Place& place, std::string_view member) {
  if (!value.is_object()) return value.as_object(place.text(member));
  return value.as_object();
}

codec::Shape decode_shape(const Json& value, const Place& place) {
  codec::Shape shape;
  for (const Json& dimension : array_of(value, place, "shape"))
    shape.push_back(u64_of(dimension, place, "shape"));
  return shape;
}

Object decode_object(const Json& value, const Place& place) {
  object_of(value, place, {});
  const Json* kind = value.find("kind");
  if (!kind) throw Error(Code::kDirectory, "{}: member 'kind' missing", place.text());
  const std::string& kind_text = string_of(*kind, place, "kind");
  Object object;
  if (kind_text == "tensor") {
    const auto [k, id, shape, format, layout, offset, bytes, divisors] =
        members_of(value, place,
                   {"kind", "id", "shape", "format", "layout", "offset", "bytes", "divisors"}, 7);
    object.id = id_of(*id, place, "id");
    object.shape = decode_shape(*shape, place);
    object.format = id_of(*format, place, "format");
    object.layout = id_of(*layout, place, "layout");
    object.offset = u64_of(*offset, place, "offset");
    object.bytes = u64_of(*bytes, place, "bytes");
    if (divisors) object.divisors = u64_of(*divisors, place, "divisors");
  } else if (kind_text == "resource") {
    const auto [k, id, encoding, offset, bytes] =
        members_of(value, place, {"kind", "id", "encoding", "offset", "bytes"}, 5);
    object.kind = Object::Kind::kResource;
    object.id = id_of(*id, place, "id");
    object.encoding = id_of(*encoding, place, "encoding");
    object.offset = u64_of(*offset, place, "offset");
    object.bytes = u64_of(*bytes, place, "bytes");
  } else {
    throw Error(Code::kDirectory, "{}: unknown kind {}, 'tensor' or 'resource' expected",
                place.text("kind"), quote(kind_text));
  }
  return object;
}

Binding decode_binding(const Json& value, const Place& place) {
  const auto [object, parts] = members_of(value, place, {"object", "parts"}, 0);
  if ((object == nullptr) == (parts == nullptr))
    throw Error(Code::kDirectory, "{}: exactly one of 'object' and 'parts' expected", place.text());
  Binding binding;
  if (object) {
    binding.object = id_of(*object, place, "object");
    return binding;
  }
  const Json::Array& items = array_of(*parts, place, "parts");
  if (items.empty()) throw Error(Code::kDirectory, "{}: empty", place.text("parts"));
  for (const Json& item : items) {
    const auto [id, range] = members_of(item, place, {"object", "range"}, 2);
    const Json::Array& ends = array_of(*range, place, "range");
    if (ends.size() != 2)
      throw Error(Code::kDirectory, "{}: {} numbers, [begin,end] expected", place.text("range"),
                  ends.size());
    binding.parts.push_back({.object = id_of(*id, place, "object"),
                             .begin = u64_of(ends[0], place, "range"),
                             .end = u64_of(ends[1], place, "range")});
  }
  return binding;
}

Use decode_use(const Json& value, const Place& place) {
  const auto [parameter, input, policy, auxiliaries] =
      members_of(value, place, {"parameter", "input", "activation_policy", "auxiliaries"}, 2);
  Use use;
  use.parameter = id_of(*parameter, place, "parameter");
  use.input = id_of(*input, place, "input");
  if (policy) {
    use.activation_policy = string_of(*policy, place, "activation_policy");
    // check_schema knows the names; empty means absent there.
    if (use.activation_policy.empty())
      throw Error(Code::kDirectory, "{}: unknown policy ''", place.text("activation_policy"));
  }
  if (auxiliaries)
    for (const auto& [role, binding] : object_of(*auxiliaries, place, "auxiliaries"))
      use.auxiliaries.emplace_back(role, decode_binding(binding, place));
  return use;
}

Component decode_component(const Json& value, const Place& place) {
  const auto [config, target, resources, proposal] =
      members_of(value, place, {"config", "target", "resources", "proposal"}, 1);
  Component component;
  object_of(*config, place, "config");
  component.config = *config;
  if (target) component.target = id_of(*target, place, "target");
  if (resources)
    for (const auto& [role, id] : object_of(*resources, place, "resources"))
      component.resources.emplace_back(role, id_of(id, place, "resources"));
  if (proposal) {
    const auto [domain, rows] = members_of(*proposal, place, {"domain", "rows"}, 1);
    component.proposal.emplace();
    component.proposal->domain = string_of(*domain, place, "proposal.domain");
    if (rows) component.proposal->rows = u64_of(*rows, place, "proposal.rows");
  }
  return component;
}

std::vector<FileEntry> decode_files(const Json& value, const std::string& file) {
  std::vector<FileEntry> files;
  for (const Json& item : array_of(value, {.file = file, .list = ""}, "files")) {
    const Place place = Place::item(file, "files", files.size());
    const auto [path, payload_bytes] = members_of(item, place, {"path", "payload_bytes"}, 2);
    FileEntry entry;
    if (files.empty()) {
      if (!path->is_null())
        throw Error(Code::kDirectory, "{}: null expected, got {}", place.text("path"),
                    path->kind_name());
    } else {
      entry.path = string_of(*path, place, "path");
    }
    entry.payload_bytes = u64_of(*payload_bytes, place, "payload_bytes");
    files.push_back(std::move(entry));
  }
  return files;
}

}  // namespace

Directory decode_directory(std::string_view text, const std::string& file) {
  const Json root = parse_large_json(text, file + ": directory");
  const Place place{.file = file, .list = ""};
  const auto [components, objects, bindings, uses, files, metadata, provenance] = members_of(
      root, place, {"components", "objects", "bindings", "uses", "files", "metadata", "provenance"},
      5);
  Directory directory;
  for (const auto& [id, value] : object_of(*components, place, "components"))
    directory.components.emplace_back(id,
                                      decode_component(value, Place::key(file, "components", id)));
  for (const Json& value : array_of(*objects, place, "objects"))
    directory.objects.push_back(
        decode_object(value, Place::item(file, "objects", directory.objects.size())));
  for (const auto& [name, value] : object_of(*bindings, place, "bindings"))
    directory.bindings.emplace_back(name,
                                    decode_binding(value, Place::key(file, "bindings", name)));
  for (const Json& value : array_of(*uses, place, "uses"))
    directory.uses.push_back(decode_use(value, Place::item(file, "uses", directory.uses.size())));
  directory.files = decode_files(*files, file);
  if (metadata) {
    object_of(*metadata, place, "metadata");
    directory.metadata = *metadata;
  }
  if (provenance) {
    object_of(*provenance, place, "provenance");
    directory.provenance = *provenance;
  }
  check_schema(directory, file);
  return directory;
}

}  // namespace flare::artifact
