// Binding of artifact objects.
#include "prepare/artifact_source.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "prepare/import/tensor_pool.h"

namespace flare::prepare {
namespace {

// The parts of a binding; the whole form is one part that covers its object.
std::vector<artifact::Part> parts_of(const artifact::Binding& binding,
                                     const artifact::Directory& directory) {
  if (!binding.parts.empty()) return binding.parts;
  const artifact::Object* object = directory.find_object(binding.object);
  return {{binding.object, 0, codec::element_count(object->shape)}};
}

// Elements [begin, end) of a tensor in C order, appended to out.
void append_values(const artifact::TensorInfo& tensor, Bytes bytes, uint64_t begin, uint64_t end,
                   std::vector<float>& out) {
  const uint64_t cols = tensor.geometry.cols;
  std::vector<float> row_values(cols);
  for (uint64_t row = begin / cols; row * cols < end; ++row) {
    tensor.format->decode(bytes.data(), tensor.geometry, row, 0, cols, row_values.data());
    const uint64_t first = std::max(begin, row * cols) - row * cols;
    const uint64_t last = std::min(end, (row + 1) * cols) - row * cols;
    out.insert(out.end(), row_values.begin() + static_cast<int64_t>(first),
               row_values.begin() + static_cast<int64_t>(last));
  }
}

}  // namespace

ArtifactSource::ArtifactSource(const std::filesystem::path& entry)
    : reader_(artifact::Reader::open(entry)) {
  for (const artifact::Use& use : reader_.directory().uses)
    uses_.emplace(std::pair(use.parameter, use.input), &use);
}

std::string ArtifactSource::name() const {
  const Json* name = reader_.directory().metadata.find("name");
  if (name != nullptr && name->is_string()) return name->as_string();
  return reader_.path().stem().string();
}

const Json& ArtifactSource::config(std::string_view component) const {
  const artifact::Component* found = reader_.directory().find_component(component);
  if (found == nullptr)
    throw Error(Code::kComponent, "{}: component '{}' is not in this artifact", path().string(),
                component);
  return found->config;
}

bool ArtifactSource::has(std::string_view parameter) const {
  return reader_.directory().find_binding(parameter) != nullptr;
}

std::vector<std::string> ArtifactSource::parameters(std::string_view component) const {
  const std::string prefix = std::string(component) + "/";
  std::vector<std::string> names;
  for (const auto& [name, binding] : reader_.directory().bindings)
    if (name.starts_with(prefix)) names.push_back(name);
  return names;
}

const artifact::Binding& ArtifactSource::binding(std::string_view parameter) const {
  const artifact::Binding* found = reader_.directory().find_binding(parameter);
  if (found == nullptr)
    throw Error(Code::kBinding, "{}: parameter '{}' is missing", path().string(), parameter);
  return *found;
}

codec::Matrix ArtifactSource::matrix(std::string_view parameter, codec::Geometry geometry) {
  const artifact::Binding& bound = binding(parameter);
  if (bound.parts.empty()) {
    const artifact::TensorInfo tensor = reader_.tensor(bound.object);
    if (tensor.geometry != geometry)
      throw Error(Code::kBinding, "{}: parameter '{}' has shape {}, expected {}", path().string(),
                  parameter, shape_text(tensor.object->shape),
                  shape_text({geometry.rows, geometry.cols}));
  }
  return reader_.matrix(parameter, geometry);
}

std::vector<float> ArtifactSource::values(std::string_view parameter, uint64_t n) {
  const auto parts = parts_of(binding(parameter), reader_.directory());
  uint64_t total = 0;
  for (const artifact::Part& part : parts) total = checked_add(total, part.end - part.begin);
  if (total != n)
    throw Error(Code::kBinding, "{}: parameter '{}' has {} elements, expected {}", path().string(),
                parameter, total, n);
  std::vector<float> out;
  out.reserve(n);
  for (const artifact::Part& part : parts)
    append_values(reader_.tensor(part.object), reader_.mapped(part.object), part.begin, part.end,
                  out);
  return out;
}

graph::Policy ArtifactSource::policy(std::string_view parameter, std::string_view input) const {
  const auto it = uses_.find(std::pair(std::string(parameter), std::string(input)));
  if (it == uses_.end())
    throw Error(Code::kBinding, "{}: parameter '{}' has no use at input '{}'", path().string(),
                parameter, input);
  const artifact::Use& use = *it->second;
  if (!use.auxiliaries.empty())
    throw Error(Code::kBinding,
                "{}: the use of '{}' at '{}' has auxiliary '{}', which is not supported there",
                path().string(), parameter, input, use.auxiliaries.front().first);
  for (graph::Policy policy :
       {graph::Policy::kA16Only, graph::Policy::kAllowA8, graph::Policy::kAllowA4})
    if (graph::policy_name(policy) == use.activation_policy) return policy;
  throw Error(Code::kBinding, "{}: the use of '{}' at '{}' has no activation policy, expected one",
              path().string(), parameter, input);
}

std::optional<std::string> ArtifactSource::resource(std::string_view role) const {
  const artifact::Component* text = reader_.directory().find_component("text");
  if (text == nullptr) return std::nullopt;
  for (const auto& [key, id] : text->resources)
    if (key == role) return reader_.read_resource(id);
  return std::nullopt;
}

}  // namespace flare::prepare
