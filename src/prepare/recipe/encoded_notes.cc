// Counting of encoded weights by what becomes of them.
#include "prepare/recipe/encoded_notes.h"

#include <utility>

#include "base/error.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

// How far the values move where they are written anew. The direct formats are exact or round once.
std::string_view loss_of(codec::FormatId format) {
  if (format == codec::FormatId::kBf16) return ", each within a factor of 1 ± 2^-9";
  if (format == codec::FormatId::kFp32) return ", without loss";
  return "";
}

std::string outcome(Chooser& chooser, const ImportedComponent& component,
                    const ImportedParameter& parameter) {
  const EncodedFacts& facts = parameter.pieces.front().encoded->facts();
  const Decision decision = chooser.decide(component, parameter);
  const codec::Format& format = codec::format(decision.choice.format);
  if (copies_words(parameter, format))
    return fmt::format("{} are kept as {}{}", facts.scheme, format.name,
                       facts.is_rounded_in(format.id) ? ": " + facts.rounded : "");
  std::string why;
  if (decision.stored)
    why = facts.formats.empty() ? facts.unkept
                                : fmt::format("{} cannot hold their shape",
                                              codec::format(facts.formats.front()).name);
  return fmt::format("{} are decoded and written as {}{}{}", facts.scheme, format.name,
                     loss_of(format.id), why.empty() ? "" : ": " + why);
}

}  // namespace

std::vector<std::string> encoded_notes(const ImportedModel& model, Chooser& chooser) {
  std::vector<std::pair<std::string, uint64_t>> counts;
  for (const ImportedComponent& component : model.components)
    for (const ImportedParameter& parameter : component.parameters) {
      const auto& encoded = parameter.pieces.front().encoded;
      if (encoded == nullptr || encoded->facts().scheme.empty() || !parameter.tied_to.empty())
        continue;
      const std::string text = outcome(chooser, component, parameter);
      auto found = counts.begin();
      while (found != counts.end() && found->first != text) ++found;
      if (found == counts.end())
        counts.emplace_back(text, 1);
      else
        ++found->second;
    }
  std::vector<std::string> notes;
  for (const auto& [text, count] : counts)
    notes.push_back(fmt::format("{} weights of {}", count, text));
  return notes;
}

}  // namespace flare::prepare
