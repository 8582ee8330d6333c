// The syntax tree of a template. Nodes belong to the Ast; they point at each other freely.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace flare::frontend::jinja {

class Evaluator;
struct Value;
struct CallArguments;
using FilterFunction = Value (*)(Evaluator&, CallArguments&);
using TestFunction = bool (*)(Evaluator&, CallArguments&);

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
// Whether a place of the template escapes what it prints: as written by {% autoescape %} around it,
// or decided by a value at run time.
enum class Escape : uint8_t { kOff, kOn, kDynamic };
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

enum class ExprKind : uint8_t {
  kNone,
  kTrue,
  kFalse,
  kInteger,          // text: digits with their prefix
  kFloat,            // real
  kString,           // text; constant: its slot
  kName,             // text
  kList,             // items
  kTuple,            // items; as a target: its parts
  kDict,             // items: key, value, key, value, …
  kAttribute,        // a . text
  kItem,             // a [b]
  kSlice,            // [items[0] : items[1] : items[2]], absent parts are null; only as b of kItem
  kCall,             // a (call)
  kFilter,           // a | text (call); a is null in filter blocks
  kTest,             // a is text (call)
  kNegate,           // - a
  kPlus,             // + a
  kNot,              // not a
  kBinary,           // items[0] binary_ops[0] items[1] binary_ops[1] … from the left
  kConcat,           // items[0] ~ items[1] ~ …
  kCompare,          // items[0] compare_ops[0] items[1] … chained as in Python
  kAnd,              // items
  kOr,               // items
  kCondition,        // a if b else c; c may be null
  kNamespaceTarget,  // text . attribute, only as a target
};

struct Expr;

struct Call {
  std::vector<Expr*> positional;
  std::vector<std::pair<std::string, Expr*>> keywords;
  Expr* star = nullptr;         // *expression
  Expr* double_star = nullptr;  // **expression
};

struct Expr {
  ExprKind kind = ExprKind::kNone;
  int line = 0;
  std::string text;
  std::string attribute;
  double real = 0;
  int constant = -1;
  Expr* a = nullptr;
  Expr* b = nullptr;
  Expr* c = nullptr;
  std::vector<Expr*> items;
  std::vector<BinaryOp> binary_ops;
  std::vector<CompareOp> compare_ops;
  Call call;
  FilterFunction filter = nullptr;  // nullptr: unknown, which fails when it is reached
  TestFunction test = nullptr;
  Escape escape = Escape::kOff;  // of kConcat
  bool folds = false;            // jinja2 computes it while it compiles: nothing in it is variable
};

enum class StmtKind : uint8_t {
  kText,         // text
  kOutput,       // value
  kIf,           // branches; the last test is null if there is an else
  kFor,          // for target in value if test [recursive]: body else other
  kSet,          // target = value
  kSetBlock,     // target = rendered body | value (a filter chain or null)
  kMacro,        // macro
  kCallBlock,    // value (a call) with macro as its caller
  kFilterBlock,  // body | value
  kWith,         // targets and values in pairs, body
  kGeneration,   // macro, called without arguments where it stands
  kBlock,        // block `text`, defined in Ast::blocks; `flag`: scoped
  kAutoescape,   // value decides for the body
  kInclude,      // value names a template; `flag`: ignore missing
  kImport,       // value names a template: import, from and extends
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<Stmt*>;

enum class MacroKind : uint8_t { kNamed, kCaller };

struct Macro {
  MacroKind kind = MacroKind::kNamed;
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Expr*> defaults;  // of the last parameters
  Body body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Branch {
  Expr* test = nullptr;
  Body body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  Expr* target = nullptr;
  Expr* value = nullptr;
  Expr* test = nullptr;
  bool recursive = false;
  bool flag = false;
  Escape escape = Escape::kOff;
  Body body;
  Body other;
  std::vector<Branch> branches;
  std::vector<std::pair<Expr*, Expr*>> bindings;
  Macro* macro = nullptr;
};

// {% block %}: rendered where it stands, and again by self.NAME().
struct Block {
  std::string name;
  int line = 0;
  bool required = false;  // to be replaced by a template that extends this one: it fails
  Body body;
};

struct Ast {
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  std::deque<Macro> macros;
  std::deque<Block> blocks;
  Body body;
  int n_constants = 0;  // string constants, numbered by Expr::constant
};

}  // namespace flare::frontend::jinja
