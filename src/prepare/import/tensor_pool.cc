// The accounting of a checkpoint's tensors.
#include "prepare/import/tensor_pool.h"

#include "base/error.h"
#include "prepare/import/gguf.h"

namespace flare::prepare {
namespace {

bool is_real(checkpoint::DType dtype) {
  using enum checkpoint::DType;
  return dtype == kBf16 || dtype == kF16 || dtype == kF32 || dtype == kF64 || is_block(dtype);
}

codec::Shape squeezed(codec::Shape shape) {
  std::erase(shape, uint64_t{1});
  return shape;
}

}  // namespace

std::string shape_text(const codec::Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

TensorPool::TensorPool(const checkpoint::Checkpoint& checkpoint)
    : checkpoint_(checkpoint), taken_(checkpoint.tensors().size()) {}

std::string TensorPool::stored_name(std::string_view name) const {
  return checkpoint_.gguf() != nullptr ? gguf_tensor_name(name, checkpoint_) : std::string(name);
}

const checkpoint::Tensor* TensorPool::find(std::string_view name) const {
  return checkpoint_.find(stored_name(name));
}

size_t TensorPool::index_of(const checkpoint::Tensor& tensor) const {
  return static_cast<size_t>(&tensor - checkpoint_.tensors().data());
}

const checkpoint::Tensor& TensorPool::take(std::string_view name, const codec::Shape& shape) {
  const std::string stored = stored_name(name);
  const checkpoint::Tensor* tensor = checkpoint_.find(stored);
  const checkpoint::GgufFile* gguf = checkpoint_.gguf();
  if (tensor == nullptr)
    throw Error(Code::kBinding, "{}: tensor '{}' is missing, expected shape {}",
                (gguf != nullptr ? gguf->path() : checkpoint_.folder()).string(), stored,
                shape_text(shape));
  const std::string file = checkpoint_.mapping(*tensor).path().string();
  const bool fits =
      gguf != nullptr ? squeezed(tensor->shape) == squeezed(shape) : tensor->shape == shape;
  if (!fits)
    throw Error(Code::kBinding, "{}: tensor '{}' has shape {}, expected {}", file, stored,
                shape_text(tensor->shape), shape_text(shape));
  if (!is_real(tensor->dtype))
    throw Error(Code::kSupport, "{}: tensor '{}' is {}, expected BF16, F16, F32 or F64", file,
                stored, checkpoint::dtype_name(tensor->dtype));
  taken_[index_of(*tensor)] = true;
  return *tensor;
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
