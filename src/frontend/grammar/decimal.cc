// Ranges of decimals digit by digit.
#include "frontend/grammar/decimal.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace flare::frontend::grammar {
namespace {

constexpr int kMostPlaces = 1000;
constexpr size_t kMostStepPlaces = 18;

std::strong_ordering compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() <=> b.whole.size();
  if (const int c = a.whole.compare(b.whole); c != 0) return c <=> 0;
  return a.fraction.compare(b.fraction) <=> 0;
}

// The next whole number, or the one before (of a positive one).
std::string successor(std::string whole) {
  for (size_t i = whole.size(); i-- > 0;) {
    if (whole[i] != '9') {
      ++whole[i];
      return whole;
    }
    whole[i] = '0';
  }
  return "1" + whole;
}
std::string predecessor(std::string whole) {
  for (size_t i = whole.size(); i-- > 0;) {
    if (whole[i] != '0') {
      --whole[i];
      break;
    }
    whole[i] = '9';
  }
  whole.erase(0, whole.find_first_not_of('0'));
  return whole;
}

class Ranges {
 public:
  explicit Ranges(Languages& l) : l_(l), digit_(l.letters(digits())) {}

  Lang digit_between(char lo, char hi) {
    return lo > hi ? Languages::kNothing
                   : l_.letters({{static_cast<CodePoint>(lo), static_cast<CodePoint>(hi)}});
  }
  Lang any_digits(uint32_t min, uint32_t max = Languages::kInfinite) {
    return l_.repeat(digit_, min, max);
  }
  Lang whole() { return l_.either({l_.letter('0'), positive()}); }
  Lang positive() { return l_.concat(digit_between('1', '9'), any_digits(0)); }

  // Whole numbers ≥ a, ≤ b; "" is 0.
  Lang at_least(const std::string& a) {
    if (a.empty()) return whole();
    const auto n = static_cast<uint32_t>(a.size());
    Lang same = Languages::kEmptyWord;
    for (uint32_t i = n; i-- > 0;)
      same = l_.either({l_.concat(digit_between(static_cast<char>(a[i] + 1), '9'),
                                  any_digits(n - i - 1, n - i - 1)),
                        l_.concat(l_.letter(static_cast<CodePoint>(a[i])), same)});
    return l_.either({same, l_.concat(digit_between('1', '9'), any_digits(n))});
  }
  Lang at_most(const std::string& b) {
    if (b.empty()) return l_.letter('0');
    const auto n = static_cast<uint32_t>(b.size());
    Lang same = Languages::kEmptyWord;
    for (uint32_t i = n; i-- > 0;)
      same = l_.either({l_.concat(digit_between(i == 0 ? '1' : '0', static_cast<char>(b[i] - 1)),
                                  any_digits(n - i - 1, n - i - 1)),
                        l_.concat(l_.letter(static_cast<CodePoint>(b[i])), same)});
    std::vector<Lang> ways = {same, l_.letter('0')};
    if (n > 1) ways.push_back(l_.concat(digit_between('1', '9'), any_digits(0, n - 2)));
    return l_.either(std::move(ways));
  }
  Lang point(Lang fraction) { return l_.concat(l_.letter('.'), fraction); }
  Lang some_fraction() { return l_.optional(point(any_digits(1))); }

  // Digits behind the point that make at least, or more than, .f
  Lang fraction_at_least(const std::string& f, bool exclusive) {
    Lang out = exclusive ? l_.concat({any_digits(0), digit_between('1', '9'), any_digits(0)})
                         : any_digits(0);
    for (size_t i = f.size(); i-- > 0;)
      out = l_.either({l_.concat(digit_between(static_cast<char>(f[i] + 1), '9'), any_digits(0)),
                       l_.concat(l_.letter(static_cast<CodePoint>(f[i])), out)});
    return l_.both({out, any_digits(1)});
  }
  Lang fraction_at_most(const std::string& f, bool exclusive) {
    Lang out = exclusive ? Languages::kNothing : l_.repeat(l_.letter('0'), 0, Languages::kInfinite);
    for (size_t i = f.size(); i-- > 0;)
      out = l_.either({Languages::kEmptyWord,
                       l_.concat(digit_between('0', static_cast<char>(f[i] - 1)), any_digits(0)),
                       l_.concat(l_.letter(static_cast<CodePoint>(f[i])), out)});
    return l_.both({out, any_digits(1)});
  }

  Lang real_at_least(const Decimal& a, bool exclusive) {
    std::vector<Lang> ways = {l_.concat(at_least(successor(a.whole)), some_fraction())};
    const Lang same = l_.text(a.whole.empty() ? "0" : a.whole);
    ways.push_back(l_.concat(same, point(fraction_at_least(a.fraction, exclusive))));
    if (a.fraction.empty() && !exclusive) ways.push_back(same);
    return l_.either(std::move(ways));
  }
  Lang real_at_most(const Decimal& b, bool exclusive) {
    std::vector<Lang> ways;
    if (!b.whole.empty()) ways.push_back(l_.concat(at_most(predecessor(b.whole)), some_fraction()));
    const Lang same = l_.text(b.whole.empty() ? "0" : b.whole);
    ways.push_back(l_.concat(same, point(fraction_at_most(b.fraction, exclusive))));
    if (!b.fraction.empty() || !exclusive) ways.push_back(same);
    return l_.either(std::move(ways));
  }

  // Magnitudes in bounds that are not negative.
  Lang magnitudes(const std::optional<Decimal>& a, bool above, const std::optional<Decimal>& b,
                  bool below, bool whole_only) {
    std::vector<Lang> parts;
    if (whole_only) {
      parts.push_back(whole());
      if (a) {
        const bool up = above || !a->is_integer();
        parts.push_back(at_least(up ? successor(a->whole) : a->whole));
      }
      if (b) {
        if (below && b->is_zero()) return Languages::kNothing;
        const bool down = below && b->is_integer();
        parts.push_back(at_most(down ? predecessor(b->whole) : b->whole));
      }
    } else {
      parts.push_back(l_.concat(whole(), some_fraction()));
      if (a) parts.push_back(real_at_least(*a, above));
      if (b) {
        if (below && b->is_zero()) return Languages::kNothing;
        parts.push_back(real_at_most(*b, below));
      }
    }
    return l_.both(std::move(parts));
  }

 private:
  Languages& l_;
  Lang digit_;
};

struct Step {
  uint64_t digits;  // step = digits / 10^places
  uint32_t places;
};
std::optional<Step> step_of(const Decimal& d) {
  if (d.negative || d.is_zero() || d.fraction.size() > kMostStepPlaces) return std::nullopt;
  std::string all = d.whole + d.fraction;
  all.erase(0, all.find_first_not_of('0'));
  if (all.size() > 9) return std::nullopt;
  uint64_t value = 0;
  std::from_chars(all.data(), all.data() + all.size(), value);
  return Step{value, static_cast<uint32_t>(d.fraction.size())};
}
uint64_t power_of_ten(uint32_t n) {
  uint64_t p = 1;
  while (n-- > 0) p *= 10;
  return p;
}

// Magnitudes that are multiples of the step, with so many digits behind the point.
Lang multiples(Languages& l, const Step& step, bool whole_only) {
  Ranges ranges(l);
  std::vector<Lang> ways;
  for (uint32_t j = 0; j <= (whole_only ? 0 : step.places); ++j) {
    const uint64_t m = step.digits / std::gcd(step.digits, power_of_ten(step.places - j));
    const Lang shape =
        j == 0 ? ranges.whole() : l.concat(ranges.whole(), ranges.point(ranges.any_digits(j, j)));
    ways.push_back(m == 1 ? shape : l.both({shape, l.multiple(static_cast<uint32_t>(m), 0)}));
  }
  return l.either(std::move(ways));
}

Lang with_bounds(Languages& l, const NumberBounds& bounds, bool whole_only) {
  Ranges ranges(l);
  std::vector<Lang> steps;
  for (const Decimal& d : bounds.multiples_of)
    steps.push_back(multiples(l, *step_of(d), whole_only));
  const auto side = [&](bool negative) {
    // Of negative numbers the bounds change places.
    std::optional<Decimal> a = negative ? bounds.most : bounds.least;
    std::optional<Decimal> b = negative ? bounds.least : bounds.most;
    bool above = negative ? bounds.below_most : bounds.above_least;
    bool below = negative ? bounds.above_least : bounds.below_most;
    if (negative) {
      if (a) a->negative = !a->negative && !a->is_zero();
      if (b) b->negative = !b->negative && !b->is_zero();
    }
    if (b && b->negative) return Languages::kNothing;
    if (a && a->negative) {
      a.reset();
      above = false;
    }
    std::vector<Lang> parts = steps;
    parts.push_back(ranges.magnitudes(a, above, b, below, whole_only));
    return l.both(std::move(parts));
  };
  return l.either({side(false), l.concat(l.letter('-'), side(true))});
}

}  // namespace

std::optional<Decimal> Decimal::of(const Json& number) {
  Decimal d;
  std::string digits;
  int point = 0;  // digits in front of it
  if (number.is_integer()) {
    const std::string text = number.to_text();
    d.negative = text[0] == '-';
    digits = text.substr(d.negative ? 1 : 0);
    point = static_cast<int>(digits.size());
  } else {
    std::string text = real_to_text(number.as_double());
    d.negative = text[0] == '-';
    if (d.negative) text.erase(0, 1);
    int exponent = 0;
    if (const size_t e = text.find('e'); e != std::string::npos) {
      exponent = std::stoi(text.substr(e + 1));
      text.erase(e);
    }
    size_t dot = text.find('.');
    if (dot == std::string::npos) dot = text.size();
    digits = text.substr(0, dot) + (dot < text.size() ? text.substr(dot + 1) : "");
    point = static_cast<int>(dot) + exponent;
  }
  if (point > kMostPlaces || point < -kMostPlaces) return std::nullopt;
  if (point <= 0) {
    digits.insert(0, static_cast<size_t>(-point) + 1, '0');
    point = 1;
  }
  if (digits.size() < static_cast<size_t>(point)) digits.resize(static_cast<size_t>(point), '0');
  d.whole = digits.substr(0, static_cast<size_t>(point));
  d.fraction = digits.substr(static_cast<size_t>(point));
  d.whole.erase(0, std::min(d.whole.find_first_not_of('0'), d.whole.size()));
  while (!d.fraction.empty() && d.fraction.back() == '0') d.fraction.pop_back();
  if (d.is_zero()) d.negative = false;
  return d;
}

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
  if (negative != other.negative)
    return negative ? std::strong_ordering::less : std::strong_ordering::greater;
  return negative ? compare_magnitudes(other, *this) : compare_magnitudes(*this, other);
}

std::string Decimal::text() const {
  std::string out = negative ? "-" : "";
  out += whole.empty() ? "0" : whole;
  if (!fraction.empty()) out += "." + fraction;
  return out;
}

bool NumberBounds::hold(const Decimal& value) const {
  if (least && (value < *least || (above_least && value == *least))) return false;
  if (most && (value > *most || (below_most && value == *most))) return false;
  return std::all_of(multiples_of.begin(), multiples_of.end(),
                     [&](const Decimal& step) { return is_multiple(value, step); });
}

bool is_supported_step(const Decimal& step) { return step_of(step).has_value(); }

bool is_multiple(const Decimal& value, const Decimal& step) {
  const std::optional<Step> s = step_of(step);
  if (!s || value.fraction.size() > s->places) return false;
  std::string all = value.whole + value.fraction;
  all.append(s->places - value.fraction.size(), '0');
  uint64_t r = 0;
  for (const char c : all) r = (r * 10 + static_cast<uint64_t>(c - '0')) % s->digits;
  return r == 0;
}

Lang integers(Languages& l, const NumberBounds& bounds) { return with_bounds(l, bounds, true); }

Lang numbers(Languages& l, const NumberBounds& bounds) {
  if (bounds.least || bounds.most || !bounds.multiples_of.empty())
    return with_bounds(l, bounds, false);
  Ranges ranges(l);
  const Lang exponent =
      l.concat({l.letters({{'E', 'E'}, {'e', 'e'}}),
                l.optional(l.letters({{'+', '+'}, {'-', '-'}})), ranges.any_digits(1)});
  return l.concat(
      {l.optional(l.letter('-')), ranges.whole(), ranges.some_fraction(), l.optional(exponent)});
}

Lang exactly(Languages& l, const Json& number) {
  std::vector<Lang> ways = {l.text(number.to_text())};
  if (const std::optional<Decimal> d = Decimal::of(number)) {
    const Lang zeros = l.repeat(l.letter('0'), 0, Languages::kInfinite);
    if (d->is_integer())
      ways.push_back(l.text(d->text()));
    else
      ways.push_back(l.concat(l.text(d->text()), zeros));
  }
  return l.either(std::move(ways));
}

}  // namespace flare::frontend::grammar
