// Matching of module names.
#include "prepare/import/quantised/module_list.h"

#include "base/error.h"

namespace flare::prepare {
namespace {

constexpr std::string_view kExpression = "re:";
// Each is tried on every module.
constexpr size_t kMostPatterns = 1024;

// * matches any run of characters, ? any one. Linear but for a retry behind the last star.
bool glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

bool has_parts(std::string_view pattern, std::string_view module) {
  const auto want = split(pattern), have = split(module);
  for (size_t first = 0; first + want.size() <= have.size(); ++first) {
    size_t i = 0;
    while (i < want.size() && glob(want[i], have[first + i])) ++i;
    if (i == want.size()) return true;
  }
  return false;
}

}  // namespace

ModuleList::ModuleList(const std::vector<std::string>& entries, ModuleSyntax syntax,
                       const std::string& where)
    : syntax_(syntax) {
  for (const std::string& entry : entries) {
    if (syntax == ModuleSyntax::kCompressedTensors) {
      if (entry.starts_with(kExpression))
        expressions_.push_back(frontend::tokenizer::Pattern::regex(
            entry.substr(kExpression.size()), fmt::format("{}: {}", where, quote(entry))));
      else if (entry == "Linear")
        every_linear_ = true;
      else if (entry == "Embedding")
        every_embedding_ = true;
      else
        names_.insert(entry);
    } else {
      const bool plain = entry.find_first_of("*?[") == std::string::npos;
      if (entry.find('[') != std::string::npos)
        throw Error(Code::kSupport, "{}: {} has a set of characters, only * and ? are supported",
                    where, quote(entry));
      if (plain && syntax == ModuleSyntax::kWildcards)
        names_.insert(entry);
      else
        patterns_.push_back(entry);
    }
  }
  if (patterns_.size() + expressions_.size() > kMostPatterns)
    throw Error(Code::kSupport, "{}: {} patterns, at most {} are supported", where,
                patterns_.size() + expressions_.size(), kMostPatterns);
}

bool ModuleList::matches_pattern(const std::string& pattern, std::string_view module) const {
  if (syntax_ == ModuleSyntax::kParts) return has_parts(pattern, module);
  return glob(pattern, module) || glob(pattern + ".*", module);
}

bool ModuleList::matches_by_name(std::string_view module) const {
  if (names_.contains(module)) return true;
  if (syntax_ == ModuleSyntax::kWildcards)
    for (size_t dot = module.find('.'); dot != std::string_view::npos;
         dot = module.find('.', dot + 1))
      if (names_.contains(module.substr(0, dot))) return true;
  for (const std::string& pattern : patterns_)
    if (matches_pattern(pattern, module)) return true;
  if (expressions_.empty()) return false;
  frontend::tokenizer::MatchScratch scratch;
  for (const frontend::tokenizer::Pattern& expression : expressions_) {
    bool at_start = false;
    expression.for_each(module, scratch,
                        [&](frontend::tokenizer::Match match) { at_start |= match.begin == 0; });
    if (at_start) return true;
  }
  return false;
}

}  // namespace flare::prepare
