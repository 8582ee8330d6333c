// Names of the words in types.h and plan.h.
#include "graph/types.h"

#include "graph/plan.h"

namespace flare::graph {

std::string_view dtype_name(DType dtype) {
  constexpr std::string_view names[kDTypes] = {"f32", "bf16", "i32", "u8", "fp8_e4m3"};
  return names[static_cast<size_t>(dtype)];
}

uint32_t dtype_bytes(DType dtype) {
  constexpr uint32_t bytes[kDTypes] = {4, 2, 4, 1, 1};
  return bytes[static_cast<size_t>(dtype)];
}

std::string_view extent_name(Extent extent) {
  constexpr std::string_view names[] = {"T", "L", "1"};
  return names[static_cast<size_t>(extent)];
}

std::string_view op_name(Op op) {
  constexpr std::string_view names[kOps] = {"embed",
                                            "linear",
                                            "rms_norm",
                                            "add",
                                            "swiglu",
                                            "gate_mul",
                                            "rope",
                                            "kv_write",
                                            "attention",
                                            "conv_causal",
                                            "gated_delta",
                                            "gated_norm",
                                            "gather_rows",
                                            "tap",
                                            "sample",
                                            "attention_input",
                                            "gated_delta_verify",
                                            "gated_delta_commit",
                                            "gather_columns",
                                            "geglu",
                                            "norm_add"};
  return names[static_cast<size_t>(op)];
}

std::string_view policy_name(Policy policy) {
  constexpr std::string_view names[] = {"Exact", "A16Only", "AllowA8", "AllowA4"};
  return names[static_cast<size_t>(policy)];
}

std::string_view space_name(Space space) {
  constexpr std::string_view names[] = {"none", "arena", "weight", "const", "page", "row", "io"};
  return names[static_cast<size_t>(space)];
}

}  // namespace flare::graph
