// The tables of formats by name.
#include <algorithm>
#include <array>

#include "frontend/output/format.h"
#include "frontend/output/formats/formats.h"

namespace flare::frontend {
namespace {

using namespace output;  // NOLINT: the descriptions of formats/

constexpr Format kNone = {.name = "none"};
constexpr ReasoningFormat kNoReasoning = {.name = "none"};
constexpr ReasoningFormat kThink = {.name = "think", .open = "<think>", .close = "</think>"};
constexpr ReasoningFormat kThinkSeed = {
    .name = "think_seed", .open = "<seed:think>", .close = "</seed:think>"};

constexpr std::array<const Format*, 13> kFormats = {
    &kNone,    &kHermes,  &kQwenXml, &kDsml, &kXtml,    &kKimi, &kLlama3,
    &kMistral, &kHarmony, &kGemma,   &kGlm,  &kMinimax, &kAtem};
constexpr std::array<const ReasoningFormat*, 9> kReasoningFormats = {
    &kNoReasoning, &kThink,     &kThinkMinimax, &kThinkSeed, &kThinkMistral,
    &kThinkGemma,  &kThinkXtml, &kThinkHarmony, &kThinkAtem};

template <typename Table>
auto find(const Table& table, std::string_view name) {
  if (name.empty()) return table[0];
  const auto at = std::ranges::find(table, name, [](const auto* f) { return f->name; });
  return at == table.end() ? nullptr : *at;
}

template <typename Table>
auto names(const Table& table) {
  std::array<std::string_view, std::tuple_size_v<Table>> list;
  std::ranges::transform(table, list.begin(), [](const auto* f) { return f->name; });
  return list;
}

}  // namespace

const Format* find_format(std::string_view name) { return find(kFormats, name); }

const ReasoningFormat* find_reasoning_format(std::string_view name) {
  return find(kReasoningFormats, name);
}

std::span<const std::string_view> format_names() {
  static const auto list = names(kFormats);
  return list;
}

std::span<const std::string_view> reasoning_format_names() {
  static const auto list = names(kReasoningFormats);
  return list;
}

std::string_view implied_reasoning_format(std::string_view tool_format) {
  for (const std::string_view name : {"harmony", "atem", "xtml", "gemma"})
    if (tool_format == name) {
      for (const std::string_view implied : reasoning_format_names())
        if (implied.starts_with("think_") && implied.substr(6) == name) return implied;
    }
  return {};
}

}  // namespace flare::frontend
