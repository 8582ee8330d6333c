// The accounting of a checkpoint's tensors.
#include "prepare/import/tensor_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "prepare/import/gguf.h"
#include "prepare/import/gguf_repacked.h"

namespace flare::prepare {
namespace {

bool is_real(checkpoint::DType dtype) {
  using enum checkpoint::DType;
  return dtype == kBf16 || dtype == kF16 || dtype == kF32 || dtype == kF64 ||
         (is_block(dtype) && !is_repacked(dtype));
}

codec::Shape squeezed(codec::Shape shape) {
  std::erase(shape, uint64_t{1});
  return shape;
}

constexpr std::string_view kWeight = ".weight";

[[noreturn]] void missing(const checkpoint::Checkpoint& checkpoint, std::string_view name,
                          const std::string& shape) {
  const checkpoint::GgufFile* gguf = checkpoint.gguf();
  throw Error(Code::kBinding, "{}: tensor '{}' is missing, expected shape {}",
              (gguf != nullptr ? gguf->path() : checkpoint.folder()).string(), name, shape);
}

}  // namespace

std::string shape_text(const codec::Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

TensorPool::TensorPool(const checkpoint::Checkpoint& checkpoint, const Quantisation* quantisation,
                       std::vector<std::string> components)
    : checkpoint_(checkpoint),
      quantisation_(quantisation),
      components_(std::move(components)),
      taken_(checkpoint.tensors().size()) {}

bool TensorPool::wants(std::string_view component) const {
  return std::ranges::find(components_, component) != components_.end();
}

std::string TensorPool::stored_name(std::string_view name) const {
  return checkpoint_.gguf() != nullptr ? gguf_tensor_name(name, checkpoint_) : std::string(name);
}

const checkpoint::Tensor* TensorPool::find(std::string_view name) const {
  return checkpoint_.find(stored_name(name));
}

size_t TensorPool::index_of(const checkpoint::Tensor& tensor) const {
  return static_cast<size_t>(&tensor - checkpoint_.tensors().data());
}

bool TensorPool::has(std::string_view name) const {
  if (find(name) != nullptr) return true;
  if (quantisation_ == nullptr || !name.ends_with(kWeight)) return false;
  const std::string_view module = name.substr(0, name.size() - kWeight.size());
  const Scheme* scheme = quantisation_->scheme_of(module, true);
  return scheme != nullptr && scheme->stores(*this, module);
}

std::string TensorPool::place(const checkpoint::Tensor& tensor) const {
  return fmt::format("{}: tensor '{}'", checkpoint_.mapping(tensor).path().string(), tensor.name);
}

const checkpoint::Tensor& TensorPool::take(std::string_view name, const codec::Shape& shape) {
  const std::string stored = stored_name(name);
  const checkpoint::Tensor* tensor = checkpoint_.find(stored);
  if (tensor == nullptr) missing(checkpoint_, stored, shape_text(shape));
  check_shape(*tensor, {codec::Shape(shape)});
  if (!is_real(tensor->dtype))
    throw Error(Code::kSupport, "{} is {}, expected BF16, F16, F32 or F64", place(*tensor),
                checkpoint::dtype_name(tensor->dtype));
  taken_[index_of(*tensor)] = true;
  return *tensor;
}

Piece TensorPool::take_repacked(std::string_view name, const checkpoint::Tensor& tensor,
                                const codec::Shape& shape) {
  check_shape(tensor, {codec::Shape(shape)});
  std::vector<float> factors;
  if (tensor.dtype == checkpoint::DType::kNvfp4) factors = take_factors(tensor, shape);
  const auto source =
      open_repacked(tensor, place(tensor), codec::geometry_of(shape), std::move(factors));
  taken_[index_of(tensor)] = true;
  encoded_.emplace(name, source);
  return {&tensor, 0, source->facts().geometry.rows, source};
}

// GGUF files keep what the values of "NAME.weight" are multiplied with in "NAME.scale", one number
// or one for each matrix of a stack, and in "NAME.input_scale" what suits its activations.
std::vector<float> TensorPool::take_factors(const checkpoint::Tensor& tensor,
                                            const codec::Shape& shape) {
  constexpr float kMost = std::numeric_limits<float>::max() / (6 * 448);  // products are finite
  if (!tensor.name.ends_with(kWeight)) return {};
  const std::string stem = tensor.name.substr(0, tensor.name.size() - kWeight.size());
  const std::vector<codec::Shape> shapes = {{1}, {shape.size() == 3 ? shape[0] : 1}};
  const std::vector<checkpoint::DType> types = {checkpoint::DType::kF32};
  if (find_stored(stem + ".input_scale") != nullptr)
    take_unused(stem + ".input_scale", types, shapes, "input scales");
  if (find_stored(stem + ".scale") == nullptr) return {};
  const checkpoint::Tensor& scale = take_stored(stem + ".scale", types, shapes);
  std::vector<float> factors(codec::element_count(scale.shape));
  for (uint64_t i = 0; i < factors.size(); ++i) {
    factors[i] = load_le<float>(scale.bytes.data() + i * sizeof(float));
    if (!(factors[i] > 0 && factors[i] <= kMost && std::isfinite(1 / factors[i])))
      throw Error(Code::kValue,
                  "{}: number {} is {}, a finite one above 0 with a reciprocal expected",
                  place(scale), i, factors[i]);
  }
  return factors;
}

Piece TensorPool::weight(std::string_view name, const codec::Shape& shape, bool linear) {
  if (const auto known = encoded_.find(name); known != encoded_.end()) {
    const codec::Geometry& geometry = known->second->facts().geometry;
    if (geometry != codec::geometry_of(shape))
      throw Error(Code::kBinding, "weight '{}' has shape {}, expected {}", name,
                  shape_text({geometry.rows, geometry.cols}), shape_text(shape));
    return {known->second->facts().tensors.front(), 0, geometry.rows, known->second};
  }
  const Scheme* scheme = nullptr;
  if (quantisation_ != nullptr && name.ends_with(kWeight) && shape.size() == 2) {
    const std::string_view module = name.substr(0, name.size() - kWeight.size());
    scheme = quantisation_->scheme_of(module, linear);
    if (scheme != nullptr && scheme->stores(*this, module)) {
      const auto encoded = scheme->open(*this, module, shape);
      encoded_.emplace(name, encoded);
      return {encoded->facts().tensors.front(), 0, shape[0], encoded};
    }
    if (scheme != nullptr && linear && !quantisation_->codes_decide()) plain_.emplace_back(module);
  }
  if (const checkpoint::Tensor* stored = find(name);
      stored != nullptr && is_repacked(stored->dtype))
    return take_repacked(name, *stored, shape);
  const checkpoint::Tensor& tensor = take(name, shape);
  return {&tensor, 0, codec::geometry_of(shape).rows};
}

const checkpoint::Tensor* TensorPool::find_stored(std::string_view name) const {
  return checkpoint_.find(name);
}

void TensorPool::check_shape(const checkpoint::Tensor& tensor,
                             const std::vector<codec::Shape>& shapes) const {
  const bool gguf = checkpoint_.gguf() != nullptr;
  std::string expected;
  for (const codec::Shape& shape : shapes) {
    if (gguf ? squeezed(tensor.shape) == squeezed(shape) : tensor.shape == shape) return;
    expected += (expected.empty() ? "" : " or ") + shape_text(shape);
  }
  throw Error(Code::kBinding, "{} has shape {}, expected {}", place(tensor),
              shape_text(tensor.shape), expected);
}

const checkpoint::Tensor& TensorPool::take_stored(std::string_view name,
                                                  const std::vector<checkpoint::DType>& types,
                                                  const std::vector<codec::Shape>& shapes) {
  const checkpoint::Tensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) missing(checkpoint_, name, shape_text(shapes.front()));
  if (std::ranges::find(types, tensor->dtype) == types.end()) {
    std::string expected;
    for (const checkpoint::DType type : types)
      expected += (expected.empty() ? "" : " or ") + std::string(checkpoint::dtype_name(type));
    throw Error(Code::kSupport, "{} is {}, expected {}", place(*tensor),
                checkpoint::dtype_name(tensor->dtype), expected);
  }
  check_shape(*tensor, shapes);
  taken_[index_of(*tensor)] = true;
  return *tensor;
}

void TensorPool::take_unused(std::string_view name, const std::vector<checkpoint::DType>& types,
                             const std::vector<codec::Shape>& shapes, std::string_view what) {
  take_stored(name, types, shapes);
  ++unused_[what];
}

void TensorPool::skip_component(std::string_view component, std::string_view prefix,
                                std::vector<SkippedComponent>& skipped) {
  SkippedComponent found{.id = std::string(component)};
  for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
    const size_t i = index_of(tensor);
    if (taken_[i] || !tensor.name.starts_with(prefix)) continue;
    taken_[i] = true;
    ++found.tensors;
    found.bytes += tensor.bytes.size();
  }
  if (found.tensors != 0) skipped.push_back(std::move(found));
}

void TensorPool::skip_derived(std::string_view suffix) {
  for (const checkpoint::Tensor& tensor : checkpoint_.tensors())
    if (tensor.name.ends_with(suffix)) taken_[index_of(tensor)] = true;
}

void TensorPool::skip_unused(std::vector<std::string>& notes) {
  if (quantisation_ != nullptr)
    for (const Quantisation::Unused& unused : quantisation_->unused())
      for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
        const size_t i = index_of(tensor);
        if (taken_[i] || !tensor.name.ends_with(unused.suffix)) continue;
        taken_[i] = true;
        ++unused_[unused.what];
      }
  for (const auto& [what, count] : unused_)
    notes.push_back(fmt::format("{} tensors with {} are not used", count, what));
  if (!plain_.empty())
    notes.push_back(
        fmt::format("{} weights that the quantisation config covers are stored unquantised, the "
                    "first is {}",
                    plain_.size(), plain_.front()));
}

void TensorPool::finish(std::string_view architecture) const {
  const checkpoint::Tensor* first = nullptr;
  size_t count = 0;
  for (const checkpoint::Tensor& tensor : checkpoint_.tensors()) {
    if (taken_[index_of(tensor)]) continue;
    if (first == nullptr) first = &tensor;
    ++count;
  }
  if (first == nullptr) return;
  const std::string more = count > 1 ? fmt::format(" and {} more", count - 1) : "";
  throw Error(Code::kBinding, "{}: tensor {}{} is left over, expected only tensors of {}",
              checkpoint_.mapping(*first).path().string(), quote(first->name), more, architecture);
}

}  // namespace flare::prepare
