// The accounting of a checkpoint's tensors.
#include "prepare/import/tensor_pool.h"

#include "base/error.h"

namespace flare::prepare {
namespace {

bool is_real(checkpoint::DType dtype) {
  using enum checkpoint::DType;
  return dtype == kBf16 || dtype == kF16 || dtype == kF32 || dtype == kF64;
}

}  // namespace

std::string shape_text(const codec::Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

TensorPool::TensorPool(const checkpoint::Checkpoint& checkpoint)
    : checkpoint_(checkpoint), taken_(checkpoint.tensors().size()) {}

size_t TensorPool::index_of(const checkpoint::Tensor& tensor) const {
  return static_cast<size_t>(&tensor - checkpoint_.tensors().data());
}

const checkpoint::Tensor& TensorPool::take(std::string_view name, const codec::Shape& shape) {
  const checkpoint::Tensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr)
    throw Error(Code::kBinding, "{}: tensor '{}' is missing, expected shape {}",
                checkpoint_.folder().string(), name, shape_text(shape));
  const std::string file = checkpoint_.files()[tensor->file].path().string();
  if (tensor->shape != shape)
    throw Error(Code::kBinding, "{}: tensor '{}' has shape {}, expected {}", file, name,
                shape_text(tensor->shape), shape_text(shape));
  if (!is_real(tensor->dtype))
    throw Error(Code::kSupport, "{}: tensor '{}' is {}, expected BF16, F16, F32 or F64", file, name,
                checkpoint::dtype_name(tensor->dtype));
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
              checkpoint_.files()[first->file].path().string(), quote(first->name), more,
              architecture);
}

}  // namespace flare::prepare
