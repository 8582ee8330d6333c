// Python's two ways to format: printf style and braces.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "frontend/template/evaluator.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char grouping = '\0';
  char type = '\0';
};

MarkedText pad(Evaluator& ev, const MarkedText& text, const Spec& spec, char align) {
  const auto length = static_cast<int64_t>(count_code_points(text.text()));
  if (spec.width <= length) return text;
  ev.check_size(static_cast<uint64_t>(spec.width));
  const auto missing = static_cast<size_t>(spec.width - length);
  const size_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  MarkedText out;
  const auto fill = [&](size_t n) {
    std::string padding;
    for (size_t i = 0; i < n; ++i) padding += spec.fill;
    out.append(padding, Origin::kTemplate);
  };
  size_t sign = 0;
  if (align == '=') {
    const std::string& t = text.text();
    sign = !t.empty() && (t[0] == '-' || t[0] == '+' || t[0] == ' ') ? 1 : 0;
    const bool prefix = t.size() > sign + 1 && t[sign] == '0' &&
                        std::isalpha(static_cast<unsigned char>(t[sign + 1]));
    if (prefix) sign += 2;
    out.append(text.slice(0, sign));
  }
  fill(left);
  out.append(text.slice(sign, text.size()));
  fill(missing - left);
  return out;
}

std::string digits_of(Int value, int base, bool upper) {
  auto magnitude = static_cast<unsigned __int128>(value);
  if (value < 0) magnitude = 0 - magnitude;
  std::string out;
  do {
    const int digit = static_cast<int>(magnitude % static_cast<unsigned>(base));
    out += static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    magnitude /= static_cast<unsigned>(base);
  } while (magnitude != 0);
  return {out.rbegin(), out.rend()};
}

std::string group(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string_view sign_text(bool negative, char sign) {
  if (negative) return "-";
  return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

std::string format_int(Int value, const Spec& spec, bool percent) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  std::string digits = digits_of(value, base, spec.type == 'X');
  if (percent && spec.precision > static_cast<int64_t>(digits.size())) {
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  if (spec.grouping) digits = group(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string prefix;
  if (spec.alternate && base != 10) prefix.assign({'0', spec.type});
  std::string out(sign_text(value < 0, spec.sign));
  out += prefix;
  out += digits;
  return out;
}

std::string format_float(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  std::string out;
  if (spec.type == '\0' && spec.precision < 0) {
    out = float_to_text(magnitude);
  } else {
    char type = spec.type == '\0' ? 'g' : spec.type == 'n' ? 'g' : spec.type;
    if (type == '%') type = 'f';
    const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
    const std::string pattern = fmt::format("%{}.*{}", spec.alternate ? "#" : "", type);
    std::string buffer(static_cast<size_t>(precision) + 400, '\0');
    const double shown = spec.type == '%' ? magnitude * 100 : magnitude;
    const int n = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(),
                                static_cast<int>(precision), shown);
    buffer.resize(static_cast<size_t>(n));
    out = buffer;
    if (spec.type == '\0' && std::isfinite(value) && out.find_first_of(".e") == std::string::npos) {
      out += ".0";
    }
    if (spec.type == '%') out += '%';
  }
  if (spec.grouping && std::isfinite(value)) {
    const size_t end = std::min(out.find_first_of(".e%"), out.size());
    out = group(out.substr(0, end), spec.grouping, 3) + out.substr(end);
  }
  return std::string(sign_text(negative, spec.sign)).append(out);
}

void limit_precision(Evaluator& ev, const Spec& spec) {
  if (spec.precision > kMaxPrecision) ev.fail("format precision is larger than {}", kMaxPrecision);
}

MarkedText cut(const MarkedText& text, int64_t precision) {
  if (precision < 0) return text;
  return text.slice(0, byte_offset(text.text(), static_cast<size_t>(precision)));
}

// ---- printf style ----

class PercentFormatter {
 public:
  PercentFormatter(Evaluator& ev, const String& format, const Value& arguments)
      : ev_(ev), format_(format), text_(format.bytes()), arguments_(arguments) {}

  MarkedText run() {
    while (at_ < text_.size()) {
      const size_t percent = text_.find('%', at_);
      out_.append(format_.text.slice(at_, std::min(percent, text_.size())));
      if (percent == std::string_view::npos) break;
      at_ = percent + 1;
      field();
      ev_.check_size(out_.size());
    }
    const bool mapping = arguments_.is(Kind::kDict) || arguments_.is(Kind::kList) ||
                         arguments_.is(Kind::kRange) || arguments_.is_undefined();
    const bool tuple = arguments_.is(Kind::kTuple);
    if (tuple ? used_ < arguments_.list().items.size() : !mapping && used_ == 0) {
      ev_.fail("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  char peek() {
    if (at_ >= text_.size()) ev_.fail("incomplete format");
    return text_[at_];
  }

  Value next_argument() {
    if (arguments_.is(Kind::kTuple)) {
      if (used_ >= arguments_.list().items.size()) {
        ev_.fail("not enough arguments for format string");
      }
      return arguments_.list().items[used_++];
    }
    if (used_++ > 0) ev_.fail("not enough arguments for format string");
    return arguments_;
  }

  int64_t number() {
    if (peek() == '*') {
      ++at_;
      const Value v = next_argument();
      if (!v.is_integral()) ev_.fail("* wants int");
      return static_cast<int64_t>(std::clamp<Int>(v.integer(), -(1 << 30), 1 << 30));
    }
    int64_t n = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      n = std::min<int64_t>(n * 10 + (text_[at_++] - '0'), 1 << 30);
    }
    return n;
  }

  void field() {
    Value value;
    bool keyed = false;
    if (peek() == '(') {
      const size_t end = text_.find(')', at_);
      if (end == std::string_view::npos) ev_.fail("incomplete format key");
      if (!arguments_.is(Kind::kDict)) ev_.fail("format requires a mapping");
      const std::string_view key = text_.substr(at_ + 1, end - at_ - 1);
      const Value* found = arguments_.dict().find(key);
      if (!found) ev_.fail("format key '{}' is missing", key);
      value = *found;
      keyed = true;
      at_ = end + 1;
    }
    Spec spec;
    bool left = false, zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-')
        left = true;
      else if (c == '0')
        zero = true;
      else if (c == '+')
        spec.sign = '+';
      else if (c == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (c == '#')
        spec.alternate = true;
      else
        break;
    }
    spec.width = number();
    if (spec.width < 0) left = true, spec.width = -spec.width;
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(number(), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    if (spec.type == '%') return out_.append("%", Origin::kTemplate);
    if (!keyed) value = next_argument();
    convert(value, spec, left, zero);
  }

  void convert(const Value& value, Spec spec, bool left, bool zero) {
    const char type = spec.type;
    MarkedText text;
    bool numeric = true;
    if (type == 's' || type == 'r' || type == 'a') {
      numeric = false;
      text = cut(type == 's'   ? to_text(value)
                 : type == 'r' ? to_repr(value)
                               : to_ascii(value),
                 spec.precision);
      if (format_.safe && !(value.is_string() && value.string().safe)) text = escape_html(text);
    } else if (type == 'c') {
      numeric = false;
      text = character(value);
    } else if (std::string_view("diuxXo").find(type) != std::string_view::npos) {
      limit_precision(ev_, spec);
      text = MarkedText(format_int(integer(value, type), spec, true), Origin::kTemplate);
    } else if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      limit_precision(ev_, spec);
      if (value.is_undefined()) ev_.fail_undefined(value);
      if (!value.is_number()) ev_.fail("must be real number, not {}", type_name(value));
      text = MarkedText(format_float(value.real(), spec), Origin::kTemplate);
    } else {
      ev_.fail("unsupported format character '{}'", type);
    }
    if (zero && numeric && !left) spec.fill.assign(1, '0');
    out_.append(pad(ev_, text, spec, left ? '<' : zero && numeric ? '=' : '>'));
  }

  Int integer(const Value& value, char type) {
    if (value.is_integral()) return value.integer();
    if (value.is(Kind::kFloat) && (type == 'd' || type == 'i' || type == 'u')) {
      if (!(std::fabs(value.real()) < 1e37)) ev_.fail("integer overflow in %{}", type);
      return static_cast<Int>(value.real());
    }
    if (value.is_undefined()) ev_.fail_undefined(value);
    ev_.fail("%{} format: {} is required, not {}", type,
             type == 'd' || type == 'i' || type == 'u' ? "a real number" : "an integer",
             type_name(value));
  }

  MarkedText character(const Value& value) {
    if (value.is_string() && value.string().length == 1) return value.string().text;
    if (value.is_integral() && value.integer() >= 0 && value.integer() < 0x110000 &&
        !(value.integer() >= 0xd800 && value.integer() < 0xe000)) {
      std::string out;
      append_code_point(out, static_cast<uint32_t>(value.integer()));
      return MarkedText(out, Origin::kTemplate);
    }
    ev_.fail("%c requires int or char");
  }

  Evaluator& ev_;
  const String& format_;
  std::string_view text_;
  const Value& arguments_;
  size_t at_ = 0;
  size_t used_ = 0;
  MarkedText out_;
};

// ---- braces ----

class BraceFormatter {
 public:
  BraceFormatter(Evaluator& ev, const CallArguments& arguments) : ev_(ev), arguments_(arguments) {}

  MarkedText run(const MarkedText& format, int depth) {
    if (depth > 2) ev_.fail("Max string recursion exceeded");
    const std::string_view text = format.text();
    MarkedText out;
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      out.append(format.slice(at, brace));
      at = brace;
      if (at == text.size()) break;
      if (at + 1 < text.size() && text[at + 1] == text[at]) {
        out.append(format.slice(at, at + 1));
        at += 2;
        continue;
      }
      if (text[at] == '}') ev_.fail("Single '}}' encountered in format string");
      const size_t end = field_end(text, at + 1);
      out.append(field(format, at + 1, end, depth));
      ev_.check_size(out.size());
      at = end + 1;
    }
    return out;
  }

 private:
  size_t field_end(std::string_view text, size_t at) {
    int open = 1;
    for (; at < text.size(); ++at) {
      open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    ev_.fail_with(text.back() == '{' ? "Single '{' encountered in format string"
                                     : "expected '}' before end of string");
  }

  MarkedText field(const MarkedText& format, size_t begin, size_t end, int depth) {
    const std::string_view text = format.text();
    size_t name_end = begin;
    for (int bracket = 0; name_end < end; ++name_end) {
      if (text[name_end] == '[') bracket = 1;
      if (text[name_end] == ']') bracket = 0;
      if (!bracket && (text[name_end] == ':' || text[name_end] == '!')) break;
    }
    Value value = lookup(numbered(text.substr(begin, name_end - begin)));
    size_t at = name_end;
    if (at < end && text[at] == '!') {
      if (at + 1 >= end) ev_.fail("end of string while looking for conversion specifier");
      const char c = text[at + 1];
      if (c == 's')
        value = ev_.make_string(to_text(value));
      else if (c == 'r' || c == 'a')
        value = ev_.make_string(c == 'r' ? to_repr(value) : to_ascii(value));
      else
        ev_.fail("Unknown conversion specifier {}", c);
      at += 2;
      if (at < end && text[at] != ':') ev_.fail("expected ':' after conversion specifier");
    }
    if (at >= end) return formatted(value, "");
    const MarkedText spec = run(format.slice(at + 1, end), depth + 1);
    return formatted(value, spec.text());
  }

  // The sandbox formats with string.Formatter, whose numbering looks at whole field names.
  std::string numbered(std::string_view name) {
    constexpr std::string_view kMixed =
        "cannot switch from manual field specification to automatic field numbering";
    if (name.empty()) {
      if (manual_) ev_.fail_with(std::string(kMixed));
      return std::to_string(automatic_++);
    }
    if (is_number(name)) {
      if (automatic_ > 0) ev_.fail_with(std::string(kMixed));
      manual_ = true;
    }
    return std::string(name);
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = root(name.substr(0, first_end));
    size_t at = first_end;
    while (at < name.size()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = ev_.attribute(value, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const size_t end = name.find(']', at);
        if (end == std::string_view::npos) ev_.fail("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        value = ev_.item(value, is_number(key) ? Value(to_number(key)) : ev_.make_string(key));
        at = end + 1;
      } else {
        ev_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 10 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  }
  static Int to_number(std::string_view text) {
    Int n = 0;
    for (const char c : text) n = n * 10 + (c - '0');
    return n;
  }

  Value root(std::string_view name) {
    if (is_number(name)) {
      const auto i = static_cast<size_t>(to_number(name));
      if (i >= arguments_.positional.size()) {
        ev_.fail("Replacement index {} out of range for positional args tuple", i);
      }
      return arguments_.positional[i];
    }
    for (const auto& [key, value] : arguments_.keywords) {
      if (key == name) return value;
    }
    ev_.fail("format field '{}' is missing", name);
  }

  MarkedText formatted(const Value& value, std::string_view text) {
    if (text.empty()) return to_text(value);
    Spec spec;
    bool zero = false;
    parse(text, spec, zero);
    if (value.is_string()) {
      if (spec.type != '\0' && spec.type != 's') {
        ev_.fail("Unknown format code '{}' for object of type 'str'", spec.type);
      }
      if (spec.sign != '-') ev_.fail("Sign not allowed in string format specifier");
      if (spec.align == '=') ev_.fail("'=' alignment not allowed in string format specifier");
      if (spec.grouping) ev_.fail("Cannot specify '{}' with 's'.", spec.grouping);
      return pad(ev_, cut(value.string().text, spec.precision), spec,
                 spec.align ? spec.align : '<');
    }
    if (!value.is_number()) {
      ev_.fail("unsupported format string passed to {}.__format__", type_name(value));
    }
    limit_precision(ev_, spec);
    return pad(ev_, MarkedText(number(value, spec), Origin::kTemplate), spec,
               spec.align ? spec.align
               : zero     ? '='
                          : '>');
  }

  std::string number(const Value& value, const Spec& spec) {
    const std::string_view ungrouped = spec.grouping == ',' ? "bcnoxX" : "cn";
    if (spec.grouping && spec.type != '\0' && ungrouped.find(spec.type) != std::string_view::npos) {
      ev_.fail("Cannot specify '{}' with '{}'.", spec.grouping, spec.type);
    }
    const bool real_type =
        spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (value.is(Kind::kFloat) || real_type) {
      if (spec.type != '\0' && spec.type != 'n' && !real_type) {
        ev_.fail("Unknown format code '{}' for object of type 'float'", spec.type);
      }
      return format_float(value.real(), spec);
    }
    if (spec.type != '\0' &&
        std::string_view("bdnoxXc").find(spec.type) == std::string_view::npos) {
      ev_.fail("Unknown format code '{}' for object of type 'int'", spec.type);
    }
    if (spec.precision >= 0) ev_.fail("Precision not allowed in integer format specifier");
    if (spec.type == 'c') {
      const Int c = value.integer();
      if (c < 0 || c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) {
        ev_.fail("%c arg not in range(0x110000)");
      }
      std::string out;
      append_code_point(out, static_cast<uint32_t>(c));
      return out;
    }
    return format_int(value.integer(), spec, false);
  }

  void parse(std::string_view text, Spec& spec, bool& zero) {
    size_t at = 0;
    size_t second = 0;
    decode(text, second);
    const auto aligns = [&](size_t i) {
      return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    if (aligns(second)) {
      spec.fill = text.substr(0, second);
      spec.align = text[second];
      at = second + 1;
    } else if (aligns(0)) {
      spec.align = text[0];
      at = 1;
    }
    const auto take = [&](std::string_view any) -> char {
      if (at < text.size() && any.find(text[at]) != std::string_view::npos) return text[at++];
      return '\0';
    };
    if (const char c = take("+- ")) spec.sign = c;
    spec.alternate = take("#") != '\0';
    if (take("0")) {
      zero = true;
      if (!spec.align) spec.fill.assign(1, '0');
    }
    const auto digits = [&] {
      int64_t n = 0;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
        n = std::min<int64_t>(n * 10 + (text[at++] - '0'), 1 << 30);
      }
      return n;
    };
    spec.width = digits();
    spec.grouping = take(",_");
    if (take(".")) {
      if (at >= text.size() || text[at] < '0' || text[at] > '9') {
        ev_.fail("Format specifier missing precision");
      }
      spec.precision = digits();
    }
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size()) ev_.fail("Invalid format specifier");
  }

  Evaluator& ev_;
  const CallArguments& arguments_;
  bool manual_ = false;
  size_t automatic_ = 0;
};

}  // namespace

Value format_percent(Evaluator& ev, const String& format, const Value& arguments) {
  return ev.make_string(PercentFormatter(ev, format, arguments).run(), format.safe);
}

Value format_braces(Evaluator& ev, const String& format, const CallArguments& arguments) {
  return ev.make_string(BraceFormatter(ev, arguments).run(format.text, 0), format.safe);
}

}  // namespace flare::frontend::jinja
