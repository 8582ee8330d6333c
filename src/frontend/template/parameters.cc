// Sorting the arguments of a call onto parameter names.
#include <algorithm>

#include "base/error.h"
#include "frontend/template/builtins.h"
#include "frontend/template/evaluator.h"

namespace flare::frontend::jinja {

Parameters::Parameters(Evaluator& evaluator, std::string_view function, CallArguments& arguments,
                       std::initializer_list<std::string_view> names, size_t required)
    : evaluator_(evaluator), function_(function) {
  FLARE_ASSERT(names.size() <= kMax);
  if (arguments.positional.size() > names.size()) {
    evaluator.fail("{}() takes at most {} argument(s) ({} given)", function, names.size(),
                   arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = arguments.positional[i];
    given_[i] = true;
  }
  for (auto& [key, value] : arguments.keywords) {
    const auto it = std::find(names.begin(), names.end(), key);
    if (it == names.end()) {
      evaluator.fail("{}() got an unexpected keyword argument '{}'", function, key);
    }
    const auto i = static_cast<size_t>(it - names.begin());
    if (given_[i]) evaluator.fail("{}() got multiple values for argument '{}'", function, key);
    values_[i] = value;
    given_[i] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given_[i]) {
      evaluator.fail("{}() missing 1 required positional argument: '{}'", function,
                     *(names.begin() + i));
    }
  }
}

bool Parameters::flag(size_t i, bool otherwise) const {
  return given_[i] ? truthy(values_[i]) : otherwise;
}

Int Parameters::integer(size_t i, Int otherwise) const {
  if (!given_[i]) return otherwise;
  if (values_[i].is_undefined()) evaluator_.fail_undefined(values_[i]);
  if (!values_[i].is_integral()) {
    evaluator_.fail("{}(): '{}' object cannot be interpreted as an integer", function_,
                    type_name(values_[i]));
  }
  return values_[i].integer();
}

const MarkedText& Parameters::text(size_t i) const {
  if (values_[i].is_undefined()) evaluator_.fail_undefined(values_[i]);
  if (!values_[i].is_string()) {
    evaluator_.fail("{}() argument must be str, not {}", function_, type_name(values_[i]));
  }
  return values_[i].string().text;
}

}  // namespace flare::frontend::jinja
