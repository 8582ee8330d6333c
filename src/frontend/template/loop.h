// The `loop` variable: where a for loop stands.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "frontend/template/value.h"

namespace flare::frontend::jinja {

struct Loop : Object {
  std::function<bool(Value&)> pull;  // the next item; false at the end
  std::deque<Value> ahead;           // pulled, not yet visited
  int64_t index0 = -1;
  int depth0 = 0;
  int64_t known_length = -1;
  Value current, before;
  bool changed_called = false;
  std::vector<Value> last_changed;
  // Renders the body for other items; empty unless the loop is recursive.
  std::function<Value(const Value& items)> recurse;

  // Moves on to the next item; false at the end.
  bool advance();
  // The item after the current one, or nullptr.
  const Value* peek();
  // Number of items; pulls them all if the source does not know.
  int64_t length();
};

inline Loop& Value::loop() const { return static_cast<Loop&>(*object()); }

}  // namespace flare::frontend::jinja
