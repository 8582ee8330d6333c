// --kv-dtype: what keys and values are stored as (spec/cli.md §5).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "graph/types.h"

namespace flare::app {

// `value` holds the default and receives what was given: one of the two names.
inline CLI::Option* add_kv_dtype_flag(CLI::App& app, std::string* value) {
  return app
      .add_option("--kv-dtype", *value,
                  "how keys and values are stored: fp8_e4m3, bf16 (" + *value + ")")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp8_e4m3", "bf16"}).description(""));
}

inline graph::DType kv_dtype(const std::string& value) {
  return value == "bf16" ? graph::DType::kBf16 : graph::DType::kF8E4M3;
}

}  // namespace flare::app
