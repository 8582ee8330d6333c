// The functions that every template has: range, dict, namespace, cycler, joiner, lipsum,
// raise_exception, strftime_now.
#include <ctime>
#include <memory>

#include "frontend/template/builtins.h"
#include "frontend/template/evaluator.h"
#include "frontend/template/operations.h"

namespace flare::frontend::jinja {
namespace {

constexpr Int kMaxRange = 100'000;  // as jinja2's sandbox

Value range_function(Evaluator& ev, CallArguments& arguments) {
  if (arguments.positional.empty()) ev.fail("range expected at least 1 argument, got 0");
  if (!arguments.keywords.empty()) ev.fail("range() takes no keyword arguments");
  const Parameters p(ev, "range", arguments, {"start", "stop", "step"}, 1);
  auto* range = new Range;
  Value value(Kind::kRange, range);
  for (size_t i = 0; i < 3; ++i) {
    const Int v = p.integer(i, 0);
    if (v > (Int{1} << 62) || v < -(Int{1} << 62)) ev.fail("range() argument is too large");
  }
  range->begin = p.has(1) ? p.integer(0, 0) : 0;
  range->end = p.has(1) ? p.integer(1, 0) : p.integer(0, 0);
  range->step = p.integer(2, 1);
  if (range->step == 0) ev.fail("range() arg 3 must not be zero");
  if (range->size() > kMaxRange) {
    ev.fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return value;
}

// The members that dict(…) and namespace(…) are made from.
std::vector<std::pair<Value, Value>> members(Evaluator& ev, std::string_view function,
                                             CallArguments& arguments) {
  Dict out;
  if (arguments.positional.size() > 1) {
    ev.fail("{} expected at most 1 argument, got {}", function, arguments.positional.size());
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_undefined()) ev.fail_undefined(source);
    if (source.is(Kind::kDict)) {
      out.items = source.dict().items;
    } else {
      size_t n = 0;
      Cursor cursor(ev, source);
      for (Value item; cursor.next(item); ++n) {
        const std::vector<Value> pair = ev.to_vector(item);
        if (pair.size() != 2) {
          ev.fail("dictionary update sequence element #{} has length {}; 2 is required", n,
                  pair.size());
        }
        if (!hashable(pair[0])) ev.fail("unhashable type: '{}'", type_name(pair[0]));
        out.set(pair[0], pair[1]);
      }
    }
  }
  for (auto& [key, value] : arguments.keywords) out.set(ev.make_string(key), std::move(value));
  return std::move(out.items);
}

Value dict_function(Evaluator& ev, CallArguments& arguments) {
  return ev.make_dict(members(ev, "dict", arguments));
}

Value namespace_function(Evaluator& ev, CallArguments& arguments) {
  Value value = ev.make_namespace();
  for (auto& [key, member] : members(ev, "namespace", arguments)) {
    value.name_space().set(to_text(key).text(), std::move(member));
  }
  return value;
}

Value cycler_function(Evaluator& ev, CallArguments& arguments) {
  if (arguments.positional.empty()) ev.fail("at least one item has to be provided");
  const int depth = ev.deeper_than(ev.make_list(arguments.positional));
  auto* cycler = new Cycler;
  cycler->depth = depth;
  cycler->items = std::move(arguments.positional);
  return Value(Kind::kCycler, cycler);
}

Value joiner_function(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "joiner", arguments, {"sep"}, 0);
  const Value separator = p.has(0) ? p[0] : ev.make_string(", ");
  auto used = std::make_shared<bool>(false);
  return ev.make_function(
      separator,
      [separator, used](Evaluator& e, CallArguments&) {
        return std::exchange(*used, true) ? separator : e.make_string("");
      },
      "<jinja2.utils.Joiner object>", "Joiner");
}

Value lipsum_function(Evaluator& ev, CallArguments&) {
  ev.fail("lipsum() is refused: a prompt must not depend on chance");
}

Value raise_function(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "raise_exception", arguments, {"message"}, 1);
  ev.fail_with(to_text(p[0]).text());
}

Value strftime_function(Evaluator& ev, CallArguments& arguments) {
  const Parameters p(ev, "strftime_now", arguments, {"format"}, 1);
  const std::string& format = p.text(0).text();
  const auto now = static_cast<time_t>(ev.now_unix());
  std::tm parts{};
  gmtime_r(&now, &parts);
  constexpr size_t kMaxFormat = 256, kMaxText = 4096;
  if (format.size() > kMaxFormat) ev.fail("strftime_now(): format is longer than {}", kMaxFormat);
  // strftime refuses to tell an empty result from one that does not fit: a sentinel decides.
  char buffer[kMaxText];
  const size_t n = std::strftime(buffer, sizeof buffer, (format + "|").c_str(), &parts);
  if (n == 0) ev.fail("strftime_now(): the result is longer than {} bytes", kMaxText);
  return ev.make_string(std::string_view(buffer, n - 1));
}

struct Entry {
  std::string_view name;
  Value (*function)(Evaluator&, CallArguments&);
  std::string_view repr;
};

constexpr Entry kFunctions[] = {
    {"range", range_function, "<function range>"},
    {"dict", dict_function, "<class 'dict'>"},
    {"namespace", namespace_function, "<class 'jinja2.utils.Namespace'>"},
    {"cycler", cycler_function, "<class 'jinja2.utils.Cycler'>"},
    {"lipsum", lipsum_function, "<function generate_lorem_ipsum>"},
    {"joiner", joiner_function, "<class 'jinja2.utils.Joiner'>"},
    {"raise_exception", raise_function, "<function raise_exception>"},
    {"strftime_now", strftime_function, "<function strftime_now>"},
};

}  // namespace

bool make_global(Evaluator& evaluator, std::string_view name, Value& out) {
  for (const Entry& entry : kFunctions) {
    if (entry.name != name) continue;
    out = evaluator.make_function(Value(), entry.function, std::string(entry.repr));
    return true;
  }
  return false;
}

}  // namespace flare::frontend::jinja
