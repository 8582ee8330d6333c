// Merging of rules into decisions.
#include "prepare/recipe/recipe.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "codec/search.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

using codec::FormatId;
using graph::Policy;

// The words of the source. What no format holds is decoded; the report says so (encoded_notes).
FormatId stored_format(const ImportedParameter& parameter) {
  if (parameter.pieces.front().encoded != nullptr)
    return kept_format(parameter).value_or(FormatId::kBf16);
  const checkpoint::Tensor& tensor = *parameter.pieces.front().tensor;
  const auto format = direct_format_of(tensor.dtype);
  if (!format)
    throw Error(Code::kSupport,
                "parameter '{}' from tensor '{}' is {}, which has no stored form; recipe bf16 "
                "converts it",
                parameter.name, tensor.name, checkpoint::dtype_name(tensor.dtype));
  // Other numbers than the source's have no blocks.
  return changes_values(parameter.transform) ? FormatId::kFp32 : *format;
}

bool fits(FormatId id, const ImportedParameter& parameter) {
  try {
    codec::format(id).planes(geometry_of(parameter));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A share that names a parameter of the same folder, in full.
std::string full_name(const std::string& share, const std::string& of) {
  if (share.find('/') != share.npos) return share;
  return of.substr(0, of.rfind('/') + 1) + share;
}

// Whether a rule may name this encoder for the format.
bool makes(std::string_view encoder, const codec::Format& format) {
  if (encoder == kImported) return format.quantised;
  return encoder == "absmax" || encoder == "search" ||
         encoder == encoder_name(format, Encoder::kAbsmax) ||
         encoder == encoder_name(format, Encoder::kSearch);
}

}  // namespace

struct Chooser::Merged {
  Rule rule;  // every member as the last rule that set it said
  const Rule* group = nullptr;
  std::string format_place, source_place, share_place;  // as those of Decision
};

Chooser::Chooser(const Recipe& recipe, std::vector<Rule> overrides)
    : recipe_(recipe), overrides_(std::move(overrides)), used_(overrides_.size()) {}

Chooser::Merged Chooser::merge(const ImportedParameter& parameter) {
  Merged out;
  out.format_place = "recipe " + recipe_.name;
  Rule& all = out.rule;
  const auto apply = [&](const Rule& rule) {
    const std::string place = rule.where.empty() ? "recipe " + recipe_.name : rule.where;
    if (rule.format || !rule.encoder.empty()) out.format_place = place;
    if (!rule.source.empty()) out.source_place = place;
    if (!rule.share.empty()) out.share_place = place;
    if (rule.format) {
      all.format = rule.format;
      all.otherwise = rule.otherwise;
      all.policy.reset();
      all.encoder.clear();
    }
    if (rule.otherwise) all.otherwise = rule.otherwise;
    if (rule.policy) all.policy = rule.policy;
    if (!rule.encoder.empty()) all.encoder = rule.encoder;
    if (!rule.source.empty()) all.source = rule.source;
    if (rule.separate) all.separate = rule.separate;
    if (!rule.share.empty()) all.share = full_name(rule.share, parameter.name);
    if (!rule.group.empty()) out.group = &rule;
  };
  for (const Rule& rule : recipe_.rules)
    if (rule.selects(parameter)) apply(rule);
  for (size_t i = 0; i < overrides_.size(); ++i) {
    if (!overrides_[i].selects(parameter)) continue;
    used_[i] = true;
    apply(overrides_[i]);
  }
  return out;
}

Decision Chooser::resolve(const ImportedParameter& parameter, const Merged& merged) const {
  const Rule& rule = merged.rule;
  Decision out{.source = rule.source,
               .share = rule.share,
               .separate = rule.separate.value_or(false),
               .group = merged.group,
               .format_place = merged.format_place,
               .source_place = merged.source_place,
               .share_place = merged.share_place};
  const auto id_of = [&](const FormatName& name) {
    if (name.kind == FormatName::Kind::kStored) return stored_format(parameter);
    if (name.kind == FormatName::Kind::kFormat) return name.id;
    return parameter.fp32_direct ? FormatId::kFp32 : FormatId::kBf16;
  };
  FormatId id = id_of(rule.format.value_or(FormatName{}));
  if (rule.otherwise && !fits(id, parameter)) id = id_of(*rule.otherwise);
  // Indices have no other form.
  if (kept_format(parameter) == FormatId::kInt32) id = FormatId::kInt32;
  out.choice.format = id;
  out.stored = rule.format && rule.format->kind == FormatName::Kind::kStored;
  Policy usual = codec::format(id).quantised ? Policy::kAllowA8 : Policy::kA16Only;
  // The source says what activations its own words were made for.
  const auto& encoded = parameter.pieces.front().encoded;
  if (out.stored && encoded != nullptr && kept_format(parameter) == id)
    usual = encoded->facts().policy;
  out.choice.policy = rule.policy.value_or(usual);
  const codec::Format& format = codec::format(id);
  if (!rule.encoder.empty() && !makes(rule.encoder, format))
    throw Error(Code::kUsage, "{}: encoder {} does not make {}, the format of '{}'",
                merged.format_place, rule.encoder, format.name, parameter.name);
  out.imported = rule.encoder == kImported;
  out.choice.encoder = rule.encoder.empty() ? recipe_.encoder : Encoder::kAbsmax;
  if (rule.encoder == "search" || (rule.encoder == encoder_name(format, Encoder::kSearch) &&
                                   rule.encoder != encoder_name(format, Encoder::kAbsmax)))
    out.choice.encoder = Encoder::kSearch;
  return out;
}

Decision Chooser::decide(const ImportedComponent& component, const ImportedParameter& parameter) {
  const Merged merged = merge(parameter);
  for (const ImportedParameter& other : component.parameters) {
    if (parameter.kind != ParameterKind::kEmbedding || other.tied_to != parameter.name) continue;
    const Merged head = merge(other);
    if (head.rule.separate.value_or(false) || !head.rule.share.empty()) continue;
    Decision decision = resolve(parameter, head);
    decision.share.clear();
    return decision;
  }
  Decision decision = resolve(parameter, merged);
  if (!parameter.tied_to.empty() && !decision.separate && decision.share.empty())
    decision.share = parameter.tied_to;
  return decision;
}

std::vector<const Rule*> Chooser::groups() const {
  std::vector<const Rule*> out;
  for (const std::vector<Rule>* rules : {&recipe_.rules, &overrides_})
    for (const Rule& rule : *rules)
      if (!rule.group.empty()) out.push_back(&rule);
  return out;
}

void Chooser::finish() const {
  for (size_t i = 0; i < overrides_.size(); ++i)
    if (!used_[i])
      throw Error(
          Code::kUsage, "{}: pattern {}{} selects no parameter of the components built",
          overrides_[i].where, quote(overrides_[i].pattern.text()),
          overrides_[i].kind ? fmt::format(" of kind {}", kind_name(*overrides_[i].kind)) : "");
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
    case codec::LayoutId::kRowBlocks:
      return "mx_maxabs";
    default:
      return "fp8_row_maxabs";
  }
}

std::vector<std::string> encoder_names() {
  std::vector<std::string> names = {"absmax", "search", std::string(kImported)};
  for (const codec::Format& format : codec::all_formats())
    for (const Encoder encoder : {Encoder::kAbsmax, Encoder::kSearch})
      if (const std::string name = encoder_name(format, encoder);
          std::ranges::find(names, name) == names.end())
        names.push_back(name);
  return names;
}

FormatChoice choose_format(const Recipe& recipe, const ImportedComponent& component,
                           const ImportedParameter& parameter) {
  return Chooser(recipe).decide(component, parameter).choice;
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
  const codec::Format* format = codec::find_format(name);
  if (format == nullptr) return std::nullopt;
  return format->id;
}

}  // namespace flare::prepare
