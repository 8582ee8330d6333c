// Recursive descent over the tokens of a template, one function a rule of the grammar.
#include "frontend/template/parser.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "base/error.h"
#include "frontend/template/builtins.h"
#include "frontend/template/folding.h"
#include "frontend/template/lexer.h"

namespace flare::frontend::jinja {
namespace {

constexpr int kMaxNesting = 200;  // tags and brackets inside each other

class Parser {
 public:
  Parser(std::string_view source, std::string_view where)
      : where_(where), tokens_(tokenize(source, where)) {}

  Ast run() {
    ast_.body = body({});
    for (const Expr* e : unknown_) {
      fail_at(e->line, "unknown {} {}", e->kind == ExprKind::kFilter ? "filter" : "test",
              quote(e->text));
    }
    return std::move(ast_);
  }

 private:
  // What the innermost macro or caller body refers to.
  struct MacroUse {
    bool varargs = false, kwargs = false, caller = false;
  };

  // Where a tag stands, as far as its meaning depends on it.
  struct Frame {
    bool soft = false;  // an unknown filter or test fails when it is reached, not before
    bool top = false;
  };
  class Restore {
   public:
    explicit Restore(Frame& frame) : frame_(frame), outer_(frame) {}
    ~Restore() { frame_ = outer_; }
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;

   private:
    Frame& frame_;
    Frame outer_;
  };

  // Counts nesting while it lives.
  class Nest {
   public:
    explicit Nest(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) {
        --parser_.nesting_;
        parser_.fail("nested too deep, at most {} levels are supported", kMaxNesting);
      }
    }
    ~Nest() { --parser_.nesting_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    Parser& parser_;
  };

  template <typename... Args>
  [[noreturn]] void fail_at(int line, fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(Code::kInvalid, "{}: line {}: {}", where_, line,
                fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_at(current().line, text, std::forward<Args>(args)...);
  }

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_name(std::string_view name) { return current().is_name(name) && (next(), true); }
  bool skip_op(std::string_view op) { return current().is_operator(op) && (next(), true); }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail("unexpected {}, expected '{}'", describe(current()), op);
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail("unexpected {}, expected '{}'", describe(current()), name);
  }
  void expect(TokenKind kind, std::string_view what) {
    if (current().kind != kind) fail("unexpected {}, expected {}", describe(current()), what);
    next();
  }
  std::string identifier() {
    if (current().kind != TokenKind::kName) {
      fail("unexpected {}, expected a name", describe(current()));
    }
    return next().text;
  }

  Expr* expr(ExprKind kind, int line) {
    Expr& e = ast_.exprs.emplace_back();
    e.kind = kind;
    e.line = line;
    return &e;
  }
  // Of an expression that is now complete.
  Expr* noted(Expr* e) {
    e->folds = folds(*e, escape_);
    return e;
  }

  Stmt* output(int line, Expr* value) {
    Stmt* s = stmt(StmtKind::kOutput, line);
    s->value = value;
    // As in jinja2, a setting that is known at run time only misses what was computed before.
    if (s->escape == Escape::kDynamic && value->folds) s->escape = written_escape_;
    return s;
  }

  Stmt* stmt(StmtKind kind, int line) {
    Stmt& s = ast_.stmts.emplace_back();
    s.kind = kind;
    s.line = line;
    s.escape = escape_;
    return &s;
  }

  // ---- statements ----

  // Statements up to a tag named in `ends`, whose name is the current token then; with no `ends`,
  // up to the end of the template.
  Body body(std::initializer_list<std::string_view> ends) {
    Body out;
    for (;;) {
      const Token& token = current();
      switch (token.kind) {
        case TokenKind::kEnd:
          if (ends.size() > 0) {
            fail("unexpected end of template, tag '{}' (line {}) is not closed by '{}'",
                 open_tags_.back().first, open_tags_.back().second, *(ends.end() - 1));
          }
          return out;
        case TokenKind::kData:
          out.push_back(stmt(StmtKind::kText, token.line));
          out.back()->text = token.text;
          next();
          break;
        case TokenKind::kVariableBegin: {
          next();
          const int line = current().line;
          out.push_back(output(line, tuple_or_expression()));
          expect(TokenKind::kVariableEnd, "'}}'");
          break;
        }
        default:
          expect(TokenKind::kBlockBegin, "a tag");
          if (current().kind == TokenKind::kName &&
              std::find(ends.begin(), ends.end(), current().text) != ends.end()) {
            return out;
          }
          statement(out);
          expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
  }

  // The body of a tag: its end, statements, and the name of the closing tag, which is consumed.
  Body block(std::string_view end) {
    skip_op(":");
    expect(TokenKind::kBlockEnd, "'%}'");
    Body out = body({end});
    next();
    return out;
  }

  // A body with variables of its own.
  Body inner_block(std::string_view end) {
    const Restore frame(frame_);
    frame_ = {};
    return block(end);
  }

  void statement(Body& out) {
    const Nest nest(*this);
    if (current().kind != TokenKind::kName) {
      fail("unexpected {}, expected the name of a tag", describe(current()));
    }
    const Token tag = next();
    open_tags_.emplace_back(tag.text, tag.line);
    if (tag.text == "print") {
      print(out, tag.line);
    } else {
      out.push_back(tag_statement(tag));
    }
    open_tags_.pop_back();
  }

  Stmt* tag_statement(const Token& tag) {
    const std::string& name = tag.text;
    if (name == "if") return if_tag(tag.line);
    if (name == "for") return for_tag(tag.line);
    if (name == "set") return set_tag(tag.line);
    if (name == "macro") return macro_tag(tag.line);
    if (name == "call") return call_tag(tag.line);
    if (name == "filter") return filter_tag(tag.line);
    if (name == "with") return with_tag(tag.line);
    if (name == "generation") return generation_tag(tag.line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail_at(tag.line, "'{}' outside of a loop", name);
      return stmt(name == "break" ? StmtKind::kBreak : StmtKind::kContinue, tag.line);
    }
    if (name == "block") return block_tag(tag.line);
    if (name == "autoescape") return autoescape_tag(tag.line);
    if (name == "include") return include_tag(tag.line);
    if (name == "import") return import_tag(tag.line);
    if (name == "from") return from_tag(tag.line);
    if (name == "extends") return extends_tag(tag.line);
    if (open_tags_.size() > 1) {
      const auto& [outer, line] = open_tags_[open_tags_.size() - 2];
      fail_at(tag.line, "unknown tag {} inside '{}' (line {})", quote(name), outer, line);
    }
    fail_at(tag.line, "unknown tag {}", quote(name));
  }

  void print(Body& out, int line) {
    bool first = true;
    while (current().kind != TokenKind::kBlockEnd) {
      if (!first) expect_op(",");
      first = false;
      out.push_back(output(line, expression()));
    }
  }

  Stmt* if_tag(int line) {
    Stmt* s = stmt(StmtKind::kIf, line);
    const Restore frame(frame_);
    frame_.soft = true;
    for (;;) {
      Branch branch;
      branch.test = tuple_or_expression(false);
      skip_op(":");
      expect(TokenKind::kBlockEnd, "'%}'");
      branch.body = body({"elif", "else", "endif"});
      s->branches.push_back(std::move(branch));
      const std::string end = next().text;
      if (end == "elif") continue;
      if (end == "else") s->branches.push_back({nullptr, block("endif")});
      return s;
    }
  }

  Stmt* for_tag(int line) {
    Stmt* s = stmt(StmtKind::kFor, line);
    s->target = target(false);
    expect_name("in");
    s->value = tuple_or_expression(false, "recursive");
    const Restore frame(frame_);
    frame_ = {};
    if (skip_name("if")) s->test = expression();
    s->recursive = skip_name("recursive");
    skip_op(":");
    expect(TokenKind::kBlockEnd, "'%}'");
    ++loops_;
    s->body = body({"else", "endfor"});
    --loops_;
    if (next().text != "else") return s;
    const int outer_loops = loops_;
    if (s->recursive) loops_ = 0;
    s->other = block("endfor");
    loops_ = outer_loops;
    return s;
  }

  Stmt* set_tag(int line) {
    Expr* to = target(true);
    if (skip_op("=")) {
      Stmt* s = stmt(StmtKind::kSet, line);
      s->target = to;
      s->value = tuple_or_expression();
      return s;
    }
    Stmt* s = stmt(StmtKind::kSetBlock, line);
    s->target = to;
    const Restore frame(frame_);
    frame_ = {};
    s->value = filters(nullptr);
    s->body = block("endset");
    return s;
  }

  void signature(Macro& macro) {
    expect_op("(");
    while (!current().is_operator(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      macro.parameters.push_back(assignable_name());
      if (skip_op("=")) {
        macro.defaults.push_back(expression());
      } else if (!macro.defaults.empty()) {
        fail("parameter '{}' without default follows one with default", macro.parameters.back());
      }
    }
    expect_op(")");
  }

  // Parses the body of a macro or caller; loops around it do not reach into it.
  void macro_body(Macro& macro, std::string_view end) {
    const MacroUse outer = use_;
    const int outer_loops = loops_;
    use_ = {};
    loops_ = 0;
    macro.body = inner_block(end);
    macro.uses_varargs = use_.varargs;
    macro.uses_kwargs = use_.kwargs;
    macro.uses_caller = use_.caller;
    loops_ = outer_loops;
    use_ = {outer.varargs || use_.varargs, outer.kwargs || use_.kwargs,
            outer.caller || use_.caller};
  }

  Stmt* macro_tag(int line) {
    Stmt* s = stmt(StmtKind::kMacro, line);
    s->macro = &ast_.macros.emplace_back();
    s->macro->name = assignable_name();
    signature(*s->macro);
    macro_body(*s->macro, "endmacro");
    return s;
  }

  Stmt* call_tag(int line) {
    Stmt* s = stmt(StmtKind::kCallBlock, line);
    s->macro = &ast_.macros.emplace_back();
    s->macro->name = "caller";
    s->macro->kind = MacroKind::kCaller;
    if (current().is_operator("(")) signature(*s->macro);
    s->value = expression();
    if (s->value->kind != ExprKind::kCall) fail_at(line, "tag 'call' expects a call");
    macro_body(*s->macro, "endcall");
    return s;
  }

  Stmt* filter_tag(int line) {
    Stmt* s = stmt(StmtKind::kFilterBlock, line);
    const Restore frame(frame_);
    frame_ = {};
    s->value = filters(one_filter(nullptr));
    s->body = block("endfilter");
    return s;
  }

  Stmt* with_tag(int line) {
    Stmt* s = stmt(StmtKind::kWith, line);
    while (current().kind != TokenKind::kBlockEnd) {
      if (!s->bindings.empty()) expect_op(",");
      Expr* to = target(false);
      expect_op("=");
      s->bindings.emplace_back(to, expression());
    }
    s->body = inner_block("endwith");
    return s;
  }

  Stmt* block_tag(int line) {
    Stmt* s = stmt(StmtKind::kBlock, line);
    s->text = identifier();
    for (const Block& other : ast_.blocks) {
      if (other.name == s->text) {
        fail_at(line, "block {} is defined twice (line {})", quote(s->text), other.line);
      }
    }
    s->flag = skip_name("scoped");
    if (current().is_operator("-")) {
      fail("unexpected '-': the name of a block is one word without hyphens");
    }
    Block& out = ast_.blocks.emplace_back();
    out.name = s->text;
    out.line = line;
    out.required = skip_name("required");
    // jinja2 compiles it by itself: no loop and no autoescape around it reaches in.
    const int outer_loops = std::exchange(loops_, 0);
    const Escape outer_escape = std::exchange(escape_, Escape::kOff);
    const Escape outer_written = std::exchange(written_escape_, Escape::kOff);
    out.body = inner_block("endblock");
    loops_ = outer_loops;
    escape_ = outer_escape;
    written_escape_ = outer_written;
    skip_name(out.name);
    for (const Stmt* part : out.required ? out.body : Body()) {
      const bool blank = part->kind == StmtKind::kText &&
                         part->text.find_first_not_of(" \t\n\r\f\v") == std::string::npos;
      if (!blank) fail_at(part->line, "a required block holds comments and white space only");
    }
    return s;
  }

  Stmt* autoescape_tag(int line) {
    Stmt* s = stmt(StmtKind::kAutoescape, line);
    s->value = expression();
    const Escape outer = escape_;
    const Escape outer_written = written_escape_;
    if (const std::optional<bool> on = literal_truth(*s->value)) {
      escape_ = written_escape_ = *on ? Escape::kOn : Escape::kOff;
    } else {
      escape_ = Escape::kDynamic;
    }
    s->body = inner_block("endautoescape");
    escape_ = outer;
    written_escape_ = outer_written;
    return s;
  }

  // "with context" or "without context", or nothing.
  bool skip_import_context() {
    if (!current().is_name("with") && !current().is_name("without")) return false;
    if (!look().is_name("context")) return false;
    next();
    next();
    return true;
  }

  Stmt* include_tag(int line) {
    Stmt* s = stmt(StmtKind::kInclude, line);
    s->value = expression();
    if (current().is_name("ignore") && look().is_name("missing")) {
      next();
      next();
      s->flag = true;
    }
    skip_import_context();
    return s;
  }

  Stmt* import_tag(int line) {
    Stmt* s = stmt(StmtKind::kImport, line);
    s->value = expression();
    expect_name("as");
    assignable_name();
    skip_import_context();
    return s;
  }

  Stmt* from_tag(int line) {
    Stmt* s = stmt(StmtKind::kImport, line);
    s->value = expression();
    expect_name("import");
    for (bool first = true;; first = false) {
      if (!first) expect_op(",");
      if (skip_import_context()) break;
      const std::string name = assignable_name();
      if (name.starts_with("_")) fail("names that begin with '_' cannot be imported");
      if (skip_name("as")) assignable_name();
      if (skip_import_context() || !current().is_operator(",")) break;
    }
    return s;
  }

  Stmt* extends_tag(int line) {
    if (!frame_.top) fail_at(line, "tag 'extends' may stand at the top level only");
    Stmt* s = stmt(StmtKind::kImport, line);
    s->value = expression();
    return s;
  }

  Stmt* generation_tag(int line) {
    Stmt* s = stmt(StmtKind::kGeneration, line);
    s->macro = &ast_.macros.emplace_back();
    s->macro->name = "caller";
    s->macro->kind = MacroKind::kCaller;
    macro_body(*s->macro, "endgeneration");
    return s;
  }

  // ---- targets ----

  std::string assignable_name() {
    const int line = current().line;
    std::string name = identifier();
    static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                      "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants)) {
      fail_at(line, "cannot assign to '{}'", name);
    }
    return name;
  }

  Expr* target(bool with_namespace) {
    if (with_namespace && current().kind == TokenKind::kName && look().is_operator(".")) {
      Expr* e = expr(ExprKind::kNamespaceTarget, current().line);
      e->text = identifier();
      next();
      e->attribute = identifier();
      return e;
    }
    Expr* first = target_part();
    if (!current().is_operator(",")) return first;
    Expr* e = expr(ExprKind::kTuple, first->line);
    e->items.push_back(first);
    while (skip_op(",")) {
      if ((!with_namespace && current().is_name("in")) || current().is_operator(")") ||
          current().kind == TokenKind::kBlockEnd) {
        break;
      }
      e->items.push_back(target_part());
    }
    return e;
  }

  Expr* target_part() {
    const Nest nest(*this);
    if (current().is_operator("(")) {
      next();
      Expr* e = target(false);
      expect_op(")");
      return e;
    }
    Expr* e = expr(ExprKind::kName, current().line);
    e->text = assignable_name();
    return e;
  }

  // ---- expressions, loosest binding first ----

  Expr* tuple_or_expression(bool with_condition = true, std::string_view end_name = {},
                            bool in_parentheses = false) {
    const int line = current().line;
    std::vector<Expr*> items;
    bool tuple = false;
    for (;;) {
      if (!items.empty()) expect_op(",");
      const Token& token = current();
      if (token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
          token.is_operator(")") || (!end_name.empty() && token.is_name(end_name))) {
        break;
      }
      items.push_back(with_condition ? expression() : or_expression());
      if (!current().is_operator(",")) break;
      tuple = true;
    }
    if (!tuple && !items.empty()) return items[0];
    if (!tuple && !in_parentheses) {
      fail("unexpected {}, expected an expression", describe(current()));
    }
    Expr* e = expr(ExprKind::kTuple, line);
    e->items = std::move(items);
    return noted(e);
  }

  Expr* expression() {
    const Nest nest(*this);
    const int line = current().line;
    const size_t unknown_before = unknown_.size();
    Expr* value = or_expression();
    while (skip_name("if")) {
      unknown_.resize(unknown_before);
      Expr* e = expr(ExprKind::kCondition, line);
      e->a = value;
      const Restore frame(frame_);
      frame_.soft = true;
      e->b = or_expression();
      if (skip_name("else")) e->c = expression();
      value = noted(e);
    }
    return value;
  }

  template <typename Part>
  Expr* name_chain(ExprKind kind, std::string_view name, Part part) {
    Expr* first = part();
    if (!current().is_name(name)) return first;
    Expr* e = expr(kind, first->line);
    e->items.push_back(first);
    while (skip_name(name)) e->items.push_back(part());
    return noted(e);
  }

  Expr* or_expression() {
    return name_chain(ExprKind::kOr, "or", [&] { return and_expression(); });
  }
  Expr* and_expression() {
    return name_chain(ExprKind::kAnd, "and", [&] { return not_expression(); });
  }

  Expr* not_expression() {
    if (!current().is_name("not")) return compare();
    const Nest nest(*this);
    Expr* e = expr(ExprKind::kNot, next().line);
    e->a = not_expression();
    return noted(e);
  }

  bool compare_op(CompareOp& op) {
    static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
        {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
        {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
    for (const auto& [text, code] : kOps) {
      if (skip_op(text)) return op = code, true;
    }
    if (skip_name("in")) return op = CompareOp::kIn, true;
    if (current().is_name("not") && look().is_name("in")) {
      next();
      next();
      return op = CompareOp::kNotIn, true;
    }
    return false;
  }

  Expr* compare() {
    Expr* first = sum();
    CompareOp op;
    if (!compare_op(op)) return first;
    Expr* e = expr(ExprKind::kCompare, first->line);
    e->items.push_back(first);
    do {
      e->compare_ops.push_back(op);
      e->items.push_back(sum());
    } while (compare_op(op));
    return noted(e);
  }

  template <typename Part>
  Expr* binary_chain(std::initializer_list<std::pair<std::string_view, BinaryOp>> ops, Part part) {
    Expr* first = part();
    Expr* e = nullptr;
    for (;;) {
      const auto op = std::find_if(ops.begin(), ops.end(),
                                   [&](const auto& o) { return current().is_operator(o.first); });
      if (op == ops.end()) return e ? noted(e) : first;
      next();
      if (!e) {
        e = expr(ExprKind::kBinary, first->line);
        e->items.push_back(first);
      }
      e->binary_ops.push_back(op->second);
      e->items.push_back(part());
    }
  }

  Expr* sum() {
    return binary_chain({{"+", BinaryOp::kAdd}, {"-", BinaryOp::kSub}}, [&] { return concat(); });
  }

  Expr* concat() {
    Expr* first = product();
    if (!current().is_operator("~")) return first;
    Expr* e = expr(ExprKind::kConcat, first->line);
    e->escape = escape_;
    e->items.push_back(first);
    while (skip_op("~")) e->items.push_back(product());
    return noted(e);
  }

  Expr* product() {
    return binary_chain({{"*", BinaryOp::kMul},
                         {"/", BinaryOp::kDiv},
                         {"//", BinaryOp::kFloorDiv},
                         {"%", BinaryOp::kMod}},
                        [&] { return power(); });
  }

  Expr* power() {
    return binary_chain({{"**", BinaryOp::kPow}}, [&] { return unary(true); });
  }

  Expr* unary(bool with_filter) {
    const Nest nest(*this);
    Expr* e = nullptr;
    if (current().is_operator("-") || current().is_operator("+")) {
      const bool minus = current().is_operator("-");
      e = expr(minus ? ExprKind::kNegate : ExprKind::kPlus, next().line);
      e->a = unary(false);
      noted(e);
    } else {
      e = primary();
    }
    e = postfix(e);
    return with_filter ? filter_expression(e) : e;
  }

  Expr* name_or_constant() {
    const Token& token = next();
    const std::string& name = token.text;
    const auto constant = [&](ExprKind kind) {
      Expr* e = expr(kind, token.line);
      e->folds = true;
      return e;
    };
    if (name == "true" || name == "True") return constant(ExprKind::kTrue);
    if (name == "false" || name == "False") return constant(ExprKind::kFalse);
    if (name == "none" || name == "None") return constant(ExprKind::kNone);
    use_.varargs |= name == "varargs";
    use_.kwargs |= name == "kwargs";
    use_.caller |= name == "caller";
    Expr* e = expr(ExprKind::kName, token.line);
    e->text = name;
    return e;
  }

  Expr* primary() {
    const Token& token = current();
    switch (token.kind) {
      case TokenKind::kName:
        return name_or_constant();
      case TokenKind::kString: {
        Expr* e = expr(ExprKind::kString, token.line);
        while (current().kind == TokenKind::kString) e->text += next().text;
        e->constant = ast_.n_constants++;
        e->folds = true;
        return e;
      }
      case TokenKind::kInteger: {
        Expr* e = expr(ExprKind::kInteger, token.line);
        e->text = next().text;
        e->folds = true;
        return e;
      }
      case TokenKind::kFloat: {
        Expr* e = expr(ExprKind::kFloat, token.line);
        e->real = std::strtod(next().text.c_str(), nullptr);
        e->folds = true;
        return e;
      }
      default:
        break;
    }
    if (token.is_operator("(")) {
      next();
      Expr* e = tuple_or_expression(true, {}, true);
      expect_op(")");
      return e;
    }
    if (token.is_operator("[")) return list();
    if (token.is_operator("{")) return dict();
    fail("unexpected {}, expected an expression", describe(token));
  }

  Expr* list() {
    Expr* e = expr(ExprKind::kList, next().line);
    while (!current().is_operator("]")) {
      if (!e->items.empty()) expect_op(",");
      if (current().is_operator("]")) break;
      e->items.push_back(expression());
    }
    next();
    return noted(e);
  }

  Expr* dict() {
    Expr* e = expr(ExprKind::kDict, next().line);
    while (!current().is_operator("}")) {
      if (!e->items.empty()) expect_op(",");
      if (current().is_operator("}")) break;
      e->items.push_back(expression());
      expect_op(":");
      e->items.push_back(expression());
    }
    next();
    return noted(e);
  }

  Expr* postfix(Expr* e) {
    for (;;) {
      if (current().is_operator(".") || current().is_operator("[")) {
        e = subscript(e);
      } else if (current().is_operator("(")) {
        e = call(e);
      } else {
        return e;
      }
    }
  }

  Expr* filter_expression(Expr* e) {
    for (;;) {
      if (current().is_operator("|")) {
        e = filters(e);
      } else if (current().is_name("is")) {
        e = test(e);
      } else if (current().is_operator("(")) {
        e = call(e);
      } else {
        return e;
      }
    }
  }

  Expr* subscript(Expr* object) {
    const int line = current().line;
    if (next().text == ".") {
      if (current().kind == TokenKind::kInteger) {
        Expr* e = expr(ExprKind::kItem, line);
        e->a = object;
        e->b = primary();
        return noted(e);
      }
      Expr* e = expr(ExprKind::kAttribute, line);
      e->a = object;
      e->text = identifier();
      return noted(e);
    }
    Expr* e = expr(ExprKind::kItem, line);
    e->a = object;
    std::vector<Expr*> items;
    while (!current().is_operator("]")) {
      if (!items.empty()) expect_op(",");
      items.push_back(subscripted());
    }
    next();
    if (items.size() == 1) {
      e->b = items[0];
      return noted(e);
    }
    e->b = expr(ExprKind::kTuple, line);
    for (Expr* item : items) {
      if (item->kind == ExprKind::kSlice) fail_at(line, "a slice inside a tuple is not supported");
    }
    e->b->items = std::move(items);
    return e;
  }

  Expr* subscripted() {
    const int line = current().line;
    Expr* begin = nullptr;
    if (!current().is_operator(":")) {
      begin = expression();
      if (!current().is_operator(":")) return begin;
    }
    next();
    const auto part = [&]() -> Expr* {
      const Token& t = current();
      if (t.is_operator(":") || t.is_operator("]") || t.is_operator(",")) return nullptr;
      return expression();
    };
    Expr* e = expr(ExprKind::kSlice, line);
    e->items = {begin, part(), nullptr};
    if (skip_op(":")) e->items[2] = part();
    return noted(e);
  }

  void arguments(Call& out) {
    const int line = current().line;
    expect_op("(");
    bool comma = false;
    const auto ensure = [&](bool ok) {
      if (!ok) fail_at(line, "invalid order of arguments in a call");
    };
    while (!current().is_operator(")")) {
      if (comma) {
        expect_op(",");
        if (current().is_operator(")")) break;
      }
      if (skip_op("*")) {
        ensure(!out.star && !out.double_star);
        out.star = expression();
      } else if (skip_op("**")) {
        ensure(!out.double_star);
        out.double_star = expression();
      } else if (current().kind == TokenKind::kName && look().is_operator("=")) {
        ensure(!out.double_star);
        std::string key = next().text;
        next();
        for (const auto& [other, value] : out.keywords) {
          if (other == key) fail_at(line, "keyword argument '{}' is repeated", key);
        }
        out.keywords.emplace_back(std::move(key), expression());
      } else {
        ensure(!out.star && !out.double_star && out.keywords.empty());
        out.positional.push_back(expression());
      }
      comma = true;
    }
    expect_op(")");
  }

  Expr* call(Expr* callee) {
    Expr* e = expr(ExprKind::kCall, current().line);
    e->a = callee;
    arguments(e->call);
    return e;
  }

  std::string dotted_name() {
    std::string name = identifier();
    while (skip_op(".")) {
      name += '.';
      name += identifier();
    }
    return name;
  }

  Expr* filters(Expr* value) {
    while (skip_op("|")) value = one_filter(value);
    return value;
  }

  Expr* one_filter(Expr* value) {
    Expr* e = expr(ExprKind::kFilter, current().line);
    e->a = value;
    e->text = dotted_name();
    e->filter = find_filter(e->text);
    if (!e->filter && !frame_.soft) unknown_.push_back(e);
    if (current().is_operator("(")) arguments(e->call);
    return noted(e);
  }

  Expr* test(Expr* value) {
    const int line = next().line;
    const bool negated = skip_name("not");
    Expr* e = expr(ExprKind::kTest, line);
    e->a = value;
    e->text = dotted_name();
    e->test = find_test(e->text);
    if (!e->test && !frame_.soft) unknown_.push_back(e);
    const Token& token = current();
    const bool value_follows =
        token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
        token.kind == TokenKind::kFloat || token.is_operator("[") || token.is_operator("{") ||
        (token.kind == TokenKind::kName && token.text != "else" && token.text != "or" &&
         token.text != "and");
    if (token.is_operator("(")) {
      arguments(e->call);
    } else if (value_follows) {
      if (token.is_name("is")) fail("tests cannot be chained with 'is'");
      e->call.positional.push_back(postfix(primary()));
    }
    noted(e);
    if (!negated) return e;
    Expr* n = expr(ExprKind::kNot, line);
    n->a = e;
    return noted(n);
  }

  std::string_view where_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Ast ast_;
  int nesting_ = 0;
  int loops_ = 0;
  Frame frame_ = {false, true};
  Escape escape_ = Escape::kOff;
  Escape written_escape_ = Escape::kOff;  // as of the innermost {% autoescape %} of a literal
  std::vector<const Expr*> unknown_;      // filters and tests that fail the template
  MacroUse use_;
  std::vector<std::pair<std::string, int>> open_tags_;
};

}  // namespace

Ast parse_template(std::string_view source, std::string_view where) {
  return Parser(source, where).run();
}

}  // namespace flare::frontend::jinja
