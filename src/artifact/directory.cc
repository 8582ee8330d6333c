// Look-up in a directory, and its canonical text.
#include "artifact/directory.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "artifact/checks.h"
#include "base/checked.h"

namespace flare::artifact {
namespace {

template <typename Items, typename NameOf>
std::vector<size_t> order_by_name(const Items& items, NameOf name_of) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return name_of(items[a]) < name_of(items[b]); });
  return order;
}

// The item called `name`: by the order where it is there, else one after the other.
template <typename Items, typename NameOf>
auto find_named(const Items& items, const std::vector<size_t>& order, std::string_view name,
                NameOf name_of) -> decltype(items.data()) {
  if (order.size() != items.size()) {
    for (const auto& item : items)
      if (name_of(item) == name) return &item;
    return nullptr;
  }
  const auto found =
      std::lower_bound(order.begin(), order.end(), name, [&](size_t i, std::string_view wanted) {
        return std::string_view(name_of(items[i])) < wanted;
      });
  if (found == order.end() || name_of(items[*found]) != name) return nullptr;
  return &items[*found];
}

const std::string& id_of(const Object& object) { return object.id; }
template <typename T>
const std::string& key_of(const std::pair<std::string, T>& member) {
  return member.first;
}

// Positions of `members` in canonical order: known names first, as `known` lists them.
template <typename T>
std::vector<size_t> canonical_order(const std::vector<std::pair<std::string, T>>& members,
                                    std::span<const std::string_view> known) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto rank = [&](size_t i) {
    return std::find(known.begin(), known.end(), members[i].first) - known.begin();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return order;
}

constexpr std::string_view kComponentOrder[] = {"text",   "vision",  "mtp",
                                                "dflash", "dflash2", "ngram"};
constexpr std::string_view kRoleOrder[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "chat_template.jinja",
                                           "generation_config.json",
                                           "preprocessor_config.json",
                                           "video_preprocessor_config.json",
                                           "hot_profile"};

// Config text: reals rounded to binary32 first.
void append_config(std::string& out, const Json& value) {
  const char* separator = "";
  switch (value.kind()) {
    case Json::Kind::kReal: {
      const float rounded = static_cast<float>(value.as_double());
      if (!std::isfinite(rounded))
        throw Error(Code::kValue, "config: {} exceeds binary32", value.as_double());
      out += real_to_text(rounded);
      return;
    }
    case Json::Kind::kArray:
      out += '[';
      for (const Json& item : value.as_array()) {
        out += std::exchange(separator, ",");
        append_config(out, item);
      }
      out += ']';
      return;
    case Json::Kind::kObject:
      out += '{';
      for (const auto& [name, member] : value.as_object()) {
        out.append(std::exchange(separator, ",")).append(quote_json(name)).append(":");
        append_config(out, member);
      }
      out += '}';
      return;
    default:
      out += value.to_text();
  }
}

void append_component(std::string& out, const Component& component) {
  out += "{\"config\":";
  append_config(out, component.config);
  if (!component.target.empty()) out += ",\"target\":" + quote_json(component.target);
  if (!component.resources.empty()) {
    out += ",\"resources\":{";
    const char* separator = "";
    for (size_t i : canonical_order(component.resources, kRoleOrder)) {
      const auto& [role, id] = component.resources[i];
      out.append(std::exchange(separator, ",")).append(quote_json(role)).append(":");
      out += quote_json(id);
    }
    out += '}';
  }
  if (component.proposal) {
    out += ",\"proposal\":{\"domain\":" + quote_json(component.proposal->domain);
    if (component.proposal->rows) out += fmt::format(",\"rows\":{}", *component.proposal->rows);
    out += '}';
  }
  out += '}';
}

void append_object(std::string& out, const Object& object) {
  out += "{\"id\":" + quote_json(object.id);
  if (object.kind == Object::Kind::kTensor) {
    out += ",\"shape\":[";
    const char* separator = "";
    for (uint64_t dimension : object.shape)
      out += fmt::format("{}{}", std::exchange(separator, ","), dimension);
    out += "],\"format\":" + quote_json(object.format) + ",\"layout\":" + quote_json(object.layout);
  } else {
    out += ",\"encoding\":" + quote_json(object.encoding);
  }
  out += fmt::format(",\"offset\":{},\"bytes\":{}", object.offset, object.bytes);
  if (object.kind == Object::Kind::kTensor && object.divisors > 1)
    out += fmt::format(",\"divisors\":{}", object.divisors);
  out += object.kind == Object::Kind::kTensor ? ",\"kind\":\"tensor\"}" : ",\"kind\":\"resource\"}";
}

void append_binding(std::string& out, const Binding& binding) {
  if (binding.parts.empty()) {
    out += "{\"object\":" + quote_json(binding.object) + "}";
    return;
  }
  out += "{\"parts\":[";
  const char* separator = "";
  for (const Part& part : binding.parts)
    out += fmt::format("{}{{\"object\":{},\"range\":[{},{}]}}", std::exchange(separator, ","),
                       quote_json(part.object), part.begin, part.end);
  out += "]}";
}

void append_bindings(std::string& out,
                     const std::vector<std::pair<std::string, Binding>>& bindings) {
  out += '{';
  const char* separator = "";
  for (const auto& [name, binding] : bindings) {
    out.append(std::exchange(separator, ",")).append(quote_json(name)).append(":");
    append_binding(out, binding);
  }
  out += '}';
}

void append_use(std::string& out, const Use& use) {
  out += "{\"parameter\":" + quote_json(use.parameter) + ",\"input\":" + quote_json(use.input);
  if (!use.activation_policy.empty())
    out += ",\"activation_policy\":" + quote_json(use.activation_policy);
  if (!use.auxiliaries.empty()) {
    out += ",\"auxiliaries\":";
    append_bindings(out, use.auxiliaries);
  }
  out += '}';
}

}  // namespace

const Component* Directory::find_component(std::string_view id) const {
  for (const auto& [key, component] : components)
    if (key == id) return &component;
  return nullptr;
}
const Object* Directory::find_object(std::string_view id) const {
  return find_named(objects, object_order_, id, id_of);
}
const Binding* Directory::find_binding(std::string_view name) const {
  const auto* found = find_named(bindings, binding_order_, name, key_of<Binding>);
  return found ? &found->second : nullptr;
}

uint64_t Directory::payload_bytes() const {
  uint64_t sum = 0;
  for (const FileEntry& file : files)
    sum = checked_add(sum, file.payload_bytes, "files: sum of payload_bytes");
  return sum;
}

void Directory::index() {
  object_order_ = order_by_name(objects, id_of);
  binding_order_ = order_by_name(bindings, key_of<Binding>);
}

Directory parse_directory(std::string_view text, const std::string& file,
                          const std::string& entry_name) {
  Directory directory = decode_directory(text, file);
  check_files(directory, file, entry_name);
  check_objects(directory, file);
  check_references(directory, file);
  directory.index();
  return directory;
}

void check_directory(const Directory& directory, const std::string& file,
                     const std::string& entry_name) {
  check_schema(directory, file);
  check_files(directory, file, entry_name);
  check_objects(directory, file);
  check_references(directory, file);
}

std::string canonical_text(const Directory& directory) {
  std::string out = "{\"components\":{";
  const char* separator = "";
  for (size_t i : canonical_order(directory.components, kComponentOrder)) {
    const auto& [id, component] = directory.components[i];
    out.append(std::exchange(separator, ",")).append(quote_json(id)).append(":");
    append_component(out, component);
  }
  out += "},\"objects\":[";
  separator = "";
  for (const Object& object : directory.objects) {
    out += std::exchange(separator, ",");
    append_object(out, object);
  }
  out += "],\"bindings\":";
  append_bindings(out, directory.bindings);
  out += ",\"uses\":[";
  separator = "";
  for (const Use& use : directory.uses) {
    out += std::exchange(separator, ",");
    append_use(out, use);
  }
  out += "],\"metadata\":" + directory.metadata.to_text();
  out += ",\"provenance\":" + directory.provenance.to_text();
  out += ",\"files\":[";
  separator = "";
  for (size_t i = 0; i < directory.files.size(); ++i)
    out += fmt::format("{}{{\"path\":{},\"payload_bytes\":{}}}", std::exchange(separator, ","),
                       i == 0 ? "null" : quote_json(directory.files[i].path),
                       directory.files[i].payload_bytes);
  return out += "]}";
}

}  // namespace flare::artifact
