// object.name and object[key], and the methods of every type but str.
#include <algorithm>
#include <cmath>

#include "frontend/template/builtins.h"
#include "frontend/template/evaluator.h"
#include "frontend/template/loop.h"
#include "frontend/template/operations.h"
#include "frontend/template/string_methods.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

Value make_view(const Value& dict, DictView::Part part) {
  auto* view = new DictView;
  view->dict = dict;
  view->depth = depth_of(dict);
  view->part = part;
  return Value(Kind::kDictView, view);
}

template <DictView::Part part>
Value view_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "items", arguments, {}, 0);
  return make_view(self, part);
}

Value get_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  if (!arguments.keywords.empty()) ev.fail("get() takes no keyword arguments");
  const Parameters p(ev, "get", arguments, {"key", "default"}, 1);
  if (!hashable(p[0])) ev.fail("unhashable type: '{}'", type_name(p[0]));
  const Value* value = self.dict().find(p[0]);
  return value ? *value : p[1];
}

Value copy_dict(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "copy", arguments, {}, 0);
  return ev.make_dict(self.dict().items);
}

Value copy_list(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "copy", arguments, {}, 0);
  return ev.make_list(self.list().items);
}

Value count_in_list(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "count", arguments, {"value"}, 1);
  Int n = 0;
  Cursor cursor(ev, self);
  for (Value item; cursor.next(item);) n += equal(item, p[0]) ? 1 : 0;
  return Value(n);
}

Value index_in_list(Evaluator& ev, const Value& self, CallArguments& arguments) {
  if (self.is(Kind::kRange) && arguments.positional.size() != 1) {
    ev.fail("range.index() takes exactly one argument ({} given)", arguments.positional.size());
  }
  const Parameters p(ev, "index", arguments, {"value", "start", "stop"}, 1);
  const auto n = static_cast<Int>(ev.length(self));
  const auto bound = [&](size_t i, Int otherwise) {
    const Int v = p.integer(i, otherwise);
    return std::clamp<Int>(v < 0 ? v + n : v, 0, n);
  };
  const Int end = bound(2, n);
  for (Int i = bound(1, 0); i < end; ++i) {
    ev.step();
    const Value item = self.is(Kind::kRange) ? Value(self.range().at(i))
                                             : self.list().items[static_cast<size_t>(i)];
    if (equal(item, p[0])) return Value(i);
  }
  ev.fail("{} is not in list", to_repr(p[0]).text());
}

// The changes of a list that the sandbox permits: this one and clear.
Value pop_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "pop", arguments, {"index"}, 0);
  auto& items = self.list().items;
  Int i = p.integer(0, -1);
  if (items.empty()) ev.fail("pop from empty list");
  if (i < 0) i += static_cast<Int>(items.size());
  if (i < 0 || i >= static_cast<Int>(items.size())) ev.fail("pop index out of range");
  const auto it = items.begin() + static_cast<ptrdiff_t>(i);
  Value value = std::move(*it);
  items.erase(it);
  return value;
}

Value clear_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "clear", arguments, {}, 0);
  self.list().items.clear();
  return Value();
}

template <bool only_ones>
Value bits_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "bit_length", arguments, {}, 0);
  Int n = 0;
  auto magnitude = static_cast<unsigned __int128>(self.integer());
  if (self.integer() < 0) magnitude = 0 - magnitude;
  for (; magnitude != 0; magnitude >>= 1) n += only_ones ? static_cast<Int>(magnitude & 1) : 1;
  return Value(n);
}

Value conjugate_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "conjugate", arguments, {}, 0);
  return self.is(Kind::kFloat) ? self : Value(self.integer());
}

Value is_integer_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  const Parameters p(ev, "is_integer", arguments, {}, 0);
  return Value(std::isfinite(self.real()) && std::floor(self.real()) == self.real());
}

Value cycle_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  if (arguments.positional.empty()) ev.fail("no items for cycling given");
  const auto n = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(self.loop().index0 % n)];
}

Value changed_method(Evaluator& ev, const Value& self, CallArguments& arguments) {
  Loop& loop = self.loop();
  bool same = loop.changed_called && loop.last_changed.size() == arguments.positional.size();
  for (size_t i = 0; same && i < loop.last_changed.size(); ++i) {
    same = equal(loop.last_changed[i], arguments.positional[i]);
  }
  if (!loop.changed_called) ev.release_at_end(self);
  loop.changed_called = true;
  loop.last_changed = arguments.positional;
  return Value(!same);
}

Value next_method(Evaluator&, const Value& self, CallArguments&) {
  Cycler& cycler = self.cycler();
  Value value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}

Value reset_method(Evaluator&, const Value& self, CallArguments&) {
  self.cycler().at = 0;
  return Value();
}

struct Entry {
  Kind kind;
  std::string_view name;
  MethodFunction method;
};

constexpr Entry kMethods[] = {
    {Kind::kDict, "items", view_method<DictView::Part::kItems>},
    {Kind::kDict, "keys", view_method<DictView::Part::kKeys>},
    {Kind::kDict, "values", view_method<DictView::Part::kValues>},
    {Kind::kDict, "get", get_method},
    {Kind::kDict, "copy", copy_dict},
    {Kind::kList, "copy", copy_list},
    {Kind::kList, "count", count_in_list},
    {Kind::kList, "index", index_in_list},
    {Kind::kList, "pop", pop_method},
    {Kind::kList, "clear", clear_method},
    {Kind::kTuple, "count", count_in_list},
    {Kind::kTuple, "index", index_in_list},
    {Kind::kRange, "count", count_in_list},
    {Kind::kRange, "index", index_in_list},
    {Kind::kInt, "bit_length", bits_method<false>},
    {Kind::kInt, "bit_count", bits_method<true>},
    {Kind::kInt, "conjugate", conjugate_method},
    {Kind::kBool, "bit_length", bits_method<false>},
    {Kind::kBool, "bit_count", bits_method<true>},
    {Kind::kBool, "conjugate", conjugate_method},
    {Kind::kFloat, "is_integer", is_integer_method},
    {Kind::kFloat, "conjugate", conjugate_method},
    {Kind::kLoop, "cycle", cycle_method},
    {Kind::kLoop, "changed", changed_method},
    {Kind::kCycler, "next", next_method},
    {Kind::kCycler, "reset", reset_method},
};

bool loop_attribute(Evaluator& ev, Loop& loop, std::string_view name, Value& out) {
  if (name == "index") return out = ev.make_int(loop.index0 + 1), true;
  if (name == "index0") return out = ev.make_int(loop.index0), true;
  if (name == "revindex") return out = ev.make_int(loop.length() - loop.index0), true;
  if (name == "revindex0") return out = ev.make_int(loop.length() - loop.index0 - 1), true;
  if (name == "first") return out = Value(loop.index0 == 0), true;
  if (name == "last") return out = Value(loop.peek() == nullptr), true;
  if (name == "length") return out = ev.make_int(loop.length()), true;
  if (name == "depth") return out = ev.make_int(loop.depth0 + 1), true;
  if (name == "depth0") return out = ev.make_int(loop.depth0), true;
  if (name == "previtem") {
    out = loop.index0 == 0 ? ev.make_undefined("there is no previous item") : loop.before;
    return true;
  }
  if (name == "nextitem") {
    const Value* next = loop.peek();
    out = next ? *next : ev.make_undefined("there is no next item");
    return true;
  }
  return false;
}

// What Python's getattr finds; false if nothing.
bool python_attribute(Evaluator& ev, const Value& object, std::string_view name, Value& out) {
  if (const MethodFunction method = find_method(object, name)) {
    const std::string repr =
        fmt::format("<built-in method {} of {} object>", name, type_name(object));
    out = ev.make_function(
        object,
        [object, method](Evaluator& e, CallArguments& arguments) {
          return method(e, object, arguments);
        },
        repr, "builtin_function_or_method");
    return true;
  }
  if (is_unsafe_method(object, name)) {
    out = ev.make_undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
    return true;
  }
  switch (object.kind()) {
    case Kind::kNamespace:
      if (const Value* value = object.name_space().find(name)) return out = *value, true;
      return false;
    case Kind::kLoop:
      return loop_attribute(ev, object.loop(), name, out);
    case Kind::kFunction:
      return object.function().macro && ev.macro_attribute(*object.function().macro, name, out);
    case Kind::kCycler:
      if (name == "current") return out = object.cycler().items[object.cycler().at], true;
      if (name == "pos") return out = Value(static_cast<Int>(object.cycler().at)), true;
      if (name == "items") return out = ev.make_list(object.cycler().items, Kind::kTuple), true;
      return false;
    case Kind::kTuple:
      if (!object.list().is_group || (name != "grouper" && name != "list")) return false;
      return out = object.list().items[name == "list" ? 1 : 0], true;
    case Kind::kRange:
      if (name == "start") return out = Value(object.range().begin), true;
      if (name == "stop") return out = Value(object.range().end), true;
      if (name == "step") return out = Value(object.range().step), true;
      return false;
    case Kind::kBool:
    case Kind::kInt:
      if (name == "real" || name == "numerator") return out = Value(object.integer()), true;
      if (name == "imag") return out = Value(Int{0}), true;
      if (name == "denominator") return out = Value(Int{1}), true;
      return false;
    case Kind::kFloat:
      if (name == "real") return out = object, true;
      if (name == "imag") return out = Value(0.0), true;
      return false;
    default:
      return false;
  }
}

// What Python's object[key] finds; false if it raises a lookup or type error.
bool python_item(Evaluator& ev, const Value& object, const Value& key, Value& out) {
  if (object.is(Kind::kDict)) {
    const Value* value = hashable(key) ? object.dict().find(key) : nullptr;
    return value && (out = *value, true);
  }
  const bool indexed = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
  if (!indexed || !key.is_integral()) return false;
  const Int n = ev.length(object);
  const Int i = key.integer() < 0 ? key.integer() + n : key.integer();
  if (i < 0 || i >= n) return false;
  if (object.is_sequence()) return out = object.list().items[static_cast<size_t>(i)], true;
  if (object.is(Kind::kRange)) return out = Value(object.range().at(i)), true;
  out = slice(ev, object, Value(i), Value(i + 1), Value());
  return true;
}

}  // namespace

MethodFunction find_method(const Value& object, std::string_view name) {
  if (object.is_string()) return find_string_method(name);
  for (const Entry& entry : kMethods) {
    if (entry.kind == object.kind() && entry.name == name) return entry.method;
  }
  return nullptr;
}

bool is_unsafe_method(const Value& object, std::string_view name) {
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kList[] = {"append", "reverse", "insert",
                                               "sort",   "extend",  "remove"};
  const auto in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  // What an undefined value has of its own; everything else on it fails.
  static constexpr std::string_view kUndefined[] = {"__add__",
                                                    "__aiter__",
                                                    "__bool__",
                                                    "__call__",
                                                    "__class__",
                                                    "__complex__",
                                                    "__delattr__",
                                                    "__dir__",
                                                    "__div__",
                                                    "__doc__",
                                                    "__eq__",
                                                    "__float__",
                                                    "__floordiv__",
                                                    "__format__",
                                                    "__ge__",
                                                    "__getattr__",
                                                    "__getattribute__",
                                                    "__getitem__",
                                                    "__getstate__",
                                                    "__gt__",
                                                    "__hash__",
                                                    "__init__",
                                                    "__init_subclass__",
                                                    "__int__",
                                                    "__iter__",
                                                    "__le__",
                                                    "__len__",
                                                    "__lt__",
                                                    "__mod__",
                                                    "__module__",
                                                    "__mul__",
                                                    "__ne__",
                                                    "__neg__",
                                                    "__new__",
                                                    "__pos__",
                                                    "__pow__",
                                                    "__radd__",
                                                    "__rdiv__",
                                                    "__reduce__",
                                                    "__reduce_ex__",
                                                    "__repr__",
                                                    "__rfloordiv__",
                                                    "__rmod__",
                                                    "__rmul__",
                                                    "__rpow__",
                                                    "__rsub__",
                                                    "__rtruediv__",
                                                    "__setattr__",
                                                    "__sizeof__",
                                                    "__str__",
                                                    "__sub__",
                                                    "__subclasshook__",
                                                    "__truediv__"};
  if (object.is(Kind::kDict)) return in(kDict);
  if (object.is_undefined()) return in(kUndefined);
  if (object.is(Kind::kList)) return in(kList);
  return name.starts_with("__") && name.ends_with("__") && !object.is(Kind::kDict);
}

Value Evaluator::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined() && !is_unsafe_method(object, name)) fail_undefined(object);
  Value out;
  if (python_attribute(*this, object, name, out)) return out;
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.dict().find(name)) return *value;
  }
  if (object.is(Kind::kSelf) && block_reference(name, out)) return out;
  return make_undefined(object, make_string(name));
}

Value Evaluator::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  Value out;
  if (python_item(*this, object, key, out)) return out;
  if (key.is_string()) {
    if (object.is(Kind::kSelf) && block_reference(key.string().bytes(), out)) return out;
    if (python_attribute(*this, object, key.string().bytes(), out)) return out;
  }
  return make_undefined(object, key);
}

}  // namespace flare::frontend::jinja
