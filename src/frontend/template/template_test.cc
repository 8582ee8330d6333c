// Origins, errors and limits of templates.
#include "frontend/template/template.h"

#include <gtest/gtest.h>

namespace flare::frontend {
namespace {

// The rendering with the caller's parts in ⟦⟧.
std::string marked(std::string_view source, const Json& variables,
                   std::initializer_list<std::string_view> trusted = {}) {
  const MarkedText text = Template::parse(source, "t").render(variables, trusted, 0);
  std::string out;
  size_t begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    const std::string part = text.text().substr(begin, run.end - begin);
    out += run.origin == Origin::kCaller ? "⟦" + part + "⟧" : part;
    begin = run.end;
  }
  return out;
}

std::string error_of(std::string_view source, const Json& variables = Json::object(),
                     const RenderLimits& limits = {}) {
  try {
    Template::parse(source, "t").render(variables, {}, 0, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    return error.message();
  }
  return "no error";
}

std::string rendered(std::string_view source, int64_t now = 0) {
  return Template::parse(source, "t").render(Json::object(), {}, now).text();
}

const Json kCaller = Json::object({{"c", "<|x|> Ab"},
                                   {"bos", "<s>"},
                                   {"m", Json::object({{"role", "user"}, {"q", "a\"b"}})},
                                   {"xs", Json::array({"p", "q"})}});

TEST(TemplateOrigins, CallerTextIsTheCallersAndTheRestTheTemplates) {
  EXPECT_EQ(marked("<|im|>{{ c }}</>", kCaller), "<|im|>⟦<|x|> Ab⟧</>");
  EXPECT_EQ(marked("{{ '<' + c ~ '>' }}", kCaller), "<⟦<|x|> Ab⟧>");
  EXPECT_EQ(marked("{{ bos }}{{ c }}", kCaller, {"bos"}), "<s>⟦<|x|> Ab⟧");
  EXPECT_EQ(marked("{{ m.role }}:{{ m['q'] }}", kCaller), "⟦user⟧:⟦a\"b⟧");
}

TEST(TemplateOrigins, TextOperationsKeepOrigins) {
  EXPECT_EQ(marked("{{ (' <' ~ c ~ '> ')|trim }}", kCaller), "<⟦<|x|> Ab⟧>");
  EXPECT_EQ(marked("{{ ('<' ~ c)[:3] }}", kCaller), "<⟦<|⟧");
  EXPECT_EQ(marked("{{ ('t' ~ c)[::-1] }}", kCaller), "⟦bA >|x|<⟧t");
  EXPECT_EQ(marked("{{ ('t' ~ c)|upper }}", kCaller), "T⟦<|X|> AB⟧");
  EXPECT_EQ(marked("{{ c|replace('x', 'y') }}", kCaller), "⟦<|⟧y⟦|> Ab⟧");
  EXPECT_EQ(marked("{{ c.split('x')|join('-') }}", kCaller), "⟦<|⟧-⟦|> Ab⟧");
  EXPECT_EQ(marked("{{ xs|join('|') }}", kCaller), "⟦p⟧|⟦q⟧");
  EXPECT_EQ(marked("{{ '[%s]' % c }}{{ '({})'.format(c) }}", kCaller), "[⟦<|x|> Ab⟧](⟦<|x|> Ab⟧)");
  EXPECT_EQ(marked("{% set b %}[{{ c }}]{% endset %}{{ b }}", kCaller), "[⟦<|x|> Ab⟧]");
  EXPECT_EQ(marked("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(c) }}", kCaller), "<⟦<|x|> Ab⟧>");
  EXPECT_EQ(marked("{{ c * 2 }}", kCaller), "⟦<|x|> Ab<|x|> Ab⟧");
}

TEST(TemplateOrigins, RemovingTextNeverJoinsCallerTextIntoTheTemplates) {
  const Json caller = Json::object({{"c", "<|im_zzend|>"}});
  EXPECT_EQ(marked("{{ c|replace('zz', '') }}", caller), "⟦<|im_end|>⟧");
}

TEST(TemplateOrigins, FiltersThatRebuildTextKeepOrigins) {
  const Json c = Json::object({{"c", "a &lt;|x|&gt; b-c http://a.io"}, {"l", Json::array({"p"})}});
  EXPECT_EQ(marked("{{ ('<i>' ~ c)|striptags }}", c), "⟦a⟧ ⟦<|x|>⟧ ⟦b-c⟧ ⟦http://a.io⟧");
  EXPECT_EQ(marked("{{ ('t ' ~ 'u')|wordwrap(2) }}|{{ 'ab cd'|wordwrap(2) }}", c), "t\nu|ab\ncd");
  EXPECT_EQ(marked("{{ l|pprint }}", c), "['⟦p⟧']");
  EXPECT_EQ(marked("{{ 'http://a.io'|urlize }}", c),
            "<a href=\"http://a.io\" rel=\"noopener\">http://a.io</a>");
  EXPECT_EQ(marked("{{ (c[-11:])|urlize }}", c),
            "<a href=\"⟦http://a.io⟧\" rel=\"noopener\">⟦http://a.io⟧</a>");
  EXPECT_EQ(marked("{% autoescape true %}{{ '<' ~ c[:1] }}{% endautoescape %}", c), "&lt;⟦a⟧");
  EXPECT_EQ(marked("{% block b %}<{{ c[:1] }}>{% endblock %}{{ self.b() }}", c), "<⟦a⟧><⟦a⟧>");
  EXPECT_EQ(marked("{{ '%a' % l[0] }}{{ 'ß'.upper() }}", c), "'⟦p⟧'SS");
}

TEST(TemplateOrigins, JsonSyntaxIsTheTemplatesAndEscapesBelongToTheirCharacter) {
  EXPECT_EQ(marked("{{ m|tojson }}", kCaller), "{\"⟦role⟧\": \"⟦user⟧\", \"⟦q⟧\": \"⟦a\\\"b⟧\"}");
  EXPECT_EQ(marked("{{ [c] }}", kCaller), "['⟦<|x|> Ab⟧']");
}

TEST(TemplateErrors, ParseErrorsNameLineAndConstruct) {
  EXPECT_EQ(error_of("a\n{% frobnicate %}"), "t: line 2: unknown tag 'frobnicate'");
  EXPECT_EQ(error_of("\n\n{{ 1|zap }}"), "t: line 3: unknown filter 'zap'");
  EXPECT_EQ(error_of("{{ 1 is zap }}"), "t: line 1: unknown test 'zap'");
  EXPECT_NE(error_of("{% if 1 %}\nx").find("tag 'if' (line 1) is not closed by 'endif'"),
            std::string::npos);
  EXPECT_EQ(error_of("{% block a %}{% endblock %}\n{% block a %}{% endblock %}"),
            "t: line 2: block 'a' is defined twice (line 1)");
  EXPECT_NE(error_of("{{ (1 }}").find("line 1: unexpected '}', expected ')'"), std::string::npos);
  EXPECT_NE(error_of("{% break %}").find("'break' outside of a loop"), std::string::npos);
}

TEST(TemplateErrors, OtherTemplatesDoNotExist) {
  for (const char* source :
       {"{% include 'x' %}", "{% include 'x' ignore missing %}", "{% import 'x' as y %}",
        "{% from 'x' import y %}", "{% extends 'x' %}", "{% include ['a', 'b'] %}"}) {
    EXPECT_EQ(error_of(source),
              "t: line 1: no loader for this environment specified: a chat template is one file")
        << source;
  }
  EXPECT_EQ(rendered("a{% if false %}{% include 'x' %}{% endif %}b"), "ab");
  EXPECT_EQ(rendered("a{% include [] ignore missing %}b"), "ab");
}

TEST(TemplateErrors, UnknownFiltersInBranchesFailWhereTheyAreReached) {
  EXPECT_EQ(rendered("{% if false %}{{ 1|zap }}{% endif %}{{ 2 if true else 3 is zap }}"), "2");
  EXPECT_EQ(error_of("{% if true %}\n{{ 1|zap }}{% endif %}"),
            "t: line 2: No filter named 'zap' found.");
}

TEST(TemplateErrors, ChanceIsRefused) {
  EXPECT_EQ(error_of("{{ [1, 2]|random }}"),
            "t: line 1: filter 'random' is refused: a prompt must not depend on chance");
  EXPECT_NE(error_of("{{ lipsum() }}").find("refused"), std::string::npos);
}

TEST(TemplateErrors, RenderErrorsNameLineAndCause) {
  EXPECT_EQ(error_of("\n{{ raise_exception('only text') }}"), "t: line 2: only text");
  EXPECT_EQ(error_of("\n{{ a.b }}"), "t: line 2: 'a' is undefined");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"), "t: line 1: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(error_of("{{ [].append(1) }}"),
            "t: line 1: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_NE(error_of("{{ ''.__class__.__mro__ }}").find("is unsafe"), std::string::npos);
}

TEST(TemplateLimits, LoopsStopAtTheStepBudget) {
  EXPECT_NE(error_of("{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}"
                     "{% endfor %}")
                .find("steps"),
            std::string::npos);
  EXPECT_NE(error_of("{{ range(10**9) }}").find("Range too big"), std::string::npos);
  EXPECT_NE(error_of("{{ [1] * 10**9 }}").find("steps"), std::string::npos);
}

TEST(TemplateLimits, LongTextsAreRefusedBeforeTheyAreMade) {
  for (const char* source :
       {"{{ 'a' * 10**9 }}", "{{ 'x' * 10**10 }}", "{{ 'a'.center(10**9) }}",
        "{{ '%1000000000d' % 1 }}", "{{ '{:>1000000000}'.format(1) }}",
        "{{ 'a'|indent(10**9, true) }}", "{{ 'a'.zfill(10**9) }}", "{{ [1]|tojson(indent=10**9) }}",
        "{{ ('a' * 100000).replace('a', 'b' * 1000) }}", "{{ '\\t'.expandtabs(10**9) * 100 }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}"}) {
    EXPECT_NE(error_of(source).find("bytes"), std::string::npos) << source << error_of(source);
  }
}

TEST(TemplateLimits, OutputIsBounded) {
  RenderLimits limits;
  limits.max_output_bytes = 100;
  EXPECT_NE(error_of("{% for i in range(101) %}x{% endfor %}", Json::object(), limits)
                .find("the output is longer than 100 bytes"),
            std::string::npos);
}

TEST(TemplateLimits, NestingIsBounded) {
  EXPECT_NE(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("nested deeper"),
            std::string::npos);
  EXPECT_NE(error_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}").find("nested"),
            std::string::npos);
  const std::string open(100'000, '('), close(100'000, ')'), minus(100'000, '-');
  const std::string lists(100'000, '['), lists_end(100'000, ']');
  EXPECT_NE(error_of("{{ " + open + "1" + close + " }}").find("nested too deep"),
            std::string::npos);
  EXPECT_NE(error_of("{{ " + minus + "1 }}").find("nested too deep"), std::string::npos);
  EXPECT_NE(error_of("{{ " + lists + lists_end + " }}").find("nested too deep"), std::string::npos);
  std::string filters = "{{ 1", ifs;
  for (int i = 0; i < 50'000; ++i) filters += "|string", ifs += "{% if 1 %}";
  EXPECT_NE(error_of(filters + " }}").find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of(ifs).find("nested too deep"), std::string::npos);
}

TEST(TemplateLimits, ValuesThatShareThemselvesDoNotExplode) {
  EXPECT_NE(error_of("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                     "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}")
                .find("occupy more"),
            std::string::npos);
  EXPECT_NE(error_of("{% set ns = namespace(x=1) %}{% for i in range(9999) %}"
                     "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}")
                .find("nested deeper"),
            std::string::npos);
  for (const char* link :
       {"[ns.x].copy", "ns.x|map('string')", "cycler(ns.x)", "joiner(ns.x)", "{}[(ns.x,)]",
        "[1]|select('eq', ns.x)", "[1]|batch(2, ns.x)", "{1: ns.x}.items()", "[ns.x]|reverse"}) {
    EXPECT_NE(error_of("{% set ns = namespace(x='') %}{% for i in range(20000) %}{% set ns.x = " +
                       std::string(link) + " %}{% endfor %}")
                  .find("nested deeper"),
              std::string::npos)
        << link;
  }
  EXPECT_NE(error_of("{% set ns = namespace(x='') %}{% for i in range(20000) %}"
                     "{% for y in [ns.x] %}{% set ns.x = loop %}{% endfor %}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
  EXPECT_EQ(rendered("{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}"), "True");
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}"),
            "<Namespace {'me': [<Namespace {...}>]}>");
}

TEST(TemplateLimits, LongChainsAreNoNesting) {
  std::string sum = "{{ 0";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_EQ(rendered(sum + " }}"), "5000");
}

TEST(TemplateLimits, HostileInputsFailCleanly) {
  for (const char* source : {"{{",
                             "{%",
                             "{#",
                             "{{ '",
                             "{{ \"\\",
                             "{% raw %}",
                             "{% if %}",
                             "{{ }}",
                             "{% for %}",
                             "{{ a[ }}",
                             "{{ 'a' % }}",
                             "{{ \xff }}",
                             "\xc3",
                             "{{ '\\ud800' }}",
                             "{{ '\\x' }}",
                             "{% set %}",
                             "{% macro %}",
                             "{% call %}",
                             "{{ 1 if }}",
                             "{{ {1} }}",
                             "{{ 2**2**200 }}",
                             "{{ (2**126) * 4 }}",
                             "{{ -(2**126) * 2 - 1 - 2**126 }}",
                             "{{ 1 // 0 }}",
                             "{{ 1.0 % 0 }}",
                             "{{ 9e999|int }}",
                             "{{ ''.join(1) }}",
                             "{{ '%' % 1 }}",
                             "{{ '%(a' % {} }}",
                             "{{ '{' .format() }}",
                             "{{ '{0.a[' .format(1) }}",
                             "{{ [1]|batch('x') }}{{ [1]|batch('x')|list }}",
                             "{{ cycler() }}",
                             "{{ dict([1]) }}",
                             "{{ range(1, 2, 0) }}",
                             "{{ [3,'a']|sort }}",
                             "{{ 'a'[::0] }}",
                             "{{ loop }}{{ loop.x }}",
                             "{{ strftime_now('%Y' * 9999) }}"}) {
    EXPECT_NE(error_of(source), "no error") << source;
  }
}

TEST(TemplateClock, StrftimeNowSeesTheGivenTime) {
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y') }} {{ strftime_now('%H:%M') }}", 1767323045),
            "02 Jan 2026 03:04");
  EXPECT_EQ(rendered("[{{ strftime_now('') }}]"), "[]");
}

TEST(TemplateObject, IsUsableFromAnyThreadAndMovable) {
  Template a = Template::parse("{{ 'x' * 3 }}", "t");
  Template b = std::move(a);
  a = std::move(b);
  EXPECT_EQ(a.render(Json::object(), {}, 0).text(), "xxx");
}

}  // namespace
}  // namespace flare::frontend
