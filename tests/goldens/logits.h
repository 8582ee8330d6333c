// What the golden tests share: reference tensors, and the logits of a model at every position.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/cpu.h"
#include "checkpoint/safetensors.h"
#include "prepare/prepare.h"
#include "runtime/forward.h"

namespace flare {

// Null if there is none.
inline const checkpoint::Tensor* find_tensor(const checkpoint::SafetensorsFile& file,
                                             std::string_view name) {
  for (const checkpoint::Tensor& tensor : file.tensors())
    if (tensor.name == name) return &tensor;
  return nullptr;
}

inline std::span<const float> floats(const checkpoint::Tensor& t) {
  return {reinterpret_cast<const float*>(t.bytes.data()), t.bytes.size() / sizeof(float)};
}

// Of i32 or i64 words.
inline std::vector<int32_t> token_ids(const checkpoint::Tensor& t) {
  const size_t word = t.dtype == checkpoint::DType::kI64 ? 8 : 4;
  std::vector<int32_t> out;
  for (size_t at = 0; at < t.bytes.size(); at += word)
    out.push_back(load_le<int32_t>(t.bytes.data() + at));
  return out;
}

// sqrt(Σ error² / Σ want²).
inline double relative_rms(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error += (static_cast<double>(got[i]) - want[i]) * (static_cast<double>(got[i]) - want[i]);
    norm += static_cast<double>(want[i]) * want[i];
  }
  return std::sqrt(error / norm);
}

// With two threads at the machine's level; `options` say the rest.
inline std::vector<float> all_logits(std::unique_ptr<prepare::ParameterSource> source,
                                     std::span<const int32_t> tokens,
                                     prepare::PrepareOptions options) {
  options.all_logits = true;
  options.max_concurrency = 1;
  const auto model = prepare::prepare(std::move(source), options);
  runtime::StepRunner runner(model, {{2, choose_isa("")}, {}, /*all_logits=*/true});
  return runtime::forward(runner, model, tokens, 64).logits;
}

}  // namespace flare
