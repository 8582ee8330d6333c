// A parsed template and the start of its renders.
#include "frontend/template/template.h"

#include <utility>

#include "frontend/template/evaluator.h"
#include "frontend/template/parser.h"

namespace flare::frontend {

struct Template::Impl {
  std::string where;
  jinja::Ast ast;
};

Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Template Template::parse(std::string_view source, std::string_view where) {
  return Template(
      std::unique_ptr<Impl>(new Impl{std::string(where), jinja::parse_template(source, where)}));
}

MarkedText Template::render(const Json& variables, std::initializer_list<std::string_view> trusted,
                            int64_t now_unix, const RenderLimits& limits) const {
  return jinja::Evaluator(impl_->ast, impl_->where, variables, trusted, now_unix, limits).run();
}

}  // namespace flare::frontend
