// Format rules: what a recipe or a user says about the parameters that a pattern selects
// (spec/artifact.md §16).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/format.h"
#include "graph/types.h"
#include "prepare/import/imported_model.h"
#include "prepare/recipe/name_pattern.h"

namespace flare::prepare {

// A format as rules name it.
struct FormatName {
  enum class Kind {
    kDirect,  // bf16, or fp32 where the registry says so
    kStored,  // whatever the source holds
    kFormat,
  };
  Kind kind = Kind::kDirect;
  codec::FormatId id = codec::FormatId::kBf16;
};
// "direct", "keep", a format of the table such as "q4_g64_fp16", or one of the short names of
// short_format_names(). kUsage otherwise.
FormatName parse_format_name(std::string_view name);
std::string format_name_text(const FormatName& name);
// "q4" for "q4_g64_fp16" and its like.
std::vector<std::string> short_format_names();

// How real numbers become codes (spec/artifact.md §8). kSearch looks for better scales in formats
// that have a search; in the others it is kAbsmax.
enum class Encoder : uint8_t { kAbsmax, kSearch };

// As an encoder: words that the source holds already, and nothing else.
inline constexpr std::string_view kImported = "import_encoded";

// What one rule says. Members that are not set leave what earlier rules said; a rule with a format
// makes policy, layout, encoder and `otherwise` of earlier ones void.
struct Rule {
  NamePattern pattern{"*"};
  std::optional<ParameterKind> kind;  // only parameters of this kind
  std::optional<FormatName> format;
  std::optional<FormatName> otherwise;  // where the parameter's shape does not fit `format`
  std::optional<graph::Policy> policy;
  std::string encoder;  // a name that encoder_from_name knows, encoder_name gives, or kImported
  std::string source;   // data of another checkpoint, by its name
  std::optional<bool> separate;    // an object of its own
  std::vector<std::string> group;  // these of a folder share an object, rows in this order
  std::string share;  // the object of that parameter: a name, or one of the same folder
  std::string where;  // "FILE:LINE" of a user's rule

  bool selects(const ImportedParameter& parameter) const {
    return (!kind || *kind == parameter.kind) && pattern.matches(parameter.name);
  }
};

// Sets one member from text: keys are kind, format, otherwise, layout, policy, encoder, source,
// separate, group and share. `layout` comes behind its format. kUsage naming `where` and what is
// expected.
void set_rule_member(Rule& rule, std::string_view key, const std::vector<std::string>& values,
                     std::string_view where);
// The members as "key = value", in the order above, for people and for --json.
std::vector<std::pair<std::string, std::string>> rule_members(const Rule& rule);

// The rules of a TOML file: a table per rule, its name the pattern, in the order of the file.
// Errors: those of read_toml; kUsage naming file and line.
std::vector<Rule> read_rules(const std::filesystem::path& path);
// The same from text; `name` stands for the file in messages.
std::vector<Rule> parse_rules(std::string_view text, const std::string& name);
// Text that parse_rules reads as these rules.
std::string rules_text(const std::vector<Rule>& rules);

std::string_view kind_name(ParameterKind kind);

}  // namespace flare::prepare
