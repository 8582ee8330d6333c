// The reference's Unicode tables as code point ranges, where libraries here know another version.
#pragma once

#include <span>
#include <string_view>

namespace flare::frontend::tokenizer {

struct CodePointRange {
  char32_t first, last;  // inclusive
};
using CodePointRanges = std::span<const CodePointRange>;  // ascending, disjoint

CodePointRanges white_space();   // the property White_Space
CodePointRanges regex_word();    // \w of Split and Replace
CodePointRanges word();          // \w where added tokens look at their neighbours
CodePointRanges numeric();       // what Digits takes
CodePointRanges accents();       // what StripAccents takes away
CodePointRanges bert_accents();  // what BertNormalizer takes away
CodePointRanges punctuation();   // of Punctuation and BertPreTokenizer
CodePointRanges bert_deleted();
CodePointRanges bert_spaces();  // become spaces in BertNormalizer
CodePointRanges chinese();      // get spaces around in BertNormalizer
CodePointRanges nmt_deleted();
CodePointRanges nmt_spaces();
// Code points that normalisation leaves alone and that stop composition and reordering.
CodePointRanges canonical_opaque();
CodePointRanges compatibility_opaque();
// Code points that can change under the form, or compose with or move before what stands in front.
CodePointRanges nfc_unstable();
CodePointRanges nfkc_unstable();

// Code points that \p{name} has in the reference (Unicode 16) but not in PCRE2 (Unicode 14).
struct PropertyAddition {
  std::string_view name;
  CodePointRanges ranges;
};
std::span<const PropertyAddition> property_additions();

// Scripts as UnicodeScripts knows them, by number; others belong to all. Ascending by `first`.
struct ScriptRange {
  char32_t first, last;  // inclusive
  int script;
};
std::span<const ScriptRange> scripts();

// Lower case of code points that utf8proc does not map; ascending by `upper`.
struct CaseAddition {
  char32_t upper, lower;
};
std::span<const CaseAddition> lowercase_additions();

}  // namespace flare::frontend::tokenizer
