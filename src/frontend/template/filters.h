// The tables behind find_filter, one for each file of filters.
#pragma once

#include <span>
#include <string_view>

#include "frontend/template/builtins.h"

namespace flare::frontend::jinja {

struct FilterEntry {
  std::string_view name;
  FilterFunction filter;
};

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> number_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> web_filters();
std::span<const FilterEntry> wrap_filters();

}  // namespace flare::frontend::jinja
