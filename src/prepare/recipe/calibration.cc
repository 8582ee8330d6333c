// The calibration file: safetensors, one tensor an input.
#include "prepare/recipe/calibration.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace flare::prepare {
namespace {

std::string metadata_of(const checkpoint::SafetensorsFile& file, std::string_view key) {
  for (const auto& [name, value] : file.metadata())
    if (name == key) return value;
  return {};
}

std::vector<float> moments_of(const checkpoint::Tensor& tensor, const std::string& where) {
  if (tensor.dtype != checkpoint::DType::kF32 || tensor.shape.size() != 1)
    throw Error(Code::kInvalid, "{}: tensor '{}' is {} of rank {}, F32 of rank 1 expected", where,
                tensor.name, checkpoint::dtype_name(tensor.dtype), tensor.shape.size());
  std::vector<float> values(tensor.shape[0]);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  for (size_t c = 0; c < values.size(); ++c)
    if (!std::isfinite(values[c]) || values[c] < 0)
      throw Error(Code::kInvalid, "{}: tensor '{}' column {} is {}, a number from 0 on expected",
                  where, tensor.name, c, values[c]);
  return values;
}

}  // namespace

std::vector<float> Calibration::importance(const ImportedModel& model,
                                           const ImportedParameter& parameter) const {
  std::vector<float> sum;
  const auto add = [&](const ImportedParameter& user) {
    for (const std::string& input : user.inputs) {
      const auto found = moments.find(input);
      if (found == moments.end()) continue;
      const uint64_t cols = codec::geometry_of(parameter.shape).cols;
      if (found->second.size() != cols)
        throw Error(Code::kInvalid,
                    "calibration of '{}': input '{}' has {} columns, {} expected for parameter "
                    "'{}': it belongs to another model",
                    this->model, input, found->second.size(), cols, parameter.name);
      sum.resize(cols);
      for (uint64_t c = 0; c < cols; ++c) sum[c] += found->second[c];
    }
  };
  add(parameter);
  for (const ImportedComponent& component : model.components)
    for (const ImportedParameter& other : component.parameters)
      if (other.tied_to == parameter.name) add(other);
  return sum;
}

Calibration read_calibration(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(Code::kNotFound, "{}: no such file, expected what `ignition calibrate` wrote",
                path.string());
  const auto file = checkpoint::SafetensorsFile::open(path);
  const std::string where = path.string();
  const std::string format = metadata_of(file, "format");
  if (format != kCalibrationFormat)
    throw Error(Code::kInvalid, "{}: metadata 'format' is {}, {} expected", where, quote(format),
                kCalibrationFormat);
  Calibration out;
  out.model = metadata_of(file, "model");
  out.text_sha256 = metadata_of(file, "text_sha256");
  const std::string tokens = metadata_of(file, "tokens");
  const char* end = tokens.data() + tokens.size();
  if (const auto [at, code] = std::from_chars(tokens.data(), end, out.tokens);
      code != std::errc() || at != end || out.tokens == 0)
    throw Error(Code::kInvalid, "{}: metadata 'tokens' is {}, a number from 1 on expected", where,
                quote(tokens));
  for (const checkpoint::Tensor& tensor : file.tensors())
    out.moments.emplace(tensor.name, moments_of(tensor, where));
  return out;
}

void write_calibration(const std::filesystem::path& path, const Calibration& calibration) {
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& [name, values] : calibration.moments)
    tensors.push_back(
        {name, checkpoint::DType::kF32, {values.size()}, std::as_bytes(std::span(values))});
  checkpoint::write_safetensors(path, tensors,
                                {{"format", std::string(kCalibrationFormat)},
                                 {"model", calibration.model},
                                 {"tokens", std::to_string(calibration.tokens)},
                                 {"text_sha256", calibration.text_sha256}});
}

}  // namespace flare::prepare
