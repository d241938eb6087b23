// Tables and wrapped text.
#include "services/cli/terminal/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::cli {
namespace {

using ::testing::ElementsAre;

TEST(WrapTest, BreaksAtBlanksAndLeavesLongWordsAlone) {
  EXPECT_THAT(Wrap("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(Wrap("a incomprehensibilities b", 5),
              ElementsAre("a", "incomprehensibilities", "b"));
  EXPECT_THAT(Wrap("", 5), ElementsAre(""));
}

TEST(TableTest, AlignsColumnsAndWrapsTheLast) {
  Table table({{"name"}, {"bytes", Align::kRight}, {"from"}});
  table.AddRow({"kv", "1,024", "one two three four five"});
  table.AddRow({"weights", "7"});
  Style style;
  style.width = 36;
  EXPECT_EQ(table.Render(style),
            "  name     bytes  from\n"
            "  kv       1,024  one two three four\n"
            "                  five\n"
            "  weights      7\n");
}

TEST(TableTest, CountsCodePointsAsOneColumn) {
  Table table({{"a"}, {"b"}});
  table.AddRow({"\xC3\xA9", "1"});
  table.AddRow({"xx", "2"});
  EXPECT_EQ(table.Render(Style()), "  a   b\n  \xC3\xA9   1\n  xx  2\n");
}

}  // namespace
}  // namespace plimsoll::cli
