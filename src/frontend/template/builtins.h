// The names that templates can use without defining them: filters, tests, methods, functions.
#pragma once

#include <initializer_list>
#include <string_view>

#include "frontend/template/ast.h"
#include "frontend/template/value.h"

namespace flare::frontend::jinja {

using MethodFunction = Value (*)(Evaluator&, const Value& self, CallArguments&);

// nullptr if there is none.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
MethodFunction find_method(const Value& object, std::string_view name);
// True if Python has that method on the type but the sandbox refuses it.
bool is_unsafe_method(const Value& object, std::string_view name);
// range, dict, namespace, …; false if there is no such function.
bool make_global(Evaluator& evaluator, std::string_view name, Value& out);

// Arguments of one call sorted onto parameter names. Fails on unknown, repeated and surplus ones.
class Parameters {
 public:
  // The first `required` names must be given.
  Parameters(Evaluator& evaluator, std::string_view function, CallArguments& arguments,
             std::initializer_list<std::string_view> names, size_t required);

  bool has(size_t i) const { return given_[i]; }
  const Value& operator[](size_t i) const { return values_[i]; }
  bool flag(size_t i, bool otherwise) const;
  Int integer(size_t i, Int otherwise) const;  // fails on other types
  // str(value); fails unless it is a string.
  const MarkedText& text(size_t i) const;

 private:
  static constexpr size_t kMax = 8;
  Evaluator& evaluator_;
  std::string_view function_;
  Value values_[kMax];
  bool given_[kMax] = {};
};

}  // namespace flare::frontend::jinja
