// Sets of code points: ascending disjoint ranges, their algebra and the classes of ECMA-262.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend::grammar {

using CodePoint = uint32_t;

inline constexpr CodePoint kMaxCodePoint = 0x10FFFF;
// Markers of the vocabulary are letters too: marker k is kMarkerBase + k.
inline constexpr CodePoint kMarkerBase = 0x110000;

struct CodePointInterval {
  CodePoint lo, hi;  // inclusive
  bool operator==(const CodePointInterval&) const = default;
};
using CodePointSet = std::vector<CodePointInterval>;

// All scalar values: surrogates are none.
const CodePointSet& any_code_point();

// Sorts and joins what overlaps or touches.
CodePointSet normalised(CodePointSet set);
CodePointSet union_of(const CodePointSet& a, const CodePointSet& b);
CodePointSet intersection(const CodePointSet& a, const CodePointSet& b);
CodePointSet complement(const CodePointSet& set);  // within any_code_point()
bool contains(const CodePointSet& set, CodePoint c);
bool includes(const CodePointSet& set, const CodePointSet& part);

CodePointSet digits();                // \d
CodePointSet word_characters();       // \w
CodePointSet space_characters();      // \s
CodePointSet not_line_terminators();  // .
// \p{name}: general categories by short or long name, also as General_Category= and gc=, and ASCII,
// Any, Alphabetic (as letters and letter numbers), White_Space. nullopt if not known.
std::optional<CodePointSet> property(std::string_view name);

// Decodes valid UTF-8; broken bytes become U+FFFD.
std::u32string decode_utf8(std::string_view text);
void append_utf8(std::string& out, CodePoint c);

}  // namespace flare::frontend::grammar
