// Format recipes: which format, policy and encoder each parameter of a model gets
// (spec/artifact.md §16).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/format.h"
#include "graph/types.h"
#include "prepare/import/imported_model.h"
#include "prepare/recipe/rule.h"

namespace flare::prepare {

struct Recipe {
  std::string name;
  std::string summary;
  std::string architecture;            // the only one it is for; empty: every one
  std::string needs;                   // what it takes that is not there yet; empty: nothing
  std::vector<Rule> rules;             // in order; a parameter that none selects is direct
  Encoder encoder = Encoder::kAbsmax;  // where no rule names one
};

struct FormatChoice {
  codec::FormatId format = codec::FormatId::kBf16;
  graph::Policy policy = graph::Policy::kA16Only;  // of every use of a projection
  Encoder encoder = Encoder::kAbsmax;
};

// "absmax" or "search"; kUsage otherwise.
Encoder encoder_from_name(std::string_view name);
// What provenance calls the encoder of real numbers in this format, "grouped_search" for instance.
// `calibrated`: squared errors are weighted by column.
std::string encoder_name(const codec::Format& format, Encoder encoder, bool calibrated = false);
// Every text that a rule may have for an encoder.
std::vector<std::string> encoder_names();

// All that rules say about one parameter.
struct Decision {
  FormatChoice choice;
  std::string source;           // name of the checkpoint that has its data; empty: the first one
  std::string share;            // name of the parameter whose object it has; empty: none
  bool separate = false;        // an object of its own
  bool imported = false;        // the source must hold the format's words
  bool stored = false;          // the format is the source's own
  const Rule* group = nullptr;  // the rule that forms its explicit group
  // What said so, "FILE:LINE" or "recipe NAME", for messages.
  std::string format_place, source_place, share_place;
};

// Rules of recipe and user, applied in this order to the parameters of a model. `recipe` must
// outlive it. Confined to one thread.
class Chooser {
 public:
  explicit Chooser(const Recipe& recipe, std::vector<Rule> overrides = {});
  // A tied embedding and its head share one object, in the format of the head, unless the head is
  // separate. Errors: kSupport if a stored type has no format (keep); kUsage for an encoder that
  // does not make the format.
  Decision decide(const ImportedComponent& component, const ImportedParameter& parameter);
  // The rules that group parameters, in order.
  std::vector<const Rule*> groups() const;
  const Recipe& recipe() const { return recipe_; }
  // kUsage naming a user's rule that selected no parameter.
  void finish() const;

 private:
  struct Merged;
  Merged merge(const ImportedParameter& parameter);
  Decision resolve(const ImportedParameter& parameter, const Merged& merged) const;
  const Recipe& recipe_;
  std::vector<Rule> overrides_;
  std::vector<bool> used_;  // of overrides_
};

// "direct" is another name of "bf16". kUsage for an unknown name, listing the known ones.
const Recipe& find_recipe(std::string_view name);
const std::vector<Recipe>& all_recipes();
std::vector<std::string> recipe_names();

// What `recipe` alone says about a parameter.
FormatChoice choose_format(const Recipe& recipe, const ImportedComponent& component,
                           const ImportedParameter& parameter);

// The format whose words are those of a stored type; nullopt if there is none.
std::optional<codec::FormatId> direct_format_of(checkpoint::DType dtype);

}  // namespace flare::prepare
