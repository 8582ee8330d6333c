// Filters that make numbers.
#include <cmath>
#include <cstdlib>
#include <optional>

#include "frontend/template/evaluator.h"
#include "frontend/template/filters.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

std::string stripped(const Value& value) {
  return strip(value.string().text, nullptr, true, true).text();
}

// Python's underscore rule: single ones between digits.
bool drop_underscores(std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    const auto digit = [&](size_t k) { return std::isalnum(static_cast<unsigned char>(text[k])); };
    if (i == 0 || i + 1 == text.size() || !digit(i - 1) || !digit(i + 1)) return false;
  }
  std::erase(text, '_');
  return true;
}

// int(text, base), or nothing where Python raises ValueError.
std::optional<Int> parse_int(Evaluator& ev, std::string text, int base) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.erase(0, 1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char x = static_cast<char>(text[1] | 32);
    const int named = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
    if (named != 0 && (named == base || base == 0)) {
      base = named;
      text.erase(0, text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  if (!drop_underscores(text) || text.empty()) return std::nullopt;
  Int value = 0;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'                          ? c - '0'
                      : std::isalpha(static_cast<unsigned char>(c)) ? (c | 32) - 'a' + 10
                                                                    : 99;
    if (digit >= base) return std::nullopt;
    value = add_int(ev, multiply_int(ev, value, base), digit);
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string text) {
  if (!drop_underscores(text) || text.empty()) return std::nullopt;
  std::string word = text;
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word[0] == '+' || word[0] == '-') word.erase(0, 1);
  const bool named = word == "inf" || word == "infinity" || word == "nan";
  if (!named && text.find_first_not_of("0123456789+-.eE") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

Value truncated(Evaluator& ev, double value) {
  if (std::isinf(value)) ev.fail("cannot convert float infinity to integer");
  if (std::fabs(value) >= 1e38) ev.fail("integer overflow in int");
  return Value(static_cast<Int>(value));
}

Value int_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "int", arguments, {"value", "default", "base"}, 1);
  const Value& value = p[0];
  Value otherwise = p.has(1) ? p[1] : Value(Int{0});
  if (value.is_undefined()) ev.fail_undefined(value);
  if (value.is_integral()) return Value(value.integer());
  if (value.is(Kind::kFloat))
    return std::isnan(value.real()) ? otherwise : truncated(ev, value.real());
  if (!value.is_string()) return otherwise;
  const Int base = p.integer(2, 10);
  if (base != 0 && (base < 2 || base > 36)) return otherwise;
  if (const auto n = parse_int(ev, stripped(value), static_cast<int>(base))) return Value(*n);
  const auto real = parse_float(stripped(value));
  return real && !std::isnan(*real) ? truncated(ev, *real) : otherwise;
}

Value float_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "float", arguments, {"value", "default"}, 1);
  if (p[0].is_undefined()) ev.fail_undefined(p[0]);
  if (p[0].is_number()) return Value(p[0].real());
  if (p[0].is_string()) {
    if (const auto real = parse_float(stripped(p[0]))) return Value(*real);
  }
  return p.has(1) ? p[1] : Value(0.0);
}

Value abs_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "abs", arguments, {"x"}, 1);
  if (p[0].is(Kind::kFloat)) return Value(std::fabs(p[0].real()));
  if (p[0].is_integral()) {
    return p[0].integer() < 0 ? negate(ev, p[0]) : Value(p[0].integer());
  }
  ev.fail("bad operand type for abs(): '{}'", type_name(p[0]));
}

// Python's round: half to even of the exact binary value.
double round_digits(double value, int digits) {
  if (!std::isfinite(value)) return value;
  if (digits > 300) return value;
  if (digits >= 0) {
    char buffer[800];
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
    return std::strtod(buffer, nullptr);
  }
  const double unit = std::pow(10.0, -digits);
  return std::isinf(unit) ? std::copysign(0.0, value) : std::nearbyint(value / unit) * unit;
}

Value rounded(Evaluator& ev, double value) {
  if (std::isnan(value)) ev.fail("cannot convert float NaN to integer");
  return truncated(ev, std::nearbyint(value));
}

Value round_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "round", arguments, {"value", "precision", "method"}, 1);
  const std::string method = p.has(2) ? p.text(2).text() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    ev.fail("method must be common, ceil or floor");
  }
  if (p[0].is_undefined()) ev.fail_undefined(p[0]);
  if (!p[0].is_number()) {
    ev.fail("type {} doesn't define __round__ method", type_name(p[0]));
  }
  const bool common = method == "common";
  const Int wide = common && p[1].is_none() ? 0 : p.integer(1, 0);
  const int precision = static_cast<int>(wide < -400 ? Int{-400} : wide > 400 ? Int{400} : wide);
  if (common) {
    const bool whole = p.has(1) && p[1].is_none();  // Python's round without digits
    if (whole) return p[0].is_integral() ? Value(p[0].integer()) : rounded(ev, p[0].real());
    if (!p[0].is_integral()) return Value(round_digits(p[0].real(), precision));
    if (precision >= 0) return Value(p[0].integer());
    return truncated(ev, round_digits(p[0].real(), precision));
  }
  const double unit = std::pow(10.0, precision);
  const double scaled = p[0].real() * unit;
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (!std::isfinite(whole)) ev.fail("cannot convert float infinity to integer");
  return Value(whole == 0 ? 0.0 : whole / unit);  // Python's ceil and floor give whole numbers
}

Value length_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "length", arguments, {"obj"}, 1);
  return ev.make_int(ev.length(p[0]));
}

Value file_size_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "filesizeformat", arguments, {"value", "binary"}, 1);
  double bytes = 0;
  if (p[0].is_number()) {
    bytes = p[0].real();
  } else {
    const auto parsed = p[0].is_string() ? parse_float(stripped(p[0])) : std::nullopt;
    if (!parsed) ev.fail("could not convert {} to float", to_repr(p[0]).text());
    bytes = *parsed;
  }
  const bool binary = p.flag(1, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return ev.make_string("1 Byte");
  if (bytes < base) return ev.make_string(int_to_text(truncated(ev, bytes).integer()) + " Bytes");
  static constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  while (bytes >= unit && i + 1 < kUnits.size()) unit *= base, ++i;
  const char letter = binary && i == 0 ? 'K' : kUnits[i];
  return ev.make_string(
      fmt::format("{:.1f} {}{}", base * bytes / unit, letter, binary ? "iB" : "B"));
}

constexpr FilterEntry kFilters[] = {
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"filesizeformat", file_size_filter},
};

}  // namespace

std::span<const FilterEntry> number_filters() { return kFilters; }

}  // namespace flare::frontend::jinja
