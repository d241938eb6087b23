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
  return Render(source, "{}", surroundings);
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

TEST(EvaluatorTest, IntegersAreLimited) {
  EXPECT_EQ(Render("{{ 9223372036854775806 + 1 }}"), "9223372036854775807");
  EXPECT_THAT(Render("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ 2 ** 63 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(Render("{{ 9223372036854775808 }}"),
              AllOf(StartsWith("ERROR: line 1"), HasSubstr("64 bits")));
}

}  // namespace
}  // namespace plimsoll::worker::jinja
