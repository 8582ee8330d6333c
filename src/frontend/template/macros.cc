// What a template defines and uses by name: macros, callers, and the blocks behind self.
#include <algorithm>

#include "frontend/template/evaluator.h"

namespace flare::frontend::jinja {
namespace {

std::string shown_name(const Macro& macro) {
  return macro.kind == MacroKind::kNamed ? "'" + macro.name + "'" : "None";
}

}  // namespace

Value Evaluator::make_macro(const Macro& macro, const ScopePtr& scope) {
  for (ScopePtr s = scope; s && s != context_; s = s->parent) {
    if (std::find(captured_.rbegin(), captured_.rend(), s) != captured_.rend()) break;
    captured_.push_back(s);
  }
  const bool named = macro.kind == MacroKind::kNamed;
  const Value value = make_function(
      Value(),
      [&macro, scope](Evaluator& evaluator, CallArguments& arguments) {
        return evaluator.invoke(macro, scope, arguments);
      },
      named ? "<Macro '" + macro.name + "'>" : "<Macro anonymous>", "Macro");
  value.function().macro = &macro;
  return value;
}

Value Evaluator::invoke(const Macro& macro, const ScopePtr& closure, CallArguments& arguments) {
  const Depth depth(*this, calls_, limits_.max_depth);
  auto scope = std::make_shared<Scope>();
  scope->parent = closure;
  bind_arguments(macro, *scope, arguments);
  const size_t required = macro.parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    if (scope->find(macro.parameters[i])) continue;
    Value value = i >= required
                      ? evaluate(*macro.defaults[i - required], scope)
                      : make_undefined("parameter '" + macro.parameters[i] + "' was not provided");
    scope->set(macro.parameters[i], std::move(value));
  }
  MarkedText text;
  capture(macro.body, scope, text);
  return make_string(std::move(text), escaping_);
}

void Evaluator::bind_arguments(const Macro& macro, Scope& scope, CallArguments& arguments) {
  auto& positional = arguments.positional;
  auto& keywords = arguments.keywords;
  const size_t n = std::min(positional.size(), macro.parameters.size());
  const auto take = [&](std::string_view name, Value& out) {
    const auto it = std::find_if(keywords.begin(), keywords.end(),
                                 [&](const auto& k) { return k.first == name; });
    if (it == keywords.end()) return false;
    out = std::move(it->second);
    keywords.erase(it);
    return true;
  };
  for (size_t i = 0; i < n; ++i) scope.set(macro.parameters[i], positional[i]);
  bool has_caller = false;
  for (size_t i = n; i < macro.parameters.size(); ++i) {
    Value value;
    if (take(macro.parameters[i], value)) scope.set(macro.parameters[i], std::move(value));
    has_caller |= macro.parameters[i] == "caller";
  }
  if (macro.uses_caller && !has_caller) {
    Value caller;
    if (!take("caller", caller)) caller = make_undefined("No caller defined");
    scope.set("caller", std::move(caller));
  }
  if (macro.uses_kwargs) {
    std::vector<std::pair<Value, Value>> items;
    for (auto& [key, value] : keywords) items.emplace_back(make_string(key), std::move(value));
    scope.set("kwargs", make_dict(std::move(items)));
  } else if (!keywords.empty()) {
    fail("macro {} takes no keyword argument '{}'", shown_name(macro), keywords[0].first);
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest(positional.begin() + static_cast<ptrdiff_t>(n), positional.end());
    scope.set("varargs", make_list(std::move(rest), Kind::kTuple));
  } else if (positional.size() > n) {
    fail("macro {} takes not more than {} argument(s)", shown_name(macro), macro.parameters.size());
  }
}

bool Evaluator::macro_attribute(const Macro& macro, std::string_view name, Value& out) {
  const bool has_caller = std::find(macro.parameters.begin(), macro.parameters.end(), "caller") !=
                          macro.parameters.end();
  if (name == "name") {
    out = macro.kind == MacroKind::kNamed ? make_string(macro.name) : Value();
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : macro.parameters) names.push_back(make_string(parameter));
    out = make_list(std::move(names), Kind::kTuple);
  } else if (name == "catch_kwargs") {
    out = Value(macro.uses_kwargs);
  } else if (name == "catch_varargs") {
    out = Value(macro.uses_varargs);
  } else if (name == "caller") {
    out = Value(macro.uses_caller);
  } else if (name == "explicit_caller") {
    out = Value(has_caller);
  } else {
    return false;
  }
  return true;
}

// ---- blocks ----

const Block* Evaluator::find_block(std::string_view name) const {
  for (const Block& block : ast_.blocks) {
    if (block.name == name) return &block;
  }
  return nullptr;
}

// A block sees the variables of the template's top level; a scoped one those of its place.
void Evaluator::execute_block(const Block& block, const ScopePtr& context) {
  const Depth depth(*this, calls_, limits_.max_depth);
  auto scope = std::make_shared<Scope>();
  scope->parent = context;
  scope->set("super",
             make_undefined(fmt::format("there is no parent block called '{}'.", block.name)));
  const ScopePtr outer = std::exchange(block_context_, context);
  execute(block.body, scope);
  block_context_ = outer;
}

void Evaluator::execute_block(const Stmt& stmt, const ScopePtr& scope) {
  const Block& block = *find_block(stmt.text);
  if (block.required) fail("Required block '{}' not found", block.name);
  execute_block(block, stmt.flag ? scope : block_context_);
}

bool Evaluator::block_reference(std::string_view name, Value& out) {
  const Block* block = find_block(name);
  if (!block) return false;
  out = make_function(
      Value(),
      [block, context = block_context_](Evaluator& evaluator, CallArguments& arguments) {
        if (!arguments.positional.empty() || !arguments.keywords.empty()) {
          evaluator.fail("a block takes no arguments");
        }
        return evaluator.render_block(*block, context);
      },
      "<jinja2.runtime.BlockReference object>", "BlockReference");
  return true;
}

Value Evaluator::render_block(const Block& block, const ScopePtr& context) {
  MarkedText text;
  {
    const Redirect redirect(*this, text);
    execute_block(block, context);
  }
  return make_string(std::move(text), escaping_);
}

// ---- other templates: there are none ----

void Evaluator::execute_include(const Stmt& stmt, const ScopePtr& scope) {
  const Value name = evaluate(*stmt.value, scope);
  line_ = stmt.line;
  if (name.is_undefined()) fail_undefined(name);
  bool any = true;  // a name that would be looked up
  if (!name.is_string()) {
    any = truthy(name);
    if (any) any = !to_vector(name).empty();
  }
  if (!any && stmt.kind == StmtKind::kInclude) {
    if (stmt.flag) return;
    fail("Tried to select from an empty list of templates.");
  }
  fail("no loader for this environment specified: a chat template is one file");
}

}  // namespace flare::frontend::jinja
