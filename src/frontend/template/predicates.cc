// The tests behind `is`.
#include "frontend/template/builtins.h"
#include "frontend/template/evaluator.h"
#include "frontend/template/operations.h"
#include "frontend/template/string_methods.h"

namespace flare::frontend::jinja {
namespace {

using Predicate = bool (*)(const Value&);

template <Predicate predicate>
bool unary(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "test", arguments, {"value"}, 1);
  return predicate(p[0]);
}

template <CompareOp op>
bool comparison(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "test", arguments, {"a", "b"}, 2);
  return compare(ev, op, p[0], p[1]);
}

bool remainder_is(Evaluator& ev, const Value& value, const Value& divisor, Int expected) {
  return equal(binary(ev, BinaryOp::kMod, value, divisor), Value(expected));
}

bool odd(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "odd", arguments, {"value"}, 1);
  return remainder_is(ev, p[0], Value(Int{2}), 1);
}

bool even(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "even", arguments, {"value"}, 1);
  return remainder_is(ev, p[0], Value(Int{2}), 0);
}

bool divisible_by(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "divisibleby", arguments, {"value", "num"}, 2);
  return remainder_is(ev, p[0], p[1], 0);
}

bool same_as(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "sameas", arguments, {"value", "other"}, 2);
  if (p[0].kind() != p[1].kind()) return false;
  if (p[0].is_object() && !p[0].is_string()) return p[0].object() == p[1].object();
  return equal(p[0], p[1]);
}

template <bool upper>
bool cased(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "upper", arguments, {"value"}, 1);
  return is_cased(to_text(p[0]).text(), upper);
}

bool is_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "filter", arguments, {"value"}, 1);
  if (!hashable(p[0])) ev.fail("unhashable type: '{}'", type_name(p[0]));
  return p[0].is_string() && find_filter(p[0].string().bytes()) != nullptr;
}

bool is_test(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "test", arguments, {"value"}, 1);
  if (!hashable(p[0])) ev.fail("unhashable type: '{}'", type_name(p[0]));
  return p[0].is_string() && find_test(p[0].string().bytes()) != nullptr;
}

bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is_none(); }
bool boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.boolean(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.boolean(); }
bool integer(const Value& v) { return v.is(Kind::kInt); }
bool real(const Value& v) { return v.is(Kind::kFloat); }
bool number(const Value& v) { return v.is_number(); }
bool string(const Value& v) { return v.is_string(); }
bool mapping(const Value& v) { return v.is(Kind::kDict); }
bool escaped(const Value& v) { return v.is_string() && v.string().safe; }

// What has a length and items.
bool sequence(const Value& v) {
  return v.is_string() || v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kRange) ||
         v.is_undefined();
}

bool iterable(const Value& v) { return v.is_iterable(); }

bool callable(const Value& v) {
  return v.is(Kind::kFunction) || v.is(Kind::kLoop) || v.is_undefined();
}

struct Entry {
  std::string_view name;
  TestFunction test;
};

constexpr Entry kTests[] = {
    {"defined", unary<defined>},
    {"undefined", unary<undefined>},
    {"none", unary<none>},
    {"boolean", unary<boolean>},
    {"true", unary<is_true>},
    {"false", unary<is_false>},
    {"integer", unary<integer>},
    {"float", unary<real>},
    {"number", unary<number>},
    {"string", unary<string>},
    {"mapping", unary<mapping>},
    {"sequence", unary<sequence>},
    {"iterable", unary<iterable>},
    {"callable", unary<callable>},
    {"escaped", unary<escaped>},
    {"lower", cased<false>},
    {"upper", cased<true>},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible_by},
    {"sameas", same_as},
    {"filter", is_filter},
    {"test", is_test},
    {"in", comparison<CompareOp::kIn>},
    {"==", comparison<CompareOp::kEq>},
    {"eq", comparison<CompareOp::kEq>},
    {"equalto", comparison<CompareOp::kEq>},
    {"!=", comparison<CompareOp::kNe>},
    {"ne", comparison<CompareOp::kNe>},
    {">", comparison<CompareOp::kGt>},
    {"gt", comparison<CompareOp::kGt>},
    {"greaterthan", comparison<CompareOp::kGt>},
    {">=", comparison<CompareOp::kGe>},
    {"ge", comparison<CompareOp::kGe>},
    {"<", comparison<CompareOp::kLt>},
    {"lt", comparison<CompareOp::kLt>},
    {"lessthan", comparison<CompareOp::kLt>},
    {"<=", comparison<CompareOp::kLe>},
    {"le", comparison<CompareOp::kLe>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const Entry& entry : kTests) {
    if (entry.name == name) return entry.test;
  }
  return nullptr;
}

}  // namespace flare::frontend::jinja
