// The steps of a render: statements and expressions to text, within its limits.
#include "frontend/template/evaluator.h"

#include <algorithm>

#include "base/error.h"
#include "base/processor_time.h"
#include "frontend/template/builtins.h"
#include "frontend/template/loop.h"
#include "frontend/template/operations.h"
#include "frontend/template/text.h"
#include "frontend/template/unicode.h"

namespace flare::frontend::jinja {
namespace {

constexpr int kMaxValueDepth = 200;
constexpr int kFramesPerCall = 8;  // nested evaluations for each level of max_depth

std::string hint_of_condition(int line) {
  return fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.",
      line);
}

Int parse_integer(Evaluator& evaluator, std::string_view text) {
  int base = 10;
  if (text.size() > 2 && text[0] == '0') {
    const char x = static_cast<char>(text[1] | 32);
    base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    if (base != 10) text.remove_prefix(2);
  }
  Int value = 0;
  for (const char c : text) {
    const int digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
    value = add_int(evaluator, multiply_int(evaluator, value, base), digit);
  }
  return value;
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const auto& [key, value] : variables) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Evaluator::Evaluator(const Ast& ast, std::string_view where, const Json& variables,
                     std::initializer_list<std::string_view> trusted, int64_t now_unix,
                     const RenderLimits& limits)
    : ast_(ast),
      where_(where),
      variables_(variables),
      trusted_(trusted),
      now_unix_(now_unix),
      limits_(limits),
      deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(limits.timeout_ms)),
      processor_deadline_ms_(thread_processor_ms() + limits.timeout_ms),
      context_(std::make_shared<Scope>()),
      constants_(static_cast<size_t>(ast.n_constants)) {}

Evaluator::~Evaluator() {
  for (Value& value : namespaces_) value.name_space().attributes.clear();
  for (Value& value : loops_) value.loop().last_changed.clear();
  for (ScopePtr& scope : captured_) scope->variables.clear();
}

MarkedText Evaluator::run() {
  auto scope = std::make_shared<Scope>();
  scope->parent = context_;
  captured_.push_back(scope);
  block_context_ = scope;
  execute(ast_.body, scope);
  return std::move(output_);
}

// ---- limits and errors ----

void Evaluator::fail_with(const std::string& message) const {
  throw Error(Code::kInvalid, "{}: line {}: {}", where_, line_, message);
}

void Evaluator::fail_undefined(const Value& value) const { fail_with(value.undefined().message()); }

// By processor time, so that a busy machine refuses nothing; the other clock is cheaper to read.
void Evaluator::check_clock() {
  if (std::chrono::steady_clock::now() > deadline_ &&
      thread_processor_ms() > processor_deadline_ms_) {
    fail("rendering takes longer than {} ms", limits_.timeout_ms);
  }
}

void Evaluator::step(uint64_t n) {
  constexpr uint64_t kStepsPerLook = 512;
  if (n > limits_.max_steps - steps_) {
    fail("rendering takes more than {} steps", limits_.max_steps);
  }
  if ((steps_ + n) / kStepsPerLook != steps_ / kStepsPerLook) check_clock();
  steps_ += n;
}

void Evaluator::work(size_t bytes) {
  constexpr size_t kBytesPerLook = 1u << 20;
  work_ += bytes;
  if (work_ < kBytesPerLook) return;
  work_ = 0;
  check_clock();
}

void Evaluator::check_size(uint64_t bytes) const {
  if (bytes > limits_.max_output_bytes) {
    fail("a text is longer than {} bytes", limits_.max_output_bytes);
  }
}

void Evaluator::charge(Container& container, uint64_t weight, int depth, size_t bytes) {
  constexpr uint64_t kMaxWeightPerOutput = 16;
  if (depth > kMaxValueDepth) fail("values are nested deeper than {} levels", kMaxValueDepth);
  const uint64_t limit = limits_.max_output_bytes * kMaxWeightPerOutput;
  if (weight > limit || meter_.live + bytes > limit) {
    fail("values occupy more than {} bytes", limit);
  }
  work(bytes);
  container.depth = depth;
  container.weight = weight;
  container.meter = &meter_;
  container.metered = bytes;
  meter_.live += bytes;
}

// ---- making values ----

Value Evaluator::make_string(MarkedText text, bool safe) {
  check_size(text.size());
  constexpr uint64_t kLivePerOutput = 16;
  if (meter_.live + text.size() > limits_.max_output_bytes * kLivePerOutput) {
    fail("values occupy more than {} bytes", limits_.max_output_bytes * kLivePerOutput);
  }
  work(text.size());
  auto* string = new String;
  Value value(Kind::kString, string);
  string->length = count_code_points(text.text());
  string->text = std::move(text);
  string->safe = safe;
  string->meter = &meter_;
  meter_.live += string->text.size();
  return value;
}

Value Evaluator::make_string(std::string_view text) {
  return make_string(MarkedText(text, Origin::kTemplate));
}

Value Evaluator::make_strings(std::vector<MarkedText> parts, bool safe) {
  step(parts.size());
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) items.push_back(make_string(std::move(part), safe));
  return make_list(std::move(items));
}

Value Evaluator::make_list(std::vector<Value> items, Kind kind) {
  auto* list = new List;
  Value value(kind, list);
  uint64_t weight = 0;
  int depth = 0;
  for (const Value& item : items) {
    weight += weight_of(item);
    depth = std::max(depth, depth_of(item));
  }
  charge(*list, weight, depth + 1, items.size() * sizeof(Value));
  list->items = std::move(items);
  return value;
}

Value Evaluator::make_dict(std::vector<std::pair<Value, Value>> items) {
  auto* dict = new Dict;
  Value value(Kind::kDict, dict);
  uint64_t weight = 0;
  int depth = 0;
  for (const auto& [key, item] : items) {
    weight += weight_of(key) + weight_of(item);
    depth = std::max({depth, depth_of(key), depth_of(item)});
  }
  charge(*dict, weight, depth + 1, items.size() * 2 * sizeof(Value));
  dict->items = std::move(items);
  return value;
}

int Evaluator::deeper_than(const Value& source) const {
  if (depth_of(source) >= kMaxValueDepth) {
    fail("values are nested deeper than {} levels", kMaxValueDepth);
  }
  return depth_of(source) + 1;
}

Value Evaluator::make_iterator(const Value& source, std::function<bool(Value&)> next,
                               std::string_view type) {
  const int depth = deeper_than(source);
  auto* iterator = new Iterator;
  iterator->depth = depth;
  iterator->next = std::move(next);
  iterator->type = type;
  return Value(Kind::kIterator, iterator);
}

Value Evaluator::make_function(const Value& source,
                               std::function<Value(Evaluator&, CallArguments&)> call,
                               std::string repr, std::string_view type) {
  const int depth = deeper_than(source);
  auto* function = new Function;
  function->depth = depth;
  function->call = std::move(call);
  function->repr = std::move(repr);
  function->type = type;
  return Value(Kind::kFunction, function);
}

Value Evaluator::make_namespace() {
  Value value(Kind::kNamespace, new Namespace);
  namespaces_.push_back(value);
  return value;
}

Value Evaluator::make_undefined(std::string hint) {
  auto* undefined = new Undefined;
  undefined->hint = std::move(hint);
  return Value(Kind::kUndefined, undefined);
}

Value Evaluator::make_undefined(const Value& owner, Value name) {
  const int depth = deeper_than(name);
  auto* undefined = new Undefined;
  undefined->depth = depth;
  undefined->owner = type_name(owner);
  if (owner.is(Kind::kNamespace)) undefined->owner = "jinja2.utils.Namespace";
  if (owner.is(Kind::kLoop)) undefined->owner = "jinja2.runtime.LoopContext";
  undefined->name = std::move(name);
  return Value(Kind::kUndefined, undefined);
}

Value Evaluator::from_json(const Json& json, Origin origin) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      return Value();
    case Json::Kind::kBool:
      return Value(json.as_bool());
    case Json::Kind::kReal:
      return Value(json.as_double());
    case Json::Kind::kInteger: {
      const std::string text = json.to_text();
      Int value = 0;
      for (const char c : text) value = c == '-' ? 0 : value * 10 + (c - '0');
      return Value(text[0] == '-' ? -value : value);
    }
    case Json::Kind::kString: {
      auto* string = new String;
      string->text = MarkedText(json.as_string(), origin);
      string->length = count_code_points(json.as_string());
      return Value(Kind::kString, string);
    }
    case Json::Kind::kArray: {
      std::vector<Value> items;
      items.reserve(json.as_array().size());
      for (const Json& item : json.as_array()) items.push_back(from_json(item, origin));
      return make_list(std::move(items));
    }
    case Json::Kind::kObject:
      break;
  }
  std::vector<std::pair<Value, Value>> items;
  items.reserve(json.as_object().size());
  for (const auto& [key, value] : json.as_object()) {
    items.emplace_back(from_json(Json(key), origin), from_json(value, origin));
  }
  return make_dict(std::move(items));
}

// ---- iteration ----

Cursor::Cursor(Evaluator& evaluator, Value source)
    : evaluator_(&evaluator), source_(std::move(source)) {
  switch (source_.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kSelf:
      evaluator.fail("'{}' object is not iterable", type_name(source_));
    default:
      break;
  }
}

bool Cursor::next(Value& item) {
  switch (source_.kind()) {
    case Kind::kString: {
      const String& string = source_.string();
      if (byte_ >= string.bytes().size()) return false;
      const size_t begin = byte_;
      decode(string.bytes(), byte_);
      item = evaluator_->make_string(string.text.slice(begin, byte_));
      break;
    }
    case Kind::kList:
    case Kind::kTuple:
      if (at_ >= source_.list().items.size()) return false;
      item = source_.list().items[at_++];
      break;
    case Kind::kDict:
      if (at_ >= source_.dict().items.size()) return false;
      item = source_.dict().items[at_++].first;
      break;
    case Kind::kDictView: {
      const DictView& view = source_.dict_view();
      const auto& items = view.dict.dict().items;
      if (at_ >= items.size()) return false;
      const auto& [key, value] = items[at_++];
      item = view.part == DictView::Part::kKeys ? key
             : view.part == DictView::Part::kValues
                 ? value
                 : evaluator_->make_list({key, value}, Kind::kTuple);
      break;
    }
    case Kind::kRange:
      if (static_cast<Int>(at_) >= source_.range().size()) return false;
      item = Value(source_.range().at(static_cast<Int>(at_++)));
      break;
    case Kind::kIterator:
      if (!source_.iterator().next(item)) return false;
      break;
    default:
      return false;
  }
  evaluator_->step();
  return true;
}

std::vector<Value> Evaluator::to_vector(const Value& value) {
  Cursor cursor(*this, value);
  std::vector<Value> out;
  for (Value item; cursor.next(item);) out.push_back(item);
  return out;
}

int64_t Evaluator::length(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return static_cast<int64_t>(value.string().length);
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.list().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().items.size());
    case Kind::kDictView:
      return static_cast<int64_t>(value.dict_view().dict.dict().items.size());
    case Kind::kRange:
      return static_cast<int64_t>(value.range().size());
    case Kind::kUndefined:
      return 0;
    case Kind::kLoop:
      return value.loop().length();
    default:
      fail("object of type '{}' has no len()", type_name(value));
  }
}

// ---- statements ----

Evaluator::Flow Evaluator::execute(const Body& body, const ScopePtr& scope) {
  for (const Stmt* stmt : body) {
    const Flow flow = execute(*stmt, scope);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::execute(const Stmt& stmt, const ScopePtr& scope) {
  const Depth depth(*this, frames_, limits_.max_depth * kFramesPerCall);
  line_ = stmt.line;
  step();
  switch (stmt.kind) {
    case StmtKind::kText:
      write(MarkedText(stmt.text, Origin::kTemplate));
      break;
    case StmtKind::kOutput:
      folding_ = stmt.value->folds;
      write(printed(evaluate(*stmt.value, scope), stmt.escape));
      folding_ = false;
      break;
    case StmtKind::kIf:
      return execute_if(stmt, scope);
    case StmtKind::kFor:
      return execute_for(stmt, scope);
    case StmtKind::kSet:
      assign(*stmt.target, evaluate(*stmt.value, scope), scope);
      break;
    case StmtKind::kSetBlock:
      return execute_set_block(stmt, scope);
    case StmtKind::kMacro:
      scope->set(stmt.macro->name, make_macro(*stmt.macro, scope));
      break;
    case StmtKind::kCallBlock:
      execute_call_block(stmt, scope);
      break;
    case StmtKind::kFilterBlock: {
      MarkedText text;
      const Flow flow = capture(stmt.body, scope, text);
      if (flow != Flow::kNormal) return flow;
      const bool safe = escapes(stmt.escape);
      write_text(apply_filters(stmt.value, make_string(std::move(text), safe), scope));
      break;
    }
    case StmtKind::kWith:
      return execute_with(stmt, scope);
    case StmtKind::kGeneration: {
      CallArguments none;
      write_text(invoke(*stmt.macro, scope, none));
      break;
    }
    case StmtKind::kAutoescape:
      return execute_autoescape(stmt, scope);
    case StmtKind::kBlock:
      execute_block(stmt, scope);
      break;
    case StmtKind::kInclude:
    case StmtKind::kImport:
      execute_include(stmt, scope);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Evaluator::write(const MarkedText& text) {
  if (out_->size() + text.size() > limits_.max_output_bytes) {
    fail("the output is longer than {} bytes", limits_.max_output_bytes);
  }
  out_->append(text);
}

MarkedText Evaluator::printed(const Value& value, Escape escape) {
  if (!escapes(escape) || (value.is_string() && value.string().safe)) return to_text(value);
  return escape_html(to_text(value));
}

// Results of filter and call blocks are joined as they are.
void Evaluator::write_text(const Value& value) {
  if (!value.is_string()) fail("expected str instance, {} found", type_name(value));
  write(value.string().text);
}

// Renders into `text` in a scope of its own.
Evaluator::Flow Evaluator::capture(const Body& body, const ScopePtr& scope, MarkedText& text) {
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  const Redirect redirect(*this, text);
  return execute(body, inner);
}

Evaluator::Flow Evaluator::execute_if(const Stmt& stmt, const ScopePtr& scope) {
  for (const Branch& branch : stmt.branches) {
    if (!branch.test || truthy(evaluate(*branch.test, scope))) return execute(branch.body, scope);
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::execute_set_block(const Stmt& stmt, const ScopePtr& scope) {
  MarkedText text;
  const Flow flow = capture(stmt.body, scope, text);
  if (flow != Flow::kNormal) return flow;
  Value value = make_string(std::move(text), escapes(stmt.escape));
  if (stmt.value) value = apply_filters(stmt.value, std::move(value), scope);
  if (escaping_) value = make_string(to_text(value), true);
  assign(*stmt.target, std::move(value), scope);
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::execute_autoescape(const Stmt& stmt, const ScopePtr& scope) {
  const bool outer = std::exchange(escaping_, truthy(evaluate(*stmt.value, scope)));
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  const Flow flow = execute(stmt.body, inner);
  // As in jinja2, a break or continue leaves the setting behind.
  if (flow == Flow::kNormal) escaping_ = outer;
  return flow;
}

Evaluator::Flow Evaluator::execute_with(const Stmt& stmt, const ScopePtr& scope) {
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  std::vector<Value> values;
  for (const auto& [target, value] : stmt.bindings) values.push_back(evaluate(*value, scope));
  for (size_t i = 0; i < values.size(); ++i) {
    assign(*stmt.bindings[i].first, std::move(values[i]), inner);
  }
  return execute(stmt.body, inner);
}

Evaluator::Flow Evaluator::execute_for(const Stmt& stmt, const ScopePtr& scope) {
  return run_loop(stmt, scope, evaluate(*stmt.value, scope), 0);
}

// The items, without those that the loop's `if` refuses. Lazy: the test sees what the body did. As
// in jinja2, such a loop's unpacked items are tuples of the targets from there on.
std::function<bool(Value&)> Evaluator::loop_source(const Stmt& stmt, const ScopePtr& scope,
                                                   const Value& items) {
  auto cursor = std::make_shared<Cursor>(*this, items);
  if (!stmt.test) return [cursor](Value& item) { return cursor->next(item); };
  return [this, cursor, &stmt, scope](Value& item) {
    while (cursor->next(item)) {
      auto inner = std::make_shared<Scope>();
      inner->parent = scope;
      assign(*stmt.target, item, inner);
      if (!truthy(evaluate(*stmt.test, inner))) continue;
      if (stmt.target->kind == ExprKind::kTuple) item = evaluate(*stmt.target, inner);
      return true;
    }
    return false;
  };
}

// A break or continue in the `else` part is about the loop around this one.
Evaluator::Flow Evaluator::run_loop(const Stmt& stmt, const ScopePtr& scope, const Value& items,
                                    int depth0) {
  const int depth = deeper_than(items);
  auto* loop = new Loop;
  const Value loop_value(Kind::kLoop, loop);
  loop->depth = depth;
  loop->depth0 = depth0;
  loop->pull = loop_source(stmt, scope, items);
  if (!stmt.test && !items.is(Kind::kIterator)) loop->known_length = length(items);
  if (stmt.recursive) {
    loop->recurse = [this, &stmt, scope, depth0](const Value& inner_items) {
      const Depth depth(*this, calls_, limits_.max_depth);
      MarkedText text;
      {
        const Redirect redirect(*this, text);
        run_loop(stmt, scope, inner_items, depth0 + 1);
      }
      return make_string(std::move(text), escapes(stmt.escape));
    };
  }
  bool finished = false;  // a body ran to its end
  while (loop->advance()) {
    auto inner = std::make_shared<Scope>();
    inner->parent = scope;
    inner->set("loop", loop_value);
    line_ = stmt.line;
    assign(*stmt.target, loop->current, inner);
    const Flow flow = execute(stmt.body, inner);
    if (flow == Flow::kBreak) break;
    finished |= flow == Flow::kNormal;
  }
  if (finished) return Flow::kNormal;
  // As in jinja2, also if every body was broken off.
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  return execute(stmt.other, inner);
}

void Evaluator::execute_call_block(const Stmt& stmt, const ScopePtr& scope) {
  const Expr& expr = *stmt.value;
  const Value callee = evaluate(*expr.a, scope);
  CallArguments arguments;
  evaluate_arguments(expr.call, scope, arguments);
  arguments.keywords.emplace_back("caller", make_macro(*stmt.macro, scope));
  line_ = stmt.line;
  write_text(call(callee, arguments));
}

void Evaluator::assign(const Expr& target, Value value, const ScopePtr& scope) {
  if (target.kind == ExprKind::kName) {
    scope->set(target.text, std::move(value));
    return;
  }
  if (target.kind == ExprKind::kNamespaceTarget) {
    Expr name;
    name.line = target.line;
    name.text = target.text;
    const Value ns = evaluate_name(name, scope);
    if (!ns.is(Kind::kNamespace)) fail("cannot assign attribute on non-namespace object");
    ns.name_space().set(target.attribute, std::move(value));
    return;
  }
  if (value.kind() < Kind::kUndefined) {
    fail("cannot unpack non-iterable {} object", type_name(value));
  }
  std::vector<Value> parts = to_vector(value);
  const size_t expected = target.items.size();
  if (parts.size() < expected) {
    fail("not enough values to unpack (expected {}, got {})", expected, parts.size());
  }
  if (parts.size() > expected) fail("too many values to unpack (expected {})", expected);
  for (size_t i = 0; i < expected; ++i) assign(*target.items[i], std::move(parts[i]), scope);
}

// ---- expressions ----

Value Evaluator::evaluate(const Expr& expr, const ScopePtr& scope) {
  const Depth depth(*this, frames_, limits_.max_depth * kFramesPerCall);
  step();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kNone:
      return Value();
    case ExprKind::kTrue:
      return Value(true);
    case ExprKind::kFalse:
      return Value(false);
    case ExprKind::kInteger:
      return Value(parse_integer(*this, expr.text));
    case ExprKind::kFloat:
      return Value(expr.real);
    case ExprKind::kString:
      return evaluate_string(expr);
    case ExprKind::kName:
      return evaluate_name(expr, scope);
    case ExprKind::kList:
      return make_list(evaluate_all(expr.items, scope));
    case ExprKind::kTuple:
      return make_list(evaluate_all(expr.items, scope), Kind::kTuple);
    case ExprKind::kDict:
      return evaluate_dict(expr, scope);
    case ExprKind::kAttribute: {
      const Value object = evaluate(*expr.a, scope);
      line_ = expr.line;
      return attribute(object, expr.text);
    }
    case ExprKind::kItem:
      return evaluate_item(expr, scope);
    case ExprKind::kCall:
      return evaluate_call(expr, scope);
    case ExprKind::kFilter:
      return apply_filter(expr, evaluate(*expr.a, scope), scope);
    case ExprKind::kTest:
      return evaluate_test(expr, scope);
    case ExprKind::kNegate:
      return negate(*this, evaluate(*expr.a, scope));
    case ExprKind::kPlus:
      return evaluate_plus(expr, scope);
    case ExprKind::kNot:
      return Value(!truthy(evaluate(*expr.a, scope)));
    case ExprKind::kBinary:
      return evaluate_binary(expr, scope);
    case ExprKind::kConcat:
      return evaluate_concat(expr, scope);
    case ExprKind::kCompare:
      return evaluate_compare(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return evaluate_logic(expr, scope);
    case ExprKind::kCondition:
      if (truthy(evaluate(*expr.b, scope))) return evaluate(*expr.a, scope);
      return expr.c ? evaluate(*expr.c, scope) : make_undefined(hint_of_condition(expr.line));
    case ExprKind::kSlice:
    case ExprKind::kNamespaceTarget:
      break;
  }
  fail("internal: expression out of place");
}

Value Evaluator::evaluate_test(const Expr& expr, const ScopePtr& scope) {
  CallArguments arguments;
  arguments.positional.push_back(evaluate(*expr.a, scope));
  evaluate_arguments(expr.call, scope, arguments);
  line_ = expr.line;
  if (!expr.test) fail("No test named '{}' found.", expr.text);
  return Value(expr.test(*this, arguments));
}

Value Evaluator::evaluate_plus(const Expr& expr, const ScopePtr& scope) {
  const Value value = evaluate(*expr.a, scope);
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) fail("bad operand type for unary +: '{}'", type_name(value));
  return value.is(Kind::kBool) ? Value(value.integer()) : value;
}

Value Evaluator::evaluate_binary(const Expr& expr, const ScopePtr& scope) {
  Value left = evaluate(*expr.items[0], scope);
  for (size_t i = 0; i < expr.binary_ops.size(); ++i) {
    const Value right = evaluate(*expr.items[i + 1], scope);
    line_ = expr.items[i + 1]->line;
    left = binary(*this, expr.binary_ops[i], left, right);
  }
  return left;
}

Value Evaluator::evaluate_concat(const Expr& expr, const ScopePtr& scope) {
  std::vector<Value> parts = evaluate_all(expr.items, scope);
  const bool safe = escapes(expr.escape) && std::any_of(parts.begin(), parts.end(), is_safe);
  MarkedText text;
  for (const Value& part : parts) {
    text.append(safe && !is_safe(part) ? escape_html(to_text(part)) : to_text(part));
    check_size(text.size());
  }
  return make_string(std::move(text), safe);
}

Value Evaluator::evaluate_string(const Expr& expr) {
  Value& slot = constants_[static_cast<size_t>(expr.constant)];
  if (!slot.is_string()) slot = make_string(expr.text);
  return slot;
}

Value Evaluator::evaluate_name(const Expr& expr, const ScopePtr& scope) {
  const std::string_view name = expr.text;
  for (const Scope* s = scope.get(); s; s = s->parent.get()) {
    if (const Value* value = s->find(name)) return *value;
  }
  if (name == "self") {
    context_->set(name, Value(Kind::kSelf, new SelfReference));
  } else if (const Json* json = variables_.find(name)) {
    const bool trusted = std::find(trusted_.begin(), trusted_.end(), name) != trusted_.end();
    context_->set(name, from_json(*json, trusted ? Origin::kTemplate : Origin::kCaller));
  } else if (Value global; make_global(*this, name, global)) {
    context_->set(name, std::move(global));
  } else {
    auto* undefined = new Undefined;
    Value value(Kind::kUndefined, undefined);
    undefined->name = make_string(name);
    return value;
  }
  return *context_->find(name);
}

std::vector<Value> Evaluator::evaluate_all(const std::vector<Expr*>& items, const ScopePtr& scope) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const Expr* item : items) out.push_back(evaluate(*item, scope));
  return out;
}

Value Evaluator::evaluate_dict(const Expr& expr, const ScopePtr& scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    Value key = evaluate(*expr.items[i], scope);
    if (!hashable(key)) fail("unhashable type: '{}'", type_name(key));
    dict.set(std::move(key), evaluate(*expr.items[i + 1], scope));
  }
  return make_dict(std::move(dict.items));
}

Value Evaluator::evaluate_item(const Expr& expr, const ScopePtr& scope) {
  const Value object = evaluate(*expr.a, scope);
  if (expr.b->kind == ExprKind::kSlice) {
    // jinja2 looks into constants while it compiles, with other rules.
    const bool sliceable = object.is_string() || object.is_sequence() || object.is(Kind::kRange);
    if (folding_ && !sliceable && !object.is_undefined()) {
      return make_undefined(object, make_string("slice"));
    }
    return evaluate_slice(object, *expr.b, scope);
  }
  const Value key = evaluate(*expr.b, scope);
  line_ = expr.line;
  return item(object, key);
}

Value Evaluator::evaluate_slice(const Value& object, const Expr& expr, const ScopePtr& scope) {
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.items[i]) parts[i] = evaluate(*expr.items[i], scope);
  }
  line_ = expr.line;
  return slice(*this, object, parts[0], parts[1], parts[2]);
}

void Evaluator::evaluate_arguments(const Call& call, const ScopePtr& scope, CallArguments& out) {
  for (const Expr* e : call.positional) out.positional.push_back(evaluate(*e, scope));
  for (const auto& [name, e] : call.keywords) out.keywords.emplace_back(name, evaluate(*e, scope));
  if (call.star) {
    Cursor cursor(*this, evaluate(*call.star, scope));
    for (Value item; cursor.next(item);) out.positional.push_back(item);
  }
  if (!call.double_star) return;
  const Value extra = evaluate(*call.double_star, scope);
  if (!extra.is(Kind::kDict)) fail("argument after ** must be a mapping, not {}", type_name(extra));
  for (const auto& [key, value] : extra.dict().items) {
    if (!key.is_string()) fail("keywords must be strings");
    const std::string& name = key.string().bytes();
    for (const auto& [other, unused] : out.keywords) {
      if (other == name) fail("got multiple values for keyword argument '{}'", name);
    }
    out.keywords.emplace_back(name, value);
  }
}

Value Evaluator::evaluate_call(const Expr& expr, const ScopePtr& scope) {
  CallArguments arguments;
  if (expr.a->kind == ExprKind::kAttribute) {
    // Methods are called without making a bound method first.
    const Value object = evaluate(*expr.a->a, scope);
    line_ = expr.line;
    if (const MethodFunction method = find_method(object, expr.a->text)) {
      evaluate_arguments(expr.call, scope, arguments);
      line_ = expr.line;
      return method(*this, object, arguments);
    }
    const Value callee = attribute(object, expr.a->text);
    evaluate_arguments(expr.call, scope, arguments);
    line_ = expr.line;
    return call(callee, arguments);
  }
  const Value callee = evaluate(*expr.a, scope);
  evaluate_arguments(expr.call, scope, arguments);
  line_ = expr.line;
  return call(callee, arguments);
}

Value Evaluator::call(const Value& callee, CallArguments& arguments) {
  if (callee.is_undefined()) fail_undefined(callee);
  if (callee.is(Kind::kFunction)) return callee.function().call(*this, arguments);
  if (callee.is(Kind::kLoop)) {
    if (!callee.loop().recurse) {
      fail("The loop must have the 'recursive' marker to be called recursively.");
    }
    if (arguments.positional.size() != 1 || !arguments.keywords.empty()) {
      fail("loop() takes exactly one argument");
    }
    return callee.loop().recurse(arguments.positional[0]);
  }
  fail("'{}' object is not callable", type_name(callee));
}

Value Evaluator::evaluate_compare(const Expr& expr, const ScopePtr& scope) {
  Value left = evaluate(*expr.items[0], scope);
  for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
    Value right = evaluate(*expr.items[i + 1], scope);
    line_ = expr.items[i + 1]->line;
    if (!compare(*this, expr.compare_ops[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::evaluate_logic(const Expr& expr, const ScopePtr& scope) {
  const bool stop = expr.kind == ExprKind::kOr;
  for (size_t i = 0;; ++i) {
    Value value = evaluate(*expr.items[i], scope);
    if (i + 1 == expr.items.size() || truthy(value) == stop) return value;
  }
}

Value Evaluator::apply_filter(const Expr& expr, Value value, const ScopePtr& scope) {
  CallArguments arguments;
  arguments.positional.push_back(std::move(value));
  evaluate_arguments(expr.call, scope, arguments);
  line_ = expr.line;
  if (!expr.filter) fail("No filter named '{}' found.", expr.text);
  return expr.filter(*this, arguments);
}

// Applies a chain whose innermost operand is absent to `value`.
Value Evaluator::apply_filters(const Expr* expr, Value value, const ScopePtr& scope) {
  std::vector<const Expr*> chain;
  for (; expr; expr = expr->a) chain.push_back(expr);
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    value = apply_filter(**it, std::move(value), scope);
  }
  return value;
}

}  // namespace flare::frontend::jinja
