#include "worker/text/jinja/evaluator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/text/jinja/render.h"
#include "worker/text/jinja/syntax/parser.h"

namespace plimsoll::worker::jinja {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Repeated(absl::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) absl::StrAppend(&all, text);
  return all;
}

std::string Within(absl::string_view source, const RenderLimits& limits) {
  Surroundings surroundings;
  surroundings.limits = limits;
  return RenderWith(source, {.surroundings = surroundings});
}

TEST(EvaluatorTest, StepsAreLimited) {
  constexpr absl::string_view kLoop =
      "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}"
      "{% endfor %}done";
  EXPECT_EQ(Render(kLoop), "done");
  EXPECT_THAT(Within(kLoop, {.max_steps = 100'000}), HasSubstr("steps"));
  EXPECT_THAT(Render("{% for a in range(99999) %}{% for b in range(99999) %}"
                     "{% endfor %}{% endfor %}"),
              HasSubstr("more steps than the limit"));
}

TEST(EvaluatorTest, TextIsLimited) {
  EXPECT_EQ(Within("{{ 'a' * 10 }}", {.max_text_bytes = 10}), "aaaaaaaaaa");
  EXPECT_THAT(Within("{{ 'a' * 11 }}", {.max_text_bytes = 10}),
              HasSubstr("longer than the limit"));
  EXPECT_THAT(Within("12345678901", {.max_text_bytes = 10}),
              HasSubstr("the output is longer"));
  EXPECT_THAT(Render("{% set n = namespace(s='ab') %}"
                     "{% for i in range(99) %}{% set n.s = n.s ~ n.s %}"
                     "{% endfor %}"),
              HasSubstr("limit"));
}

TEST(EvaluatorTest, RecursionIsLimited) {
  EXPECT_THAT(Render("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
              HasSubstr("deeper than the limit"));
  EXPECT_EQ(Render("{% macro f(n) %}{{ n }}{% if n < 60 %}{{ f(n + 1) }}"
                   "{% endif %}{% endmacro %}{{ f(58) }}"),
            "585960");
}

TEST(EvaluatorTest, NestingOfValuesIsLimited) {
  const std::string nested =
      "{% set n = namespace(x=[]) %}{% for i in range(N) %}"
      "{% set n.x = [n.x] %}{% endfor %}done";
  const auto with = [&](int n) {
    std::string source = nested;
    return Render(source.replace(source.find('N'), 1, absl::StrCat(n)));
  };
  EXPECT_EQ(with(kMaxNesting - 2), "done");
  EXPECT_THAT(with(kMaxNesting), HasSubstr("nested deeper"));
  EXPECT_THAT(Render("{% set n = namespace() %}{% set n.x = n %}{{ n.x.x }}"),
              Not(StartsWith("ERROR")));
  EXPECT_THAT(Render("{% set n = namespace(x=[1]|map('abs')) %}"
                     "{% for i in range(999) %}{% set n.x = n.x|map('abs') %}"
                     "{% endfor %}"),
              HasSubstr("nested deeper"));
}

TEST(EvaluatorTest, SyntaxIsLimited) {
  EXPECT_EQ(Render(absl::StrCat("{{ ", Repeated("(", 90), "1",
                                Repeated(")", 90), " }}")),
            "1");
  EXPECT_THAT(Render(absl::StrCat("{{ ", Repeated("(", 101), "1",
                                  Repeated(")", 101), " }}")),
              HasSubstr("limit"));
  EXPECT_EQ(Render(absl::StrCat("{{ 0", Repeated(" + 1", 300), " }}")), "300");
  EXPECT_THAT(Render(absl::StrCat("{{ 0", Repeated(" + 1", 401), " }}")),
              HasSubstr("limit"));
  EXPECT_THAT(Render(Repeated("{% if 1 %}", kMaxSyntaxDepth)),
              HasSubstr("nested deeper"));
  const auto size = static_cast<size_t>(kMaxTemplateBytes);
  EXPECT_EQ(Render(std::string(size, 'x')).size(), size);
  EXPECT_THAT(Render(std::string(size + 1, 'x')), HasSubstr("limit"));
}

TEST(EvaluatorTest, ATextThatGrowsIsNotCopiedEachTime) {
  // To copy it would take more than 10^8 steps.
  const std::string piece(1000, 'a');
  const std::string body = absl::StrCat("'", piece, "'");
  for (const absl::string_view sign : {"~", "+"}) {
    EXPECT_EQ(
        Render(absl::StrCat("{% set n = namespace(s='') %}"
                            "{% for i in range(5000) %}{% set n.s = n.s ",
                            sign, body, "%}{% endfor %}{{ n.s|length }}")),
        "5000000");
  }
  const auto grown = [&](int n) {
    return Within(absl::StrCat("{% set s = '' %}{% set s = s ~ 'a' * ", n,
                               " %}{% set s = s ~ 'a' %}done"),
                  {.max_text_bytes = 10});
  };
  EXPECT_EQ(grown(9), "done");
  EXPECT_THAT(grown(10), HasSubstr("a text is longer than the limit"));
}

TEST(EvaluatorTest, NobodyElseSeesATextGrow) {
  EXPECT_EQ(Render("{% set a = 'x' %}{% set b = a %}{% set a = a ~ 'y' %}"
                   "{% set a = a + 'z' %}{{ a }} {{ b }}"),
            "xyz x");
  EXPECT_EQ(Render("{% for i in range(2) %}{% set a = 'x' %}"
                   "{% set a = a ~ 'y' %}{{ a }}{% endfor %}"),
            "xyxy");
  EXPECT_EQ(Render("{% set a = 'ab' %}{% set a = a ~ a ~ a %}"
                   "{% set a = a + a %}{{ a }}"),
            "abababababab");
  EXPECT_EQ(Render("{% set n = namespace(s='old') %}"
                   "{% macro f() %}{% set n.s = 'new' %}-{% endmacro %}"
                   "{% set n.s = n.s ~ f() %}{{ n.s }}"),
            "old-");
  EXPECT_EQ(Render("{% set a = 'x' %}{% for i in range(2) %}"
                   "{% set a = a ~ i %}{{ a }}{% endfor %}{{ a }}"),
            "x0x1x");
  EXPECT_EQ(Render("{% set a = 1 %}{% set a = a ~ 2 %}{% set a = a ~ 3 %}"
                   "{{ a }}{% set a = [a] + ['b'] %}{{ a|length }}"),
            "1232");
  EXPECT_EQ(Render("{% set a = '<'|escape %}{% set a = a ~ '<' %}{{ a }}"
                   "{% set b = '<'|escape %}{% set b = b + '<' %}{{ b }}"),
            "&lt;<&lt;&lt;");
}

TEST(EvaluatorTest, ALoopEndsWhenItsTestStaysFalse) {
  EXPECT_EQ(Render("{% set n = namespace(is_done=false) %}"
                   "{% for a in range(99999) %}{% for b in range(99999) %}"
                   "{% if not n.is_done %}{{ b }}{% set n.is_done = b > 1 %}"
                   "{% endif %}{% else %}empty{% endfor %}{% endfor %}"),
            "012");
  EXPECT_EQ(Render("{% set n = namespace(is_done=true) %}"
                   "{% set items = [1, 2]|map('string') %}"
                   "{% for i in items %}{% if not n.is_done %}{{ i }}"
                   "{% endif %}{% endfor %}{{ items|list }}"),
            "[]");
  EXPECT_EQ(Render("{% for i in [0, 1, 0, 2] %}{% if i %}{{ i }}{% endif %}"
                   "{% endfor %}{% for i, n in [(1, 0), (2, 1)] %}"
                   "{% if n %}{{ i }}{% endif %}{% endfor %}"),
            "122");
  EXPECT_EQ(Render("{% set n = namespace(x={'y': {'z': 1}}) %}"
                   "{% for i in [1] %}{% if n.x.y.z %}{{ i }}"
                   "{% set n.x = 0 %}{% endif %}{% endfor %}"),
            "1");
}

TEST(EvaluatorTest, WhatIsDroppedWhileItIsUsedStays) {
  constexpr absl::string_view kDrop =
      "{% macro drop(x) %}{% set n.item = none %}{% set n.dict = none %}"
      "{{ x }}{% endmacro %}";
  const auto render = [&](absl::string_view source) {
    return Render(
        absl::StrCat("{% set n = namespace(item='a' * 99, "
                     "dict={'k': 'b' * 99}) %}",
                     kDrop, source));
  };
  EXPECT_EQ(render("{{ (n.item ~ drop(1))|length }}"), "100");
  EXPECT_EQ(render("{{ (n.dict.k + drop(1))|length }}"), "100");
  EXPECT_EQ(render("{{ n.dict.k == drop('b' * 99) }}"), "True");
  EXPECT_EQ(render("{{ n.dict[drop('k')]|length }}"), "99");
  EXPECT_EQ(render("{{ n.dict.get(drop('k'))|length }}"), "99");
  EXPECT_EQ(render("{% for i in [1, 2] if drop(i) %}"
                   "{{ n.item is none and loop.nextitem }}{% endfor %}"),
            "2");
  EXPECT_EQ(render("{% set n.loops = [] %}{% for i in [1, 2] if drop(i) %}"
                   "{% set n.item = loop %}{{ n.item.last }}{% endfor %}"),
            "FalseTrue");
}

TEST(EvaluatorTest, OutputOfMacrosIsWrittenInItsPlace) {
  EXPECT_EQ(Render("{% macro f(x) %}[{{ x }}{{ caller() if caller }}]"
                   "{% endmacro %}{{ f(f(1)) }}{{ f(2)|length }}"
                   "{% set s = f(3) %}{{ s }}{% call f(4) %}{{ f(5) }}"
                   "{% endcall %}"),
            "[[1]]3[3][4[5]]");
}

TEST(EvaluatorTest, IntegersAreLimited) {
  EXPECT_EQ(Render("{{ 9223372036854775806 + 1 }}"), "9223372036854775807");
  EXPECT_THAT(Render("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ 2 ** 63 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ 9223372036854775808 }}"),
              AllOf(StartsWith("ERROR: line 1"), HasSubstr("64 bits")));
}

}  // namespace
}  // namespace plimsoll::worker::jinja
