// The config groups of compressed-tensors: one file per kind of storage turns a group into a
// scheme.
#pragma once

#include <optional>
#include <string>

#include "prepare/import/quantised/quantisation.h"

namespace flare::prepare {

// How one config group stores its weights.
struct CompressedGroup {
  std::string where;   // file and members, for messages
  std::string format;  // of the group, else of the whole config
  uint64_t bits = 0;
  bool is_float = false;
  bool symmetric = true;
  std::string strategy;     // "tensor", "channel", "group", "tensor_group", "block"
  uint64_t group_size = 0;  // 0: none
  uint64_t block_rows = 0, block_cols = 0;
  std::string actorder;     // empty: none
  std::string scale_dtype;  // "torch.uint8" …, empty: not said
  struct Inputs {
    uint64_t bits = 0;
    bool static_scale = false;  // input_scale must be there
  };
  std::optional<Inputs> inputs;  // of the activations; null: they are not quantised
};

// `format` of the group has chosen the reader. Errors: kSupport naming key and value for what it
// cannot read.
using CompressedScheme = std::unique_ptr<Scheme> (*)(const CompressedGroup& group);

std::unique_ptr<Scheme> compressed_nvfp4(const CompressedGroup& group);
std::unique_ptr<Scheme> compressed_fp8(const CompressedGroup& group);
std::unique_ptr<Scheme> compressed_mxfp4(const CompressedGroup& group);
std::unique_ptr<Scheme> compressed_mxfp8(const CompressedGroup& group);
std::unique_ptr<Scheme> compressed_packed(const CompressedGroup& group);
std::unique_ptr<Scheme> compressed_integers(const CompressedGroup& group);

// kSupport: key `key` of the group's weights is `value`, only `expected` is supported.
[[noreturn]] void refuse_group(const CompressedGroup& group, std::string_view key,
                               std::string_view value, std::string_view expected);

}  // namespace flare::prepare
