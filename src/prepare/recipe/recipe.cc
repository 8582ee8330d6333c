// The recipe table.
#include "prepare/recipe/recipe.h"

#include <cctype>

#include "base/error.h"
#include "codec/search.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

using codec::FormatId;

constexpr Recipe kRecipes[] = {
    {"bf16", false, {}, {}, {}, "every parameter in its direct format"},
    {"keep", true, {}, {}, {}, "every tensor in its stored type"},
    {"q8", false, FormatId::kQ8G32, FormatId::kQ8G32, FormatId::kQ8G32,
     "projections, embedding and head q8_g32"},
    {"q6", false, FormatId::kQ6G64, FormatId::kQ6G64, FormatId::kQ6G64,
     "projections, embedding and head q6_g64"},
    {"q5", false, FormatId::kQ5G64, FormatId::kQ6G64, FormatId::kQ6G64,
     "projections q5_g64, embedding and head q6_g64"},
    {"q4", false, FormatId::kQ4G64, FormatId::kQ6G64, FormatId::kQ6G64,
     "projections q4_g64, embedding and head q6_g64"},
    {"gguf_q4_k", false, FormatId::kGgufQ4K, FormatId::kGgufQ6K, FormatId::kGgufQ6K,
     "projections gguf_q4_k, embedding and head gguf_q6_k"},
};
constexpr std::string_view kDirectAlias = "direct";

bool embedding_is_shared(const ImportedComponent& component, const ImportedParameter& embedding) {
  for (const ImportedParameter& parameter : component.parameters)
    if (parameter.tied_to == embedding.name) return true;
  return false;
}

std::optional<FormatId> quantised_format(const Recipe& recipe, const ImportedComponent& component,
                                         const ImportedParameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::kPlain:
    case ParameterKind::kFineProjection:
      return std::nullopt;
    case ParameterKind::kEmbedding:
      return embedding_is_shared(component, parameter) ? recipe.head : recipe.embedding;
    case ParameterKind::kHead:
      return recipe.head;
    case ParameterKind::kProjection:
      return recipe.projection;
  }
  return std::nullopt;
}

}  // namespace

const Recipe& find_recipe(std::string_view name) {
  if (name == kDirectAlias) name = "bf16";
  std::string known;
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == name) return recipe;
    known += (known.empty() ? "" : ", ") + std::string(recipe.name);
  }
  throw Error(Code::kUsage, "recipe {} is unknown, expected one of {}", quote(name), known);
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

std::optional<FormatId> direct_format_of(checkpoint::DType dtype) {
  switch (dtype) {
    case checkpoint::DType::kBf16:
      return FormatId::kBf16;
    case checkpoint::DType::kF16:
      return FormatId::kFp16;
    case checkpoint::DType::kF32:
      return FormatId::kFp32;
    default:
      break;
  }
  if (!is_block(dtype)) return std::nullopt;
  std::string name = "gguf_";
  for (const char c : checkpoint::dtype_name(dtype))
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return codec::find_format(name)->id;
}

Encoder encoder_from_name(std::string_view name) {
  if (name == "absmax") return Encoder::kAbsmax;
  if (name == "search") return Encoder::kSearch;
  throw Error(Code::kUsage, "encoder {} is unknown, expected absmax or search", quote(name));
}

std::string encoder_name(const codec::Format& format, Encoder encoder, bool calibrated) {
  if (!format.quantised) return "cast_direct";
  const char* how = calibrated ? "_calibrated" : "";
  switch (format.layout) {
    case codec::LayoutId::kRowSplitK128:
      if (encoder == Encoder::kAbsmax) return "grouped_absmax";
      return fmt::format("grouped_search{}", how);
    case codec::LayoutId::kGgufBlocks:
      if (codec::search_of(format.id) == nullptr) return "gguf_absmax";
      return fmt::format("gguf_search{}", encoder == Encoder::kSearch ? how : "");
    case codec::LayoutId::kBlockScale:
      return "nvfp4_maxabs";
    default:
      return "fp8_row_maxabs";
  }
}

FormatChoice choose_format(const Recipe& recipe, const ImportedComponent& component,
                           const ImportedParameter& parameter) {
  if (recipe.keep && parameter.pieces.front().encoded != nullptr) {
    const auto format = kept_format(parameter);
    // What no format holds is decoded; the report says so (encoded_notes).
    if (!format) return {FormatId::kBf16, graph::Policy::kA16Only};
    return {*format, parameter.pieces.front().encoded->facts().policy};
  }
  if (recipe.keep) {
    const checkpoint::Tensor& tensor = *parameter.pieces.front().tensor;
    const auto format = direct_format_of(tensor.dtype);
    if (!format)
      throw Error(Code::kSupport,
                  "tensor '{}' is {}, which has no stored form; recipe bf16 converts it",
                  tensor.name, checkpoint::dtype_name(tensor.dtype));
    // Other numbers than the source's have no blocks.
    if (changes_values(parameter.transform)) return {FormatId::kFp32, graph::Policy::kA16Only};
    return {*format,
            codec::format(*format).quantised ? graph::Policy::kAllowA8 : graph::Policy::kA16Only};
  }
  if (const auto format = quantised_format(recipe, component, parameter))
    return {*format, graph::Policy::kAllowA8, recipe.encoder};
  return {parameter.fp32_direct ? FormatId::kFp32 : FormatId::kBf16, graph::Policy::kA16Only};
}

}  // namespace flare::prepare
