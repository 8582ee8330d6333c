// Exact decimals of JSON numbers, and the languages of numbers between bounds.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "frontend/grammar/language.h"

namespace flare::frontend::grammar {

// sign · whole.fraction, without needless zeros: 0 is "" and "". Value semantics.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;

  // Of a JSON number; nullopt if its digits would fill more than a thousand places.
  static std::optional<Decimal> of(const Json& number);
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  bool operator==(const Decimal&) const = default;
  std::strong_ordering operator<=>(const Decimal& other) const;
  // As JSON writes it, without exponent.
  std::string text() const;
};

struct NumberBounds {
  std::optional<Decimal> least, most;
  bool above_least = false, below_most = false;  // exclusive
  std::vector<Decimal> multiples_of;             // positive

  bool hold(const Decimal& value) const;
};

// Whether value is a whole multiple of `step` (positive; its digits below 2^32).
bool is_multiple(const Decimal& value, const Decimal& step);
// Whether multiples of this are supported.
bool is_supported_step(const Decimal& step);

// JSON texts of the integers that the bounds allow, without fraction or exponent.
Lang integers(Languages& languages, const NumberBounds& bounds);
// JSON texts of the numbers that the bounds allow; exponents only where there are no bounds.
Lang numbers(Languages& languages, const NumberBounds& bounds);
// The ways to write one number: without exponent, with trailing zeros of a fraction, and as the
// shortest text of its binary64 value.
Lang exactly(Languages& languages, const Json& number);

}  // namespace flare::frontend::grammar
