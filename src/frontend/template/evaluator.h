// One render of a template: scopes, limits, and the services that builtins use.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "frontend/template/ast.h"
#include "frontend/template/template.h"
#include "frontend/template/value.h"

namespace flare::frontend::jinja {

// Variables of one block, seen by the blocks inside it.
struct Scope {
  std::vector<std::pair<std::string_view, Value>> variables;
  std::shared_ptr<Scope> parent;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

class Evaluator;

// Python's iterator over a value. Keeps the value alive.
class Cursor {
 public:
  Cursor(Evaluator& evaluator, Value source);
  bool next(Value& item);  // false at the end; one step each

 private:
  Evaluator* evaluator_;
  Value source_;
  size_t at_ = 0;
  size_t byte_ = 0;
};

class Evaluator {
 public:
  Evaluator(const Ast& ast, std::string_view where, const Json& variables,
            std::initializer_list<std::string_view> trusted, int64_t now_unix,
            const RenderLimits& limits);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  MarkedText run();

  // ---- for builtins ----

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_with(fmt::format(text, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_with(const std::string& message) const;
  // Fails with the message of an undefined value.
  [[noreturn]] void fail_undefined(const Value& value) const;

  // Charges the step budget.
  void step(uint64_t n = 1);
  // Notes `bytes` of work inside a builtin, so that the clock is looked at.
  void work(size_t bytes);
  // Refuses a text of `bytes` before it is made.
  void check_size(uint64_t bytes) const;
  uint64_t steps_left() const { return limits_.max_steps - steps_; }
  int64_t now_unix() const { return now_unix_; }

  Value make_string(MarkedText text, bool safe = false);
  Value make_string(std::string_view text);  // written by the template
  Value make_strings(std::vector<MarkedText> parts, bool safe = false);
  Value make_list(std::vector<Value> items, Kind kind = Kind::kList);
  Value make_dict(std::vector<std::pair<Value, Value>> items);  // keys differ
  // `source`: what the function below holds on to.
  Value make_iterator(const Value& source, std::function<bool(Value&)> next,
                      std::string_view type = "generator");
  Value make_function(const Value& source, std::function<Value(Evaluator&, CallArguments&)> call,
                      std::string repr, std::string_view type = "function");
  // One more than the depth of `source`; fails beyond the limit.
  int deeper_than(const Value& source) const;
  // Empties what `loop` remembers when the render ends, because it may refer to the loop itself.
  void release_at_end(const Value& loop) { loops_.push_back(loop); }
  Value make_namespace();
  Value make_undefined(std::string hint);
  Value make_undefined(const Value& owner, Value name);
  Value make_int(int64_t v) { return Value(static_cast<Int>(v)); }
  Value from_json(const Json& json, Origin origin);

  // Python's len; fails if there is none.
  int64_t length(const Value& value);
  std::vector<Value> to_vector(const Value& value);
  // object.name and object[key] with jinja2's fallbacks.
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value call(const Value& callee, CallArguments& arguments);
  // Whether {% autoescape %} is on where the render stands.
  bool escaping() const { return escaping_; }
  // What a macro and self have under `name`; false if nothing.
  bool macro_attribute(const Macro& macro, std::string_view name, Value& out);
  bool block_reference(std::string_view name, Value& out);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  class Depth;
  class Redirect;

  Flow execute(const Body& body, const ScopePtr& scope);
  Flow execute(const Stmt& stmt, const ScopePtr& scope);
  Flow execute_if(const Stmt& stmt, const ScopePtr& scope);
  Flow execute_for(const Stmt& stmt, const ScopePtr& scope);
  Flow run_loop(const Stmt& stmt, const ScopePtr& scope, const Value& items, int depth0);
  std::function<bool(Value&)> loop_source(const Stmt& stmt, const ScopePtr& scope,
                                          const Value& items);
  Flow execute_autoescape(const Stmt& stmt, const ScopePtr& scope);
  const Block* find_block(std::string_view name) const;
  void execute_block(const Block& block, const ScopePtr& context);
  void execute_block(const Stmt& stmt, const ScopePtr& scope);
  Value render_block(const Block& block, const ScopePtr& context);
  void execute_include(const Stmt& stmt, const ScopePtr& scope);
  void write_text(const Value& value);
  MarkedText printed(const Value& value, Escape escape);
  bool escapes(Escape escape) const {
    return escape == Escape::kOn || (escape == Escape::kDynamic && escaping_);
  }
  Flow execute_set_block(const Stmt& stmt, const ScopePtr& scope);
  Flow execute_with(const Stmt& stmt, const ScopePtr& scope);
  void execute_call_block(const Stmt& stmt, const ScopePtr& scope);
  Flow capture(const Body& body, const ScopePtr& scope, MarkedText& text);
  void write(const MarkedText& text);

  void assign(const Expr& target, Value value, const ScopePtr& scope);
  Value make_macro(const Macro& macro, const ScopePtr& scope);
  Value invoke(const Macro& macro, const ScopePtr& closure, CallArguments& arguments);
  void bind_arguments(const Macro& macro, Scope& scope, CallArguments& arguments);

  Value evaluate(const Expr& expr, const ScopePtr& scope);
  Value evaluate_test(const Expr& expr, const ScopePtr& scope);
  Value evaluate_plus(const Expr& expr, const ScopePtr& scope);
  Value evaluate_binary(const Expr& expr, const ScopePtr& scope);
  Value evaluate_concat(const Expr& expr, const ScopePtr& scope);
  Value evaluate_string(const Expr& expr);
  Value evaluate_name(const Expr& expr, const ScopePtr& scope);
  Value evaluate_dict(const Expr& expr, const ScopePtr& scope);
  Value evaluate_item(const Expr& expr, const ScopePtr& scope);
  Value evaluate_slice(const Value& object, const Expr& slice, const ScopePtr& scope);
  Value evaluate_call(const Expr& expr, const ScopePtr& scope);
  Value evaluate_compare(const Expr& expr, const ScopePtr& scope);
  Value evaluate_logic(const Expr& expr, const ScopePtr& scope);
  Value apply_filters(const Expr* expr, Value value, const ScopePtr& scope);
  Value apply_filter(const Expr& expr, Value value, const ScopePtr& scope);
  void evaluate_arguments(const Call& call, const ScopePtr& scope, CallArguments& out);
  std::vector<Value> evaluate_all(const std::vector<Expr*>& items, const ScopePtr& scope);
  void check_clock();
  void charge(Container& container, uint64_t weight, int depth, size_t bytes);

  Meter meter_;  // first: values refer to it until the last member is gone
  const Ast& ast_;
  std::string_view where_;
  const Json& variables_;
  std::vector<std::string_view> trusted_;
  int64_t now_unix_;
  RenderLimits limits_;
  std::chrono::steady_clock::time_point deadline_;
  double processor_deadline_ms_;  // of this thread
  uint64_t steps_ = 0;
  size_t work_ = 0;
  int line_ = 1;
  int frames_ = 0;  // nested evaluations
  int calls_ = 0;   // nested calls of macros and recursive loops
  bool escaping_ = false;
  bool folding_ = false;  // in an output that jinja2 computes while it compiles
  MarkedText output_;
  MarkedText* out_ = &output_;
  ScopePtr context_;        // the caller's variables as far as they were used, and globals
  ScopePtr block_context_;  // what blocks see
  std::vector<Value> constants_;
  // Namespaces and scopes of macros can refer to themselves; they are emptied at the end.
  std::vector<Value> namespaces_;
  std::vector<Value> loops_;
  std::vector<ScopePtr> captured_;
};

// Counts nested evaluations while it lives.
class Evaluator::Depth {
 public:
  Depth(Evaluator& evaluator, int& counter, int limit) : counter_(counter) {
    if (counter_ >= limit) evaluator.fail("nested deeper than {} levels", limit);
    ++counter_;
  }
  ~Depth() { --counter_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& counter_;
};

// Output goes to `text` while it lives.
class Evaluator::Redirect {
 public:
  Redirect(Evaluator& evaluator, MarkedText& text)
      : slot_(evaluator.out_), outer_(std::exchange(evaluator.out_, &text)) {}
  ~Redirect() { slot_ = outer_; }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;

 private:
  MarkedText*& slot_;
  MarkedText* outer_;
};

}  // namespace flare::frontend::jinja
