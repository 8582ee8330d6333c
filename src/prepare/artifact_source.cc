// Binding of artifact objects.
#include "prepare/artifact_source.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "prepare/import/tensor_pool.h"

namespace flare::prepare {
namespace {

// §10.3. Activations are never quantised to nvfp4 here: its divisor is checked, and that is all.
constexpr std::string_view kInputColumns = "input_columns";
constexpr std::string_view kActivationDivisor = "activation_input_divisor";

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
    if (tensor.geometry.rows != geometry.rows || tensor.geometry.cols != geometry.cols)
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

const artifact::Use& ArtifactSource::use(std::string_view parameter, std::string_view input) const {
  const auto it = uses_.find(std::pair(std::string(parameter), std::string(input)));
  if (it == uses_.end())
    throw Error(Code::kBinding, "{}: parameter '{}' has no use at input '{}'", path().string(),
                parameter, input);
  for (const auto& [role, bound] : it->second->auxiliaries)
    if (role != kInputColumns && role != kActivationDivisor)
      throw Error(Code::kBinding,
                  "{}: the use of '{}' at '{}' has auxiliary {}, which is not supported there",
                  path().string(), parameter, input, quote(role));
  return *it->second;
}

graph::Policy ArtifactSource::policy(std::string_view parameter, std::string_view input) const {
  const std::string& stored = use(parameter, input).activation_policy;
  for (graph::Policy policy :
       {graph::Policy::kA16Only, graph::Policy::kAllowA8, graph::Policy::kAllowA4})
    if (graph::policy_name(policy) == stored) return policy;
  throw Error(Code::kBinding, "{}: the use of '{}' at '{}' has no activation policy, expected one",
              path().string(), parameter, input);
}

std::vector<int32_t> ArtifactSource::input_columns(std::string_view parameter,
                                                   std::string_view input) {
  const artifact::Use& found = use(parameter, input);
  const artifact::Binding* bound_columns = nullptr;
  for (const auto& [role, bound] : found.auxiliaries) {
    if (role == kInputColumns) bound_columns = &bound;
    if (role == kActivationDivisor)
      check_divisor(bound, fmt::format("{}: auxiliary '{}' of the use of '{}' at '{}'",
                                       path().string(), role, parameter, input));
  }
  if (bound_columns == nullptr) return {};
  const std::string where = fmt::format("{}: auxiliary '{}' of the use of '{}' at '{}'",
                                        path().string(), kInputColumns, parameter, input);
  uint64_t k = 0;
  for (const artifact::Part& part : parts_of(binding(parameter), reader_.directory())) {
    const artifact::TensorInfo matrix = reader_.tensor(part.object);
    if (!matrix.format->quantised)
      throw Error(Code::kBinding, "{}: its matrix is {}, a quantised format expected", where,
                  matrix.format->name);
    k = matrix.geometry.cols;
  }
  std::vector<int32_t> columns = read_columns(*bound_columns, k, where);
  std::vector<bool> seen(k);
  for (uint64_t c = 0; c < k; ++c) {
    const int32_t to = columns[c];
    if (to < 0 || static_cast<uint64_t>(to) >= k || seen[static_cast<uint64_t>(to)])
      throw Error(Code::kBinding, "{}: column {} is {}, every number of 0 … {} once expected",
                  where, c, to, k - 1);
    seen[static_cast<uint64_t>(to)] = true;
  }
  return columns;
}

void ArtifactSource::check_divisor(const artifact::Binding& divisor, const std::string& where) {
  const auto parts = parts_of(divisor, reader_.directory());
  const artifact::TensorInfo tensor = reader_.tensor(parts.front().object);
  const size_t rank = tensor.object->shape.size();
  if (tensor.format->id != codec::FormatId::kFp32 || rank > 1 || parts.size() != 1 ||
      parts.front().end - parts.front().begin != 1)
    throw Error(Code::kBinding, "{}: {} of shape {}, one fp32 number expected", where,
                tensor.format->name, shape_text(tensor.object->shape));
  const float value = load_le<float>(reader_.mapped(parts.front().object).data() +
                                     parts.front().begin * sizeof(float));
  if (!std::isfinite(value) || value <= 0)
    throw Error(Code::kBinding, "{}: {}, a finite number above 0 expected", where, value);
}

std::vector<int32_t> ArtifactSource::read_columns(const artifact::Binding& columns, uint64_t k,
                                                  const std::string& where) {
  std::vector<int32_t> words;
  for (const artifact::Part& part : parts_of(columns, reader_.directory())) {
    const artifact::TensorInfo tensor = reader_.tensor(part.object);
    const codec::Shape& shape = tensor.object->shape;
    if (tensor.format->id != codec::FormatId::kInt32 || shape.size() != 1 ||
        part.end - part.begin > k - words.size())
      throw Error(Code::kBinding, "{}: elements [{},{}) of {} {}, int32 of shape [{}] expected",
                  where, part.begin, part.end, tensor.format->name, shape_text(shape), k);
    const std::byte* from = reader_.mapped(part.object).data();
    for (uint64_t i = part.begin; i < part.end; ++i)
      words.push_back(load_le<int32_t>(from + i * sizeof(int32_t)));
  }
  if (words.size() != k)
    throw Error(Code::kBinding, "{}: {} elements, int32 of shape [{}] expected", where,
                words.size(), k);
  return words;
}

std::optional<std::string> ArtifactSource::resource(std::string_view role) const {
  const artifact::Component* text = reader_.directory().find_component("text");
  if (text == nullptr) return std::nullopt;
  for (const auto& [key, id] : text->resources)
    if (key == role) return reader_.read_resource(id);
  return std::nullopt;
}

}  // namespace flare::prepare
