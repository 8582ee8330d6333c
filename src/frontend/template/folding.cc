// As the as_const methods of jinja2.nodes.
#include "frontend/template/folding.h"

#include <algorithm>
#include <string_view>

namespace flare::frontend::jinja {
namespace {

// Whether the values decide `e`, an `and` or `or`, that are known while it is compiled.
bool chain_folds(const Expr& e) {
  for (const Expr* item : e.items) {
    if (!item->folds) return false;
    if (literal_truth(*item) == (e.kind == ExprKind::kOr)) return true;
  }
  return true;
}

}  // namespace

std::optional<bool> literal_truth(const Expr& e) {
  switch (e.kind) {
    case ExprKind::kTrue:
      return true;
    case ExprKind::kFalse:
    case ExprKind::kNone:
      return false;
    case ExprKind::kInteger: {
      const bool prefixed =
          e.text.size() > 2 && std::string_view("xXbBoO").find(e.text[1]) != std::string_view::npos;
      return e.text.find_first_not_of("0_", prefixed ? 2 : 0) != std::string::npos;
    }
    case ExprKind::kFloat:
      return e.real != 0;
    case ExprKind::kString:
      return !e.text.empty();
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return e.folds ? std::optional(!e.items.empty()) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool folds(const Expr& e, Escape escape) {
  // These see the variables of the template, or give what is consumed by iterating.
  static constexpr std::string_view kLate[] = {"map",        "select",  "reject", "selectattr",
                                               "rejectattr", "random",  "items",  "reverse",
                                               "unique",     "groupby", "batch",  "slice"};
  const auto fixed = [](const Expr* part) { return !part || part->folds; };
  bool all = fixed(e.a) && fixed(e.b) && fixed(e.c) &&
             std::all_of(e.items.begin(), e.items.end(), fixed) && fixed(e.call.star) &&
             fixed(e.call.double_star) &&
             std::all_of(e.call.positional.begin(), e.call.positional.end(), fixed);
  for (const auto& [name, value] : e.call.keywords) all &= value->folds;
  if (e.kind == ExprKind::kFilter || e.kind == ExprKind::kTest) {
    all &= e.a != nullptr && escape != Escape::kDynamic && (e.filter || e.test) &&
           std::find(std::begin(kLate), std::end(kLate), e.text) == std::end(kLate);
  }
  if (e.kind == ExprKind::kAnd || e.kind == ExprKind::kOr) all = chain_folds(e);
  if (e.kind == ExprKind::kCondition) {
    const std::optional<bool> chosen = literal_truth(*e.b);
    const Expr* value = chosen && *chosen ? e.a : e.c;
    all = value && value->folds && (chosen || all);
  }
  return all && e.kind != ExprKind::kCall;
}

}  // namespace flare::frontend::jinja
