#include "worker/text/jinja/text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/text/jinja/render.h"

namespace plimsoll::worker::jinja {
namespace {

// The text with its tainted runs in angle brackets.
std::string Marked(const Text& text) {
  std::string marked;
  text.ForEachRun([&marked](absl::string_view run, bool is_tainted) {
    absl::StrAppend(&marked, is_tainted ? "<" : "", run, is_tainted ? ">" : "");
  });
  return marked;
}

std::string Rendered(absl::string_view source) {
  const auto text = RenderText(
      source,
      {.variables = R"({"u": "ab,Cd", "d": {"k": "v"}, "l": ["x", "y"]})"});
  return text.ok() ? Marked(*text) : std::string(text.status().message());
}

TEST(TextTest, SlicesKeepTheirTaint) {
  TextBuilder builder;
  builder.Append("clean");
  builder.Append("dirty", /*is_tainted=*/true);
  builder.Append("end");
  const Text text = builder.Take();
  EXPECT_EQ(Marked(text), "clean<dirty>end");
  EXPECT_EQ(Marked(text.Slice(2, 7)), "ean<di>");
  EXPECT_EQ(Marked(text.Slice(6, 8)), "<ir>");
  EXPECT_EQ(Marked(text.Slice(7, 12)), "<rty>en");
  EXPECT_EQ(Marked(text.Slice(10, 13)), "end");
  EXPECT_EQ(Marked(text.Slice(5, 5)), "");
}

TEST(TextTest, CountsCodePoints) {
  const Text text("aé世");
  EXPECT_EQ(text.length(), 3);
  EXPECT_EQ(text.ByteOf(2), 3u);
  EXPECT_EQ(text.ByteOf(3), 6u);
}

// Whatever a template does with a message's text, it stays the message's.
TEST(TextTest, EveryOperationKeepsTheTaint) {
  EXPECT_EQ(Rendered("[{{ u }}]"), "[<ab,Cd>]");
  EXPECT_EQ(Rendered("{{ 'x' + u[1:4] ~ 'y' }}"), "x<b,C>y");
  EXPECT_EQ(Rendered("{{ u[::-1] }}"), "<dC,ba>");
  EXPECT_EQ(Rendered("{{ u|upper }}{{ u.title() }}"), "<AB,CDAb,Cd>");
  EXPECT_EQ(Rendered("{{ u.split(',')|join('|') }}"), "<ab>|<Cd>");
  EXPECT_EQ(Rendered("{{ u|replace(',', '-') }}"), "<ab>-<Cd>");
  EXPECT_EQ(Rendered("{{ 'a,b'|replace(',', u) }}"), "a<ab,Cd>b");
  EXPECT_EQ(Rendered("{{ d|tojson }}"), "{\"<k>\": \"<v>\"}");
  EXPECT_EQ(Rendered("{{ d }}{{ l }}"), "{'<k>': '<v>'}['<x>', '<y>']");
  EXPECT_EQ(Rendered("{{ '%s!' % u }}{{ '{}?'.format(u) }}"),
            "<ab,Cd>!<ab,Cd>?");
  EXPECT_EQ(Rendered("{% for c in u %}{{ c }}.{% endfor %}"),
            "<a>.<b>.<,>.<C>.<d>.");
  EXPECT_EQ(Rendered("{% set x %}[{{ u }}]{% endset %}{{ x|trim }}"),
            "[<ab,Cd>]");
  EXPECT_EQ(Rendered("{% macro f(a) %}({{ a }}){% endmacro %}{{ f(u) }}"),
            "(<ab,Cd>)");
  EXPECT_EQ(Rendered("{{ u * 2 }}{{ u|list|first }}{{ u|indent('#', true) }}"),
            "<ab,Cdab,Cda>#<ab,Cd>");
  EXPECT_EQ(Rendered("{{ '<b>'|e ~ (u ~ '&')|escape }}"),
            "&lt;b&gt;<ab,Cd>&amp;");
  EXPECT_EQ(Rendered("{{ u|urlencode }}{{ u|truncate(4, true, '', 0) }}"),
            "<ab%2CCdab,C>");
}

}  // namespace
}  // namespace plimsoll::worker::jinja
