#include "worker/text/jinja/syntax/template.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/jinja/render.h"

namespace plimsoll::worker::jinja {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What is rendered here was rendered by jinja2 too: tests/oracle compares far
// more of it.
TEST(TemplateTest, TrimsAroundBlocksAsChatTemplatesExpect) {
  EXPECT_EQ(Render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(Render("a \n {%- if true -%} \n b {%- endif %} c"), "ab c");
  EXPECT_EQ(Render("  {%+ if true +%}\nb{% endif %}"), "  \nb");
  EXPECT_EQ(Render("a\n  {# no #}\nb {{- 1 -}} c"), "a\nb1c");
  EXPECT_EQ(Render("{% raw %} {{ x }} {% endraw %}"), " {{ x }} ");
}

TEST(TemplateTest, RendersAConversation) {
  constexpr absl::string_view kChat =
      "{%- for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}"
      "{{ '\\n' if not loop.last }}{% endfor %}"
      "{% if add %}<|assistant|>{% endif %}";
  EXPECT_EQ(RenderWith(kChat, {.variables = R"({"add": true, "messages": [
                {"role": "system", "content": " S "},
                {"role": "user", "content": "U\n"}]})"}),
            "<|system|>S\n<|user|>U<|assistant|>");
}

TEST(TemplateTest, PrintsValuesAsPythonDoes) {
  EXPECT_EQ(Render("{{ [none, true, 1.0, 1e16, 0.1, 'a', \"it's\", (1,)] }}"),
            "[None, True, 1.0, 1e+16, 0.1, 'a', \"it's\", (1,)]");
  EXPECT_EQ(Render("{{ {'a': [1, 2]} }}|{{ nothing }}|{{ 7 // -2 }}"),
            "{'a': [1, 2]}||-4");
  EXPECT_EQ(RenderWith("{{ x }}", {.variables = R"({"x": {"k": "\u00e9\n"}})"}),
            "{'k': 'é\\n'}");
}

TEST(TemplateTest, WritesJsonAsPythonDoes) {
  EXPECT_EQ(RenderWith("{{ x | tojson }}",
                       {.variables = R"({"x": {"a": [1, "é<"], "b": null}})"}),
            R"({"a": [1, "é<"], "b": null})");
  EXPECT_EQ(Render("{{ {'a': [1]} | tojson(indent=2) }}"),
            "{\n  \"a\": [\n    1\n  ]\n}");
}

TEST(TemplateTest, ScopesAreThoseOfJinja) {
  EXPECT_EQ(Render("{% set x = 1 %}{% for i in [1, 2] %}{% set x = 9 %}"
                   "{% endfor %}{{ x }}"),
            "1");
  EXPECT_EQ(Render("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}"
                   "{{ x }}"),
            "2");
  EXPECT_EQ(Render("{% set n = namespace(x=1) %}{% for i in [5, 6] %}"
                   "{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
            "12");
}

TEST(TemplateTest, HasMacrosWithDefaultsAndCallers) {
  EXPECT_EQ(Render("{% macro f(a, b='B') %}[{{ a }}{{ b }}]{% endmacro %}"
                   "{{ f(1) }}{{ f(1, b=2) }}"),
            "[1B][12]");
  EXPECT_EQ(Render("{% macro f() %}<{{ caller(3) }}>{% endmacro %}"
                   "{% call(x) f() %}{{ x + 1 }}{% endcall %}"),
            "<4>");
}

TEST(TemplateTest, HasLoopControlsAndRecursion) {
  EXPECT_EQ(Render("{% for i in range(9) if i is odd %}{% if i == 5 %}"
                   "{% break %}{% endif %}{{ i }}{% endfor %}"),
            "13");
  EXPECT_EQ(Render("{% for x in [[1, [2]], 3] recursive %}"
                   "{{ loop(x) if x is not number else x }}{% endfor %}"),
            "123");
  EXPECT_EQ(Render("{% for i in [] %}x{% else %}none{% endfor %}"), "none");
}

// Python joins the parts of a block when the block ends.
TEST(TemplateTest, APartThatIsNoStringFailsWhereItsBlockEnds) {
  constexpr absl::string_view kBlock = "{% filter length %}abc{% endfilter %}";
  constexpr absl::string_view kError =
      "ERROR: line 1: expected str instance, int found";
  const auto in_loop = [](absl::string_view body) {
    return Render(absl::StrCat("{% for i in [1, 2] %}a", body, "{% endfor %}"));
  };
  EXPECT_EQ(Render(kBlock), kError);
  EXPECT_EQ(in_loop(absl::StrCat("{% set x %}", kBlock, "{% endset %}")),
            kError);
  EXPECT_EQ(
      in_loop(absl::StrCat("{% set x %}", kBlock, "{% break %}{% endset %}")),
      "a");
  EXPECT_EQ(in_loop(absl::StrCat("{% filter upper %}", kBlock,
                                 "{% continue %}{% endfilter %}")),
            "aa");
  EXPECT_EQ(in_loop(absl::StrCat("{% macro m() %}", kBlock, "{% endmacro %}",
                                 "{% filter upper %}{{ m() }}{% break %}",
                                 "{% endfilter %}")),
            kError);
}

TEST(TemplateTest, GenerationIsOnlyAScope) {
  EXPECT_EQ(Render("{% generation %}a{% set x = 1 %}{% endgeneration %}"
                   "{{ x is defined }}"),
            "aFalse");
}

TEST(TemplateTest, ErrorsNameTheLine) {
  EXPECT_EQ(Render("a\n{{ raise_exception('no ' ~ 'roles') }}"),
            "ERROR: line 2: the template refuses this: no roles");
  EXPECT_THAT(Render("a\n\n{% if %}"), StartsWith("ERROR: line 3: "));
  EXPECT_THAT(Render("{{ 1 }}\n{{ x.y.z }}"), StartsWith("ERROR: line 2: "));
  EXPECT_THAT(Render("{% for x in y %}"), HasSubstr("endfor"));
  EXPECT_THAT(Render("{{ x | nosuch }}"), HasSubstr("nosuch"));
}

// Jinja2 drops what a literal on the left decides before it looks for names.
TEST(TemplateTest, UnknownNamesBehindADecidingLiteralAreNotLookedFor) {
  EXPECT_EQ(Render("{{ () and x | nosuch }}"), "()");
  EXPECT_EQ(Render("{{ [1] or x is nosuch }}"), "[1]");
  EXPECT_EQ(Render("{{ not 1 and x | nosuch }}"), "False");
  EXPECT_EQ(Render("{{ (0 and 1) and 1 is nosuch }}"), "0");
  EXPECT_THAT(Render("{{ [1] and x | nosuch }}"), HasSubstr("named 'nosuch'"));
  EXPECT_THAT(Render("{{ [x] or x | nosuch }}"), HasSubstr("named 'nosuch'"));
}

// The sandbox of jinja2 does not let templates change lists, and here is
// nothing of the host to reach.
TEST(TemplateTest, NothingCanBeChangedOrReached) {
  EXPECT_THAT(Render("{{ [].append(1) }}"), HasSubstr("unsafe"));
  EXPECT_THAT(Render("{{ {}.pop('a') }}"), HasSubstr("unsafe"));
  EXPECT_THAT(Render("{{ ''.__class__.__mro__ }}"), StartsWith("ERROR"));
  EXPECT_THAT(Render("{% include 'file' %}"), StartsWith("ERROR: line 1: "));
}

TEST(TemplateTest, WhatCanBeIndexedMayStayUnusedInAFormat) {
  EXPECT_EQ(Render("{{ 'a' % x }}{{ 'b' % [1] }}{{ 'c' % range(3) }}"), "abc");
  EXPECT_THAT(Render("{{ 'a' % 1 }}"), HasSubstr("not all arguments"));
  EXPECT_THAT(Render("{{ 'a' % (1, 2) }}"), HasSubstr("not all arguments"));
}

TEST(TemplateTest, ThereAreNoSets) {
  EXPECT_THAT(Render("{{ {'a': 1}.keys() - ['a'] }}"),
              HasSubstr("not supported"));
  EXPECT_THAT(Render("{{ {'a': 1} - {'a': 1}.items() }}"),
              HasSubstr("not supported"));
  EXPECT_THAT(Render("{{ {'a': 1}.values() - ['a'] }}"),
              HasSubstr("unsupported operand"));
}

TEST(TemplateTest, MarkupStaysMarkupButForItsCharacters) {
  EXPECT_EQ(Render("{{ ('ab'|e)|list }}"), "['a', 'b']");
  EXPECT_EQ(Render("{{ ('ba'|e)|sort }}"), "['a', 'b']");
  EXPECT_EQ(Render("{{ [('ab'|e)|last] }}"), "[Markup('b')]");
  EXPECT_EQ(Render("{{ [('ab'|e)|indent(1, true)] }}"), "[Markup(' ab')]");
  EXPECT_EQ(Render("{{ [('ab'|e)|center(4)] }}"), "[Markup(' ab ')]");
  EXPECT_EQ(Render("{{ [(','|e).join([1, '<'])] }}"), "[Markup('1,&lt;')]");
}

TEST(TemplateTest, ViewsOfValuesCanBeKeys) {
  EXPECT_EQ(Render("{{ {'a': 1}.values() is filter }}"), "False");
  EXPECT_EQ(Render("{{ {{'a': 1}.values(): 2}|length }}"), "1");
  EXPECT_THAT(Render("{{ {{'a': 1}.keys(): 2} }}"), HasSubstr("unhashable"));
}

TEST(TemplateTest, AGeneratorIsFiveWords) {
  EXPECT_EQ(Render("{{ [1, 2]|slice(2)|wordcount }}"), "5");
}

TEST(TemplateTest, KnowsTheTimeThatItIsGiven) {
  Surroundings surroundings;
  surroundings.now = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_EQ(RenderWith("{{ strftime_now('%d %b %Y') }}",
                       {.surroundings = surroundings}),
            "14 Nov 2023");
}

}  // namespace
}  // namespace plimsoll::worker::jinja
