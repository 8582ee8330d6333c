// Filters over lists, mappings and iterators.
#include <algorithm>
#include <charconv>
#include <memory>
#include <unordered_map>

#include "frontend/template/evaluator.h"
#include "frontend/template/filters.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"

namespace flare::frontend::jinja {
namespace {

// Reads an attribute path such as "a.b.0" from values, as jinja2's make_attrgetter.
class Getter {
 public:
  Getter(Evaluator& ev, const Value& path, bool lower = false, Value otherwise = Value())
      : ev_(&ev), lower_(lower), otherwise_(std::move(otherwise)) {
    if (path.is_none()) return;
    if (!path.is_string()) {
      parts_.push_back(path);
      return;
    }
    for (const MarkedText& part : split(path.string().text, ".", kAll)) {
      const std::string& text = part.text();
      int64_t index = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
      const bool number =
          error == std::errc() && end == text.data() + text.size() && text[0] != '-';
      parts_.push_back(number ? ev.make_int(index) : ev.make_string(part));
    }
  }

  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      item = ev_->item(item, part);
      if (item.is_undefined() && !otherwise_.is_none()) item = otherwise_;
    }
    if (lower_ && item.is_string()) {
      return ev_->make_string(map_case(item.string().text, CaseMap::kLower));
    }
    return item;
  }

 private:
  Evaluator* ev_;
  std::vector<Value> parts_;
  bool lower_;
  Value otherwise_;
};

Value default_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "default", arguments, {"value", "default_value", "boolean"}, 1);
  if (p[0].is_undefined() || (p.flag(2, false) && !truthy(p[0]))) {
    return p.has(1) ? p[1] : ev.make_string("");
  }
  return p[0];
}

// Under autoescape one safe part makes the whole safe and escapes the others.
Value join_escaped(Evaluator& ev, const Value& separator, const Getter& getter, Cursor& cursor) {
  std::vector<Value> items;
  bool safe = is_safe(separator);
  for (Value item; cursor.next(item);) {
    items.push_back(getter(item));
    safe |= is_safe(items.back());
  }
  const auto text = [&](const Value& value) {
    return safe && !is_safe(value) ? escape_html(to_text(value)) : to_text(value);
  };
  const MarkedText between = separator.is_none() ? MarkedText() : text(separator);
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(between);
    out.append(text(items[i]));
    ev.check_size(out.size());
  }
  return ev.make_string(std::move(out), safe);
}

Value join_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "join", arguments, {"value", "d", "attribute"}, 1);
  const MarkedText separator = p.has(1) ? to_text(p[1]) : MarkedText();
  const Getter getter(ev, p[2]);
  MarkedText out;
  Cursor cursor(ev, p[0]);
  if (ev.escaping()) return join_escaped(ev, p[1], getter, cursor);
  bool first = true;
  for (Value item; cursor.next(item); first = false) {
    if (!first) out.append(separator);
    out.append(to_text(getter(item)));
    ev.check_size(out.size());
  }
  return ev.make_string(std::move(out));
}

Value first_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "first", arguments, {"seq"}, 1);
  Cursor cursor(ev, p[0]);
  Value item;
  if (cursor.next(item)) return item;
  return ev.make_undefined("No first item, sequence was empty.");
}

Value last_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "last", arguments, {"seq"}, 1);
  if (p[0].is(Kind::kIterator)) ev.fail("'{}' object is not reversible", type_name(p[0]));
  if (!p[0].is_string() && !p[0].is_sequence() && !p[0].is(Kind::kRange)) {
    const std::vector<Value> items = ev.to_vector(p[0]);
    return items.empty() ? ev.make_undefined("No last item, sequence was empty.") : items.back();
  }
  const int64_t n = ev.length(p[0]);
  if (n == 0) return ev.make_undefined("No last item, sequence was empty.");
  return ev.item(p[0], ev.make_int(n - 1));
}

// Chance would give one conversation several prompts and defeat every prefix cache.
Value random_filter(Evaluator& ev, CallArguments&) {
  ev.fail("filter 'random' is refused: a prompt must not depend on chance");
}

Value list_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "list", arguments, {"value"}, 1);
  return ev.make_list(ev.to_vector(p[0]));
}

Value items_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "items", arguments, {"value"}, 1);
  const Value value = p[0];
  auto at = std::make_shared<size_t>(0);
  return ev.make_iterator(value, [&ev, value, at](Value& item) {
    if (value.is_undefined()) return false;
    if (!value.is(Kind::kDict)) ev.fail("Can only get item pairs from a mapping.");
    const auto& items = value.dict().items;
    if (*at >= items.size()) return false;
    const auto& [key, member] = items[(*at)++];
    item = ev.make_list({key, member}, Kind::kTuple);
    return true;
  });
}

// Stable; `reverse` keeps equal items in their order, as Python's sorted.
void sort_by_key(Evaluator& ev, std::vector<Value>& items, const std::vector<Value>& keys,
                 bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // The comparison may throw; std::stable_sort survives that.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    ev.work(64);
    return reverse ? less(ev, keys[b], keys[a]) : less(ev, keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
}

Value dict_sort_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "dictsort", arguments, {"value", "case_sensitive", "by", "reverse"}, 1);
  const std::string by = p.has(2) ? to_text(p[2]).text() : "key";
  if (by != "key" && by != "value") ev.fail("You can only sort by either \"key\" or \"value\"");
  if (p[0].is_undefined()) ev.fail_undefined(p[0]);
  if (!p[0].is(Kind::kDict)) ev.fail("'{} object' has no attribute 'items'", type_name(p[0]));
  const Getter key_of(ev, Value(), !p.flag(1, false));
  std::vector<Value> items, keys;
  for (const auto& [key, value] : p[0].dict().items) {
    ev.step();
    items.push_back(ev.make_list({key, value}, Kind::kTuple));
    keys.push_back(key_of(by == "key" ? key : value));
  }
  sort_by_key(ev, items, keys, p.flag(3, false));
  return ev.make_list(std::move(items));
}

Value sort_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "sort", arguments, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<Getter> getters;
  const bool lower = !p.flag(2, false);
  if (p[3].is_string()) {
    for (MarkedText& part : split(p[3].string().text, ",", kAll)) {
      getters.emplace_back(ev, ev.make_string(std::move(part)), lower);
    }
  } else {
    getters.emplace_back(ev, p[3], lower);
  }
  std::vector<Value> items = ev.to_vector(p[0]), keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const Getter& getter : getters) key.push_back(getter(item));
    keys.push_back(ev.make_list(std::move(key)));
  }
  sort_by_key(ev, items, keys, p.flag(1, false));
  return ev.make_list(std::move(items));
}

Value unique_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "unique", arguments, {"value", "case_sensitive", "attribute"}, 1);
  auto cursor = std::make_shared<Cursor>(ev, p[0]);
  auto seen = std::make_shared<Dict>();
  const Getter getter(ev, p[2], !p.flag(1, false));
  return ev.make_iterator(p[0], [&ev, cursor, seen, getter](Value& item) {
    while (cursor->next(item)) {
      Value key = getter(item);
      if (!hashable(key)) ev.fail("unhashable type: '{}'", type_name(key));
      if (seen->find(key)) continue;
      seen->set(std::move(key), Value());
      return true;
    }
    return false;
  });
}

template <bool want_max>
Value extreme_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "min", arguments, {"value", "case_sensitive", "attribute"}, 1);
  const Getter getter(ev, p[2], !p.flag(1, false));
  Cursor cursor(ev, p[0]);
  Value best, best_key;
  if (!cursor.next(best)) return ev.make_undefined("No aggregated item, sequence was empty.");
  best_key = getter(best);
  for (Value item; cursor.next(item);) {
    Value key = getter(item);
    const bool better = want_max ? less(ev, best_key, key, ">") : less(ev, key, best_key);
    if (better) best = item, best_key = std::move(key);
  }
  return best;
}

Value sum_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "sum", arguments, {"iterable", "attribute", "start"}, 1);
  Value total = p.has(2) ? p[2] : Value(Int{0});
  if (total.is_string()) ev.fail("sum() can't sum strings [use ''.join(seq) instead]");
  const Getter getter(ev, p[1]);
  Cursor cursor(ev, p[0]);
  for (Value item; cursor.next(item);) total = binary(ev, BinaryOp::kAdd, total, getter(item));
  return total;
}

Value reverse_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "reverse", arguments, {"value"}, 1);
  if (p[0].is_string()) return slice(ev, p[0], Value(), Value(), Value(Int{-1}));
  const bool consumed = p[0].is(Kind::kIterator) || p[0].is_undefined();
  if (!consumed && p[0].kind() < Kind::kUndefined) ev.fail("argument must be iterable");
  auto items = std::make_shared<std::vector<Value>>(ev.to_vector(p[0]));
  if (consumed) {
    std::reverse(items->begin(), items->end());
    return ev.make_list(std::move(*items));
  }
  return ev.make_iterator(
      p[0],
      [items](Value& item) {
        if (items->empty()) return false;
        item = std::move(items->back());
        items->pop_back();
        return true;
      },
      p[0].is(Kind::kList) ? "list_reverseiterator" : "reversed");
}

Value attr_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "attr", arguments, {"obj", "name"}, 2);
  if (p[0].is_undefined()) ev.fail_undefined(p[0]);
  // Unlike a dot, this never falls back to items.
  if (p[0].is(Kind::kDict) && !find_method(p[0], p.text(1).text()) &&
      !is_unsafe_method(p[0], p.text(1).text())) {
    return ev.make_undefined(p[0], p[1]);
  }
  return ev.attribute(p[0], p.text(1).text());
}

// The source and the arguments that a lazy filter holds on to, as one value for its depth.
Value holder(Evaluator& ev, const CallArguments& arguments) {
  std::vector<Value> all = arguments.positional;
  for (const auto& [key, value] : arguments.keywords) all.push_back(value);
  return ev.make_list(std::move(all));
}

// The filter that map applies; its name is the first of the further arguments.
FilterFunction mapped_filter(Evaluator& ev, const CallArguments& rest) {
  if (rest.positional.empty()) ev.fail("map requires a filter argument");
  if (!rest.positional[0].is_string()) ev.fail("map expects the name of a filter");
  const std::string& name = rest.positional[0].string().bytes();
  const FilterFunction filter = find_filter(name);
  if (!filter) ev.fail("No filter named '{}'.", name);
  return filter;
}

// map(filter name, …) or map(attribute=…, default=…).
Value map_filter(Evaluator& ev, CallArguments& arguments) {
  auto cursor_of = [&ev](const Value& v) { return std::make_shared<Cursor>(ev, v); };
  const Value source = arguments.positional[0];
  const Value held = holder(ev, arguments);
  const bool attribute = arguments.positional.size() == 1 && !arguments.keywords.empty() &&
                         std::any_of(arguments.keywords.begin(), arguments.keywords.end(),
                                     [](const auto& k) { return k.first == "attribute"; });
  if (attribute) {
    Value path, otherwise;
    for (const auto& [key, value] : arguments.keywords) {
      if (key == "attribute")
        path = value;
      else if (key == "default")
        otherwise = value;
      else
        ev.fail("Unexpected keyword argument '{}'", key);
    }
    if (!truthy(source)) return ev.make_iterator(source, [](Value&) { return false; });
    const Getter getter(ev, path, false, otherwise);
    return ev.make_iterator(held, [cursor = cursor_of(source), getter](Value& item) {
      if (!cursor->next(item)) return false;
      item = getter(item);
      return true;
    });
  }
  if (!truthy(source)) return ev.make_iterator(source, [](Value&) { return false; });
  auto rest = std::make_shared<CallArguments>();
  rest->positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest->keywords = arguments.keywords;
  // Everything happens when the first item is asked for, as in a Python generator.
  return ev.make_iterator(held, [&ev, source, rest, cursor = std::shared_ptr<Cursor>(),
                                 filter = FilterFunction(nullptr)](Value& item) mutable {
    if (!cursor) {
      filter = mapped_filter(ev, *rest);
      cursor = std::make_shared<Cursor>(ev, source);
    }
    if (!cursor->next(item)) return false;
    CallArguments call = *rest;
    call.positional[0] = item;
    item = filter(ev, call);
    return true;
  });
}

template <bool by_attribute, bool want>
Value select_filter(Evaluator& ev, CallArguments& arguments) {
  const Value source = arguments.positional[0];
  const Value held = holder(ev, arguments);
  auto state = std::make_shared<CallArguments>(std::move(arguments));
  struct Selection {
    std::unique_ptr<Cursor> cursor;
    std::unique_ptr<Getter> getter;
    TestFunction test = nullptr;
  };
  auto selection = std::make_shared<Selection>();
  // Everything happens when the first item is asked for, as in a Python generator.
  const auto start = [&ev, source, state, selection] {
    size_t at = 1;
    Value path;
    if (by_attribute) {
      if (state->positional.size() < 2) ev.fail("Missing parameter for attribute name");
      path = state->positional[at++];
    }
    selection->getter = std::make_unique<Getter>(ev, path);
    if (state->positional.size() > at) {
      if (!state->positional[at].is_string()) ev.fail("the name of a test is expected");
      const std::string& name = state->positional[at].string().bytes();
      selection->test = find_test(name);
      if (!selection->test) ev.fail("No test named '{}'.", name);
      state->positional.erase(state->positional.begin(),
                              state->positional.begin() + static_cast<ptrdiff_t>(at));
    }
    selection->cursor = std::make_unique<Cursor>(ev, source);
  };
  return ev.make_iterator(held, [&ev, source, state, selection, start](Value& item) {
    if (!selection->cursor) {
      if (!truthy(source)) return false;
      start();
    }
    while (selection->cursor->next(item)) {
      Value value = (*selection->getter)(item);
      bool pass = false;
      if (selection->test) {
        CallArguments call = *state;
        call.positional[0] = std::move(value);
        pass = selection->test(ev, call);
      } else {
        pass = truthy(value);
      }
      if (pass == want) return true;
    }
    return false;
  });
}

Value batch_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "batch", arguments, {"value", "linecount", "fill_with"}, 2);
  const Int n = p.integer(1, 0);
  auto cursor = std::make_shared<Cursor>(ev, p[0]);
  const Value fill = p[2];
  auto kept = std::make_shared<std::vector<Value>>();
  auto done = std::make_shared<bool>(false);
  return ev.make_iterator(holder(ev, arguments), [&ev, cursor, n, fill, kept, done](Value& out) {
    if (*done) return false;
    for (Value item; cursor->next(item);) {
      const bool full = static_cast<Int>(kept->size()) == n;
      if (full) {
        out = ev.make_list(std::exchange(*kept, {item}));
        return true;
      }
      kept->push_back(item);
    }
    *done = true;
    if (kept->empty()) return false;
    if (!fill.is_none()) {
      for (Int i = static_cast<Int>(kept->size()); i < n; ++i) {
        ev.step();
        kept->push_back(fill);
      }
    }
    out = ev.make_list(std::move(*kept));
    return true;
  });
}

Value slice_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "slice", arguments, {"value", "slices", "fill_with"}, 2);
  auto items = std::make_shared<std::vector<Value>>(ev.to_vector(p[0]));
  const Int slices = p.integer(1, 0);
  const Value fill = p[2];
  if (slices == 0) ev.fail("integer division or modulo by zero");
  auto at = std::make_shared<Int>(0);
  return ev.make_iterator(holder(ev, arguments), [&ev, items, slices, fill, at](Value& out) {
    if (*at >= slices) return false;
    const auto n = static_cast<Int>(items->size());
    const Int each = n / slices, extra = n % slices, i = (*at)++;
    const Int begin = i * each + std::min(i, extra);
    const Int end = begin + each + (i < extra ? 1 : 0);
    std::vector<Value> part(items->begin() + static_cast<ptrdiff_t>(begin),
                            items->begin() + static_cast<ptrdiff_t>(end));
    if (!fill.is_none() && i >= extra) part.push_back(fill);
    out = ev.make_list(std::move(part));
    return true;
  });
}

Value group_by_filter(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "groupby", arguments, {"value", "attribute", "default", "case_sensitive"},
                     2);
  const bool lower = !p.flag(3, false);
  const Getter key_of(ev, p[1], lower, p[2]), shown_key_of(ev, p[1], false, p[2]);
  std::vector<Value> items = ev.to_vector(p[0]), keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  sort_by_key(ev, items, keys, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < items.size();) {
    const Value key = key_of(items[begin]);
    size_t end = begin + 1;
    while (end < items.size() && equal(key_of(items[end]), key)) ++end;
    std::vector<Value> members(items.begin() + static_cast<ptrdiff_t>(begin),
                               items.begin() + static_cast<ptrdiff_t>(end));
    Value group =
        ev.make_list({shown_key_of(items[begin]), ev.make_list(std::move(members))}, Kind::kTuple);
    group.list().is_group = true;
    groups.push_back(std::move(group));
    begin = end;
  }
  return ev.make_list(std::move(groups));
}

constexpr FilterEntry kFilters[] = {
    {"default", default_filter},
    {"d", default_filter},
    {"join", join_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"random", random_filter},
    {"list", list_filter},
    {"items", items_filter},
    {"dictsort", dict_sort_filter},
    {"sort", sort_filter},
    {"unique", unique_filter},
    {"min", extreme_filter<false>},
    {"max", extreme_filter<true>},
    {"sum", sum_filter},
    {"reverse", reverse_filter},
    {"attr", attr_filter},
    {"map", map_filter},
    {"select", select_filter<false, true>},
    {"reject", select_filter<false, false>},
    {"selectattr", select_filter<true, true>},
    {"rejectattr", select_filter<true, false>},
    {"batch", batch_filter},
    {"slice", slice_filter},
    {"groupby", group_by_filter},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

FilterFunction find_filter(std::string_view name) {
  for (const auto& table :
       {text_filters(), number_filters(), sequence_filters(), web_filters(), wrap_filters()}) {
    for (const FilterEntry& entry : table) {
      if (entry.name == name) return entry.filter;
    }
  }
  return nullptr;
}

}  // namespace flare::frontend::jinja
