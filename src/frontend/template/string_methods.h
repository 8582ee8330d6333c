// The methods of Python's str, and what filters and tests share with them.
#pragma once

#include <cstddef>
#include <string_view>

#include "frontend/marked_text.h"
#include "frontend/template/builtins.h"
#include "frontend/template/value.h"

namespace flare::frontend::jinja {

// nullptr if str has no such method that templates may call.
MethodFunction find_string_method(std::string_view name);

// self.replace(old_text, new_text, limit), all strings.
Value replace_text(Evaluator& evaluator, const Value& self, const Value& old_text,
                   const MarkedText& new_text, size_t limit);
// Pads to `width` code points with `fill` (one code point); `align` is one of < > ^.
MarkedText justify(Evaluator& evaluator, const MarkedText& text, Int width, const MarkedText& fill,
                   char align);
// str.isupper or str.islower.
bool is_cased(std::string_view text, bool upper);

}  // namespace flare::frontend::jinja
