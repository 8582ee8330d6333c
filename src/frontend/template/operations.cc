// Python's operators on values: arithmetic, comparison, membership, subscripts, truth.
#include "frontend/template/operations.h"

#include <algorithm>
#include <cmath>

#include "frontend/template/evaluator.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(Evaluator& ev, BinaryOp op, const Value& a, const Value& b) {
  ev.fail("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<size_t>(op)],
          type_name(a), type_name(b));
}

Value join_strings(Evaluator& ev, const String& a, const String& b) {
  MarkedText out;
  const bool safe = a.safe || b.safe;
  ev.check_size(a.text.size() + b.text.size());
  out.append(safe && !a.safe ? escape_html(a.text) : a.text);
  out.append(safe && !b.safe ? escape_html(b.text) : b.text);
  return ev.make_string(std::move(out), safe);
}

Value add(Evaluator& ev, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return join_strings(ev, a.string(), b.string());
  if (a.is_sequence() && a.kind() == b.kind()) {
    std::vector<Value> items = a.list().items;
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return ev.make_list(std::move(items), a.kind());
  }
  if (a.is_string() || a.is_sequence()) {
    const std::string_view type = a.is_string() ? "str" : type_name(a);
    ev.fail("can only concatenate {} (not \"{}\") to {}", type, type_name(b), type);
  }
  unsupported(ev, BinaryOp::kAdd, a, b);
}

Value repeat(Evaluator& ev, const Value& sequence, Int times) {
  const auto n = static_cast<uint64_t>(std::clamp<Int>(times, 0, Int{1} << 40));
  if (sequence.is_string()) {
    const MarkedText& text = sequence.string().text;
    if (!text.empty()) ev.check_size(n > (uint64_t{1} << 30) ? n : n * text.size());
    MarkedText out;
    for (uint64_t i = 0; i < n && !text.empty(); ++i) out.append(text);
    return ev.make_string(std::move(out), sequence.string().safe);
  }
  const std::vector<Value>& items = sequence.list().items;
  std::vector<Value> out;
  if (!items.empty()) {
    if (n > ev.steps_left()) ev.step(n);
    ev.step(n * items.size());
    for (uint64_t i = 0; i < n; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return ev.make_list(std::move(out), sequence.kind());
}

Value multiply_sequence(Evaluator& ev, const Value& a, const Value& b) {
  const bool left = a.is_string() || a.is_sequence();
  const bool right = b.is_string() || b.is_sequence();
  if (left && b.is_integral()) return repeat(ev, a, b.integer());
  if (right && a.is_integral()) return repeat(ev, b, a.integer());
  if (left || right) {
    ev.fail("can't multiply sequence by non-int of type '{}'", type_name(left ? b : a));
  }
  unsupported(ev, BinaryOp::kMul, a, b);
}

Int floor_divide(Int a, Int b) {
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

double float_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) r += b;
  return r == 0 ? std::copysign(0.0, b) : r;
}

double float_floor_divide(double a, double b) {
  const double mod = float_mod(a, b);
  const double quotient = (a - mod) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value power_int(Evaluator& ev, Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) ev.fail("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  // Beyond 128 doublings anything but 0, 1 and -1 has overflowed.
  if (base == 0 || base == 1) return Value(exponent == 0 ? Int{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? Int{1} : Int{-1});
  for (Int i = 0; i < exponent; ++i) result = multiply_int(ev, result, base);
  return Value(result);
}

Value arithmetic_int(Evaluator& ev, BinaryOp op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case BinaryOp::kAdd:
      return Value(add_int(ev, a, b));
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(a, b, &out)) ev.fail("integer overflow in -");
      return Value(out);
    case BinaryOp::kMul:
      return Value(multiply_int(ev, a, b));
    case BinaryOp::kDiv:
      if (b == 0) ev.fail("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod: {
      if (b == 0) ev.fail("integer division or modulo by zero");
      if (b == -1) {
        if (op == BinaryOp::kMod) return Value(Int{0});
        return Value(multiply_int(ev, a, -1));
      }
      const Int q = floor_divide(a, b);
      return Value(op == BinaryOp::kFloorDiv ? q : a - q * b);
    }
    case BinaryOp::kPow:
      return power_int(ev, a, b);
  }
  return Value();
}

Value arithmetic_float(Evaluator& ev, BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value(a + b);
    case BinaryOp::kSub:
      return Value(a - b);
    case BinaryOp::kMul:
      return Value(a * b);
    case BinaryOp::kDiv:
      if (b == 0) ev.fail("float division by zero");
      return Value(a / b);
    case BinaryOp::kFloorDiv:
      if (b == 0) ev.fail("float floor division by zero");
      return Value(float_floor_divide(a, b));
    case BinaryOp::kMod:
      if (b == 0) ev.fail("float modulo");
      return Value(float_mod(a, b));
    case BinaryOp::kPow:
      break;
  }
  if (a == 0 && b < 0) ev.fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
    ev.fail("complex numbers are not supported");
  }
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    ev.fail("(34, 'Numerical result out of range')");
  }
  return Value(result);
}

// Three-way order of two values that have one.
int order(Evaluator& ev, const Value& a, const Value& b, std::string_view symbol) {
  if (a.is_undefined()) ev.fail_undefined(a);
  if (b.is_undefined()) ev.fail_undefined(b);
  if (a.is_integral() && b.is_integral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  }
  if (a.is_number() && b.is_number()) return a.real() < b.real() ? -1 : a.real() > b.real();
  if (a.is_string() && b.is_string()) {
    // Byte order of UTF-8 is code point order.
    const int c = a.string().bytes().compare(b.string().bytes());
    return c < 0 ? -1 : c > 0;
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto& x = a.list().items;
    const auto& y = b.list().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i])) return order(ev, x[i], y[i], symbol);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  ev.fail("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a),
          type_name(b));
}

bool is_nan(const Value& v) { return v.is(Kind::kFloat) && std::isnan(v.real()); }

}  // namespace

Int add_int(Evaluator& ev, Int a, Int b) {
  Int out = 0;
  if (__builtin_add_overflow(a, b, &out)) ev.fail("integer overflow in +");
  return out;
}

Int multiply_int(Evaluator& ev, Int a, Int b) {
  Int out = 0;
  if (__builtin_mul_overflow(a, b, &out)) ev.fail("integer overflow in *");
  return out;
}

Value binary(Evaluator& ev, BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::kMod && a.is_string()) return format_percent(ev, a.string(), b);
  if (a.is_undefined()) ev.fail_undefined(a);
  if (b.is_undefined()) ev.fail_undefined(b);
  if (a.is_integral() && b.is_integral()) {
    return arithmetic_int(ev, op, a.integer(), b.integer());
  }
  if (a.is_number() && b.is_number()) return arithmetic_float(ev, op, a.real(), b.real());
  if (op == BinaryOp::kAdd) return add(ev, a, b);
  if (op == BinaryOp::kMul) return multiply_sequence(ev, a, b);
  unsupported(ev, op, a, b);
}

Value negate(Evaluator& ev, const Value& value) {
  if (value.is_undefined()) ev.fail_undefined(value);
  if (value.is(Kind::kFloat)) return Value(-value.real());
  if (value.is_integral()) return Value(multiply_int(ev, value.integer(), -1));
  ev.fail("bad operand type for unary -: '{}'", type_name(value));
}

bool less(Evaluator& ev, const Value& a, const Value& b, std::string_view symbol) {
  if (is_nan(a) || is_nan(b)) return false;
  return order(ev, a, b, symbol) < 0;
}

bool compare(Evaluator& ev, CompareOp op, const Value& a, const Value& b) {
  const bool nan = is_nan(a) || is_nan(b);
  switch (op) {
    case CompareOp::kEq:
      return equal(a, b);
    case CompareOp::kNe:
      return !equal(a, b);
    case CompareOp::kLt:
      return order(ev, a, b, "<") < 0 && !nan;
    case CompareOp::kLe:
      return order(ev, a, b, "<=") <= 0 && !nan;
    case CompareOp::kGt:
      return order(ev, a, b, ">") > 0 && !nan;
    case CompareOp::kGe:
      return order(ev, a, b, ">=") >= 0 && !nan;
    case CompareOp::kIn:
      return contains(ev, b, a);
    case CompareOp::kNotIn:
      return !contains(ev, b, a);
  }
  return false;
}

bool contains(Evaluator& ev, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        ev.fail("'in <string>' requires string as left operand, not {}", type_name(item));
      }
      ev.work(container.string().bytes().size());
      return find_text(container.string().bytes(), item.string().bytes(), 0,
                       container.string().bytes().size()) != kNotFound;
    case Kind::kDict:
      if (!hashable(item)) ev.fail("unhashable type: '{}'", type_name(item));
      return container.dict().find(item) != nullptr;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kUndefined: {
      Cursor cursor(ev, container);
      for (Value other; cursor.next(other);) {
        if (equal(other, item)) return true;
      }
      return false;
    }
    default:
      ev.fail("argument of type '{}' is not iterable", type_name(container));
  }
}

namespace {

struct Slice {
  int64_t begin, end, step, count;
};

// Python's slice.indices.
Slice resolve_slice(Evaluator& ev, int64_t n, const Value& begin, const Value& end,
                    const Value& step) {
  for (const Value* v : {&begin, &end, &step}) {
    if (!v->is_none() && !v->is_integral()) {
      ev.fail("slice indices must be integers or None or have an __index__ method");
    }
  }
  const Int s = step.is_none() ? Int{1} : step.integer();
  if (s == 0) ev.fail("slice step cannot be zero");
  const Int low = s > 0 ? 0 : -1, high = s > 0 ? n : n - 1;
  const auto clamp = [&](const Value& v, Int otherwise) {
    if (v.is_none()) return otherwise;
    Int i = v.integer();
    if (i < 0) i += n;
    return std::clamp(i, low, high);
  };
  const Int b = clamp(begin, s > 0 ? low : high), e = clamp(end, s > 0 ? high : low);
  const Int stride = std::clamp<Int>(s, -(Int{1} << 40), Int{1} << 40);
  Int count = stride > 0 ? (e - b + stride - 1) / stride : (b - e - stride - 1) / -stride;
  if (stride > 0 ? b >= e : b <= e) count = 0;
  return {static_cast<int64_t>(b), static_cast<int64_t>(e), static_cast<int64_t>(stride),
          static_cast<int64_t>(count)};
}

Value slice_string(Evaluator& ev, const String& string, const Slice& s) {
  if (s.count == 0) return ev.make_string(MarkedText(), string.safe);
  const auto offset = [&](int64_t i) {
    return string.ascii() ? static_cast<size_t>(i)
                          : byte_offset(string.bytes(), static_cast<size_t>(i));
  };
  if (s.step == 1) {
    return ev.make_string(string.text.slice(offset(s.begin), offset(s.end)), string.safe);
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < string.bytes().size(); decode(string.bytes(), at)) offsets.push_back(at);
  offsets.push_back(string.bytes().size());
  MarkedText out;
  for (int64_t k = 0, i = s.begin; k < s.count; ++k, i += s.step) {
    const auto index = static_cast<size_t>(i);
    out.append(string.text.slice(offsets[index], offsets[index + 1]));
  }
  ev.work(string.bytes().size() * 16);
  return ev.make_string(std::move(out), string.safe);
}

}  // namespace

Value slice(Evaluator& ev, const Value& value, const Value& begin, const Value& end,
            const Value& step) {
  switch (value.kind()) {
    case Kind::kUndefined:
      ev.fail_undefined(value);
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      break;
    case Kind::kDict:
      ev.fail("unhashable type: 'slice'");
    default:
      ev.fail("'{}' object is not subscriptable", type_name(value));
  }
  const Slice s = resolve_slice(ev, ev.length(value), begin, end, step);
  if (value.is_string()) return slice_string(ev, value.string(), s);
  if (value.is(Kind::kRange)) {
    const Range& range = value.range();
    auto* out = new Range;
    Value result(Kind::kRange, out);
    out->begin = range.at(s.begin);
    out->end = range.at(s.end);
    out->step = multiply_int(ev, range.step, s.step);
    return result;
  }
  std::vector<Value> items;
  ev.step(static_cast<uint64_t>(s.count) / 16);
  for (int64_t k = 0, i = s.begin; k < s.count; ++k, i += s.step) {
    items.push_back(value.list().items[static_cast<size_t>(i)]);
  }
  return ev.make_list(std::move(items), value.kind());
}

}  // namespace flare::frontend::jinja
