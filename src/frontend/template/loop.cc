// The items of a for loop, fetched no earlier than the template needs them.
#include "frontend/template/loop.h"

namespace flare::frontend::jinja {

bool Loop::advance() {
  if (!peek()) return false;
  before = std::move(current);
  current = std::move(ahead.front());
  ahead.pop_front();
  ++index0;
  return true;
}

const Value* Loop::peek() {
  Value item;
  if (ahead.empty() && pull(item)) ahead.push_back(std::move(item));
  return ahead.empty() ? nullptr : &ahead.front();
}

int64_t Loop::length() {
  if (known_length < 0) {
    Value item;
    while (pull(item)) ahead.push_back(item);
    known_length = index0 + 1 + static_cast<int64_t>(ahead.size());
  }
  return known_length;
}

}  // namespace flare::frontend::jinja
