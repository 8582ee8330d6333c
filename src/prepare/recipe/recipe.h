// Format recipes: which format and activation policy each parameter of a checkpoint gets
// (spec/artifact.md §16).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/format.h"
#include "graph/types.h"
#include "prepare/import/imported_model.h"

namespace flare::prepare {

// How real numbers become codes (spec/artifact.md §8). kSearch looks for better scales in formats
// that have a search (codec/search.h); in the others it is kAbsmax.
enum class Encoder : uint8_t { kAbsmax, kSearch };

// "absmax" or "search"; kUsage for anything else.
Encoder encoder_from_name(std::string_view name);
// What provenance calls the encoder of real numbers in this format, "grouped_search" for instance.
// `calibrated`: squared errors are weighted by column.
std::string encoder_name(const codec::Format& format, Encoder encoder, bool calibrated);

// One row of the recipe table. A format that is not set means: direct (bf16 or fp32 by parameter).
struct Recipe {
  std::string_view name;
  bool keep;  // every tensor in its stored type; the other members do not apply
  std::optional<codec::FormatId> projection, embedding, head;
  std::string_view summary;
  Encoder encoder = Encoder::kAbsmax;  // of every parameter
};

struct FormatChoice {
  codec::FormatId format = codec::FormatId::kBf16;
  graph::Policy policy = graph::Policy::kA16Only;  // of every use of a projection
  Encoder encoder = Encoder::kAbsmax;              // of numbers; words that are copied have none
};

// "direct" is another name of "bf16". kUsage for an unknown name, listing the known ones.
const Recipe& find_recipe(std::string_view name);
std::vector<std::string> recipe_names();

// A tied embedding shares the head's object, so it gets the head's format. kSupport if the stored
// type has no format (keep).
FormatChoice choose_format(const Recipe& recipe, const ImportedComponent& component,
                           const ImportedParameter& parameter);

// The format whose words are those of a stored type; nullopt if there is none.
std::optional<codec::FormatId> direct_format_of(checkpoint::DType dtype);

}  // namespace flare::prepare
