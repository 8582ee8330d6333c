// Framing: where calls may start, what surrounds them, how often.
#include "frontend/output/constraint.h"

#include <algorithm>

#include "frontend/output/argument_grammar.h"

namespace flare::frontend {
namespace {

using grammar::Grammar;
using output::ArgumentGrammar;
using Expr = Grammar::Expr;
constexpr int kMany = Grammar::kUnbounded;

class Builder {
 public:
  Builder(Grammar& g, const Format& format, const ToolSet& tools, const ToolChoice& choice,
          Expr text_answer)
      : g_(g), format_(format), choice_(choice), text_answer_(text_answer), arguments_(g, format) {
    for (const Tool& tool : tools.tools())
      if (choice.names.empty() || std::ranges::find(choice.names, tool.name) != choice.names.end())
        tools_.push_back(&tool);
  }

  ToolConstraint build() {
    const bool no_calls = format_.spellings.empty() || tools_.empty();
    const Expr answer = format_.channels && !format_.spellings.empty() ? messages()
                        : no_calls                                     ? text({})
                        : format_.spellings[0].bare_object             ? bare_calls()
                                                                       : text_and_regions();
    return {.answer = answer, .loosened = arguments_.take_loosened()};
  }

 private:
  bool must_call() const { return choice_.mode != ToolChoice::Mode::kAuto; }
  bool many() const { return choice_.parallel && choice_.mode != ToolChoice::Mode::kNamed; }
  bool enforced(const Tool& tool) const { return must_call() || tool.strict; }
  Expr empty() { return g_.sequence({}); }
  // Any text but the stops; the answer's own constraint if there is one.
  Expr text(std::vector<std::string> stops) {
    return text_answer_ != kFreeText ? text_answer_ : g_.text_without(std::move(stops));
  }
  Expr white_space() { return g_.regex("[ \\n]{0,4}"); }

  // HEAD BODY of a call of each tool that may be called.
  Expr any_call(const Spelling& s) {
    std::vector<Expr> calls;
    for (const Tool* tool : tools_) calls.push_back(call(s, *tool));
    return g_.choice(std::move(calls));
  }

  Expr call(const Spelling& s, const Tool& tool) {
    if (s.body == Body::kJsonCall) return json_call(s, tool);
    // Bodies in tags begin on the next line where templates write one.
    const bool lines = s.body == Body::kParameters || s.body == Body::kElements;
    return g_.sequence({arguments_.tag(s.call_open),
                        g_.literal(std::string(s.head_before) + tool.name),
                        s.head_after.empty() ? empty() : g_.regex(s.head_after),
                        arguments_.tag(s.call_open_end), lines ? line_breaks(s) : empty(),
                        arguments_.body(s, tool, enforced(tool)), arguments_.tag(s.call_close)});
  }

  // Behind a head; some templates leave a line empty where arguments would stand.
  Expr line_breaks(const Spelling& s) {
    return s.gap.empty() ? empty() : g_.repeat(g_.literal(s.gap), 0, 2);
  }

  // {"name": NAME, KEY: {…}}, and in an array an id.
  Expr json_call(const Spelling& s, const Tool& tool, bool with_id = false) {
    const Expr space = g_.optional(g_.literal(" "));
    const Expr id = with_id ? g_.optional(g_.regex(", \"id\": \"[A-Za-z0-9_-]{1,64}\"")) : empty();
    return g_.sequence({g_.literal("{\"name\":"), space, g_.literal("\"" + tool.name + "\","),
                        space, g_.literal("\"" + std::string(s.arguments_key) + "\":"), space,
                        arguments_.body(s, tool, enforced(tool)), id, g_.literal("}")});
  }

  // One region of calls; `most` of them if the form has several.
  Expr region(const Spelling& s) {
    const Expr gap = arguments_.gap(s);
    Expr inner = g_.sequence({any_call(s), gap});
    if (!s.one_call && many()) inner = g_.repeat(inner, 1, kMany);
    if (s.array) inner = g_.choice({inner, call_array(s)});
    return g_.sequence({arguments_.tag(s.open), gap, inner, arguments_.tag(s.close)});
  }

  // [{"name": …}, …] in place of a head and an object.
  Expr call_array(const Spelling& s) {
    std::vector<Expr> calls;
    for (const Tool* tool : tools_) calls.push_back(json_call(s, *tool, true));
    const Expr one = g_.choice(std::move(calls));
    const Expr more = g_.repeat(g_.sequence({g_.literal(", "), one}), 0, many() ? kMany : 0);
    return g_.sequence({g_.optional(g_.literal(" ")), g_.literal("["), one, more, g_.literal("]")});
  }

  Expr any_region() {
    std::vector<Expr> regions;
    for (const Spelling& s : format_.spellings) regions.push_back(region(s));
    return g_.choice(std::move(regions));
  }

  std::vector<std::string> openers() const {
    std::vector<std::string> texts;
    for (const Spelling& s : format_.spellings) texts.emplace_back(s.open);
    return texts;
  }

  // Text, regions, text; or regions alone.
  Expr text_and_regions() {
    const Expr one = any_region();
    const Expr calls = g_.sequence(
        {white_space(), one, g_.repeat(g_.sequence({white_space(), one}), 0, many() ? kMany : 0)});
    const Expr marks = any_marks();
    if (must_call()) return g_.sequence({marks, calls, marks});
    if (text_answer_ != kFreeText)
      return g_.sequence(
          {marks, g_.choice({g_.sequence({text_answer_, marks}), g_.sequence({calls, marks})})});
    const Expr free = g_.text_without(openers());
    const Expr more = g_.repeat(g_.sequence({marks, one, free}), 0, many() ? kMany : 1);
    return g_.sequence({marks, free, more, marks});
  }

  // Marks without meaning that a family writes around its parts: its description lists them.
  Expr any_marks() {
    std::vector<Expr> marks;
    for (const std::string_view text : format_.silent) marks.push_back(arguments_.tag(text));
    return marks.empty() ? empty() : g_.repeat(g_.choice(std::move(marks)), 0, 4);
  }

  // Calls that begin the answer, without a marker or behind one.
  Expr bare_calls() {
    const Spelling& s = format_.spellings[0];
    const Expr one = any_call(s);
    const Expr more = g_.repeat(g_.sequence({g_.literal("; "), one}), 0, many() ? kMany : 0);
    const Expr calls = g_.sequence({one, more});
    const Expr marked = g_.sequence({arguments_.tag(s.open), calls});
    if (must_call()) return g_.choice({calls, marked});
    if (text_answer_ != kFreeText) return g_.choice({calls, marked, text_answer_});
    // Text does not begin as a call does.
    constexpr std::string_view kBegin = "{\"name\"";
    std::vector<Expr> texts = {empty()};
    for (size_t i = 0; i < kBegin.size(); ++i) {
      const std::string other =
          std::string("[^") + (kBegin[i] == '{' ? "\\{" : std::string(1, kBegin[i])) + "<]";
      const Expr rest = g_.sequence({g_.regex(other), g_.text_without({std::string(s.open)})});
      texts.push_back(g_.sequence({g_.literal(kBegin.substr(0, i)), i ? g_.optional(rest) : rest}));
    }
    const Expr free = g_.choice(std::move(texts));
    return g_.choice({calls, g_.sequence({free, g_.optional(marked)})});
  }

  // Messages with headers, from behind the role.
  Expr messages() {
    const Channels& c = *format_.channels;
    const Expr next = g_.sequence({arguments_.tag(c.start), g_.literal("assistant")});
    std::vector<std::string> stops(c.ends.begin(), c.ends.end());
    stops.emplace_back(c.start);
    std::vector<Expr> ends;
    for (const std::string_view end : c.ends) ends.push_back(arguments_.tag(end));
    const Expr end = g_.choice(std::move(ends));
    const auto message = [&](std::string_view header, Expr body) {
      return g_.sequence({arguments_.tag(header), body});
    };
    const Expr body = g_.text_without(stops);
    std::vector<Expr> before;
    for (const std::string_view header : c.reasoning_headers)
      before.push_back(message(header, body));
    if (!must_call() && text_answer_ == kFreeText)
      for (const std::string_view header : c.preamble_headers)
        before.push_back(message(header, body));
    const Expr preamble =
        g_.repeat(g_.sequence({g_.choice(std::move(before)), end, next}), 0, kMany);
    const Expr one = message_call();
    const Expr calls = g_.sequence(
        {one, g_.repeat(g_.sequence({end, next, one}), 0, many() ? kMany : 0), g_.optional(end)});
    if (must_call()) return g_.sequence({preamble, calls});
    std::vector<Expr> finals;
    for (const std::string_view header : c.answer_headers)
      finals.push_back(message(header, text_answer_ != kFreeText ? text_answer_ : body));
    const Expr final = g_.sequence({g_.choice(std::move(finals)), g_.optional(end)});
    return g_.sequence({preamble, g_.choice({calls, final})});
  }

  // A message to a tool: the header names it, the body is its object or a region.
  Expr message_call() {
    const Spelling& s = format_.spellings[0];
    std::vector<Expr> calls;
    for (const Tool* tool : tools_) {
      std::vector<Expr> headers;
      for (const auto& [before, after] : format_.channels->call_headers)
        headers.push_back(
            g_.sequence({arguments_.tag(before), g_.literal(tool->name), arguments_.tag(after)}));
      const Expr gap = arguments_.gap(s);
      const Expr body = g_.sequence(
          {arguments_.tag(s.open), gap, call_body(s, *tool), gap, arguments_.tag(s.close)});
      calls.push_back(g_.sequence({g_.choice(std::move(headers)), body}));
    }
    return g_.choice(std::move(calls));
  }

  Expr call_body(const Spelling& s, const Tool& tool) {
    return s.open.empty() ? arguments_.body(s, tool, enforced(tool)) : call(s, tool);
  }

  Grammar& g_;
  const Format& format_;
  const ToolChoice& choice_;
  const Expr text_answer_;
  ArgumentGrammar arguments_;
  std::vector<const Tool*> tools_;
};

}  // namespace

ToolConstraint tool_constraint(Grammar& grammar, const Format& format, const ToolSet& tools,
                               const ToolChoice& choice, Expr text_answer) {
  return Builder(grammar, format, tools, choice, text_answer).build();
}

}  // namespace flare::frontend
