// Literal search and PCRE2 matching under limits.
#include "frontend/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "frontend/tokenizer/unicode.h"
#include "frontend/tokenizer/word_matcher.h"

namespace flare::frontend::tokenizer {

namespace {

constexpr size_t kMaxExpression = 1 << 16;
// PCRE2's own default of matching work; an honest pattern needs a few steps a character.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64 << 10;
constexpr size_t kJitStackBytes = 16 << 20;

std::string pcre_message(int code) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(code, text, sizeof text) < 0
             ? fmt::format("error {}", code)
             : std::string(reinterpret_cast<const char*>(text));
}

}  // namespace

struct MatchScratch::Impl {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;  // made when the machine stack does not suffice

  Impl() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
  }
  ~Impl() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (stack != nullptr) pcre2_jit_stack_free(stack);
  }
  void grow_stack() {
    stack = pcre2_jit_stack_create(64 << 10, kJitStackBytes, nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
};

MatchScratch::MatchScratch() : impl_(std::make_unique<Impl>()) {
  if (impl_->data == nullptr || impl_->context == nullptr) throw std::bad_alloc();
}
MatchScratch::~MatchScratch() = default;

struct Pattern::Impl {
  std::string literal;
  WordMatcher words = nullptr;
  pcre2_code* code = nullptr;
  bool jit = false;
  std::string name;  // for errors

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (code != nullptr) pcre2_code_free(code);
  }
};

Pattern::Pattern(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern Pattern::literal(std::string text) {
  auto impl = std::make_unique<Impl>();
  impl->literal = std::move(text);
  return Pattern(std::move(impl));
}

Pattern Pattern::regex(std::string_view expression, std::string_view where, bool by_engine) {
  if (expression.size() > kMaxExpression)
    throw Error(Code::kInvalid, "{}: {} bytes, at most {} expected", where, expression.size(),
                kMaxExpression);
  auto impl = std::make_unique<Impl>();
  if (!by_engine && (impl->words = find_word_matcher(expression)) != nullptr)
    return Pattern(std::move(impl));
  const std::string translated = translate_regex(expression, where);
  int code = 0;
  size_t offset = 0;
  // Ruby's ^ and $ match at every line.
  impl->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &code, &offset, nullptr);
  if (impl->code == nullptr)
    throw Error(Code::kInvalid, "{}: regular expression {}: {}", where, quote(expression),
                pcre_message(code));
  // Where pages cannot be made executable the interpreter does the same work.
  impl->jit = pcre2_jit_compile(impl->code, PCRE2_JIT_COMPLETE) == 0;
  impl->name = fmt::format("{}: regular expression {}", where, quote(expression));
  return Pattern(std::move(impl));
}

Pattern Pattern::from_json(const Component& component) {
  if (component.find("String") != nullptr) {
    std::string text = component.text("String");
    if (text.empty())
      throw Error(Code::kInvalid, "{}: empty, some text expected", component.path_of("String"));
    return literal(std::move(text));
  }
  if (component.find("Regex") != nullptr)
    return regex(component.text("Regex"), component.path_of("Regex"));
  throw Error(Code::kInvalid, "{}: neither 'String' nor 'Regex' found", component.path());
}

bool Pattern::search(std::string_view text, size_t from, Match& match,
                     MatchScratch& scratch) const {
  if (impl_->words != nullptr) {
    for (; from < text.size(); from += utf8_length(text[from])) {
      match = {from, impl_->words(text, from)};
      if (match.end > match.begin) return true;
    }
    return false;
  }
  if (impl_->code == nullptr) {
    match.begin = text.find(impl_->literal, from);
    match.end = match.begin + impl_->literal.size();
    return match.begin != std::string_view::npos;
  }
  MatchScratch::Impl& memory = *scratch.impl_;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto attempt = [&] {
    return impl_->jit ? pcre2_jit_match(impl_->code, subject, text.size(), from, 0, memory.data,
                                        memory.context)
                      : pcre2_match(impl_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                    memory.data, memory.context);
  };
  int rc = attempt();
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT && memory.stack == nullptr) {
    memory.grow_stack();
    rc = attempt();
  }
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0)
    throw Error(Code::kInvalid, "{}: text of {} bytes: {}", impl_->name, text.size(),
                pcre_message(rc));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory.data);
  match = {bounds[0], bounds[1]};
  // \K inside a lookahead can put the start behind the end.
  if (match.begin > match.end || match.begin < from)
    throw Error(Code::kInvalid, "{}: a match that ends before it begins", impl_->name);
  return true;
}

std::string Pattern::replace_all(std::string_view text, std::string_view content,
                                 MatchScratch& scratch) const {
  std::string out;
  size_t done = 0;
  for_each(text, scratch, [&](Match match) {
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
  });
  return out += text.substr(done);
}

bool Pattern::next(std::string_view text, Cursor& cursor, Match& match,
                   MatchScratch& scratch) const {
  while (cursor.from <= text.size()) {
    if (!search(text, cursor.from, match, scratch)) return false;
    if (match.begin == match.end && match.end == cursor.last_end) {
      cursor.from += cursor.from < text.size() ? utf8_length(text[cursor.from]) : 1;
      continue;
    }
    cursor.from = cursor.last_end = match.end;
    return true;
  }
  return false;
}

}  // namespace flare::frontend::tokenizer
