// Python's operators on values.
#pragma once

#include "frontend/template/ast.h"
#include "frontend/template/value.h"

namespace flare::frontend::jinja {

Value binary(Evaluator& evaluator, BinaryOp op, const Value& a, const Value& b);
bool compare(Evaluator& evaluator, CompareOp op, const Value& a, const Value& b);
bool contains(Evaluator& evaluator, const Value& container, const Value& item);
// a < b; fails for types without order. `symbol` names the operator in the error.
bool less(Evaluator& evaluator, const Value& a, const Value& b, std::string_view symbol = "<");
Value negate(Evaluator& evaluator, const Value& value);
// value[begin:end:step]; absent parts are none.
Value slice(Evaluator& evaluator, const Value& value, const Value& begin, const Value& end,
            const Value& step);
// format % arguments, printf style.
Value format_percent(Evaluator& evaluator, const String& format, const Value& arguments);
// format.format(*positional, **keywords).
Value format_braces(Evaluator& evaluator, const String& format, const CallArguments& arguments);
// Checked arithmetic.
Int add_int(Evaluator& evaluator, Int a, Int b);
Int multiply_int(Evaluator& evaluator, Int a, Int b);

// json.dumps. `indent`: none, a number or a text.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  MarkedText indent;
  MarkedText item_separator;
  MarkedText key_separator;
};
MarkedText dump_json(Evaluator& evaluator, const Value& value, const JsonStyle& style);

}  // namespace flare::frontend::jinja
