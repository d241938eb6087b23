#include "worker/text/chat/marked_text.h"

#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::worker {
namespace {

const MarkedText& Example() {
  static const auto& text = *new MarkedText(
      {{"<u>", true}, {"hi", false}, {"", true}, {"<e>", true}});
  return text;
}

TEST(MarkedTextTest, SegmentsAreRunsOfOneKind) {
  EXPECT_EQ(Example().text(), "<u>hi<e>");
  const std::vector<ChatSegment> all = Example().Segments(0, 8);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].text, "hi");
  EXPECT_FALSE(all[1].is_scaffold);
  const std::vector<ChatSegment> part = Example().Segments(4, 6);
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[0].text, "i");
  EXPECT_EQ(part[1].text, "<");
  EXPECT_TRUE(part[1].is_scaffold);
  EXPECT_TRUE(Example().Segments(8, 8).empty());
}

TEST(MarkedTextTest, KindsAreCompared) {
  MarkedText same;
  same.AppendScaffold("<u>");
  same.AppendContent("hi");
  EXPECT_NE(same, Example());
  same.Append(Example().Slice(5, 8));
  EXPECT_EQ(same, Example());
  MarkedText scaffold;
  scaffold.AppendScaffold("hi");
  EXPECT_FALSE(Example().HasAt(3, scaffold));
  EXPECT_TRUE(Example().HasAt(3, Example().Slice(3, 8)));
  EXPECT_FALSE(Example().HasAt(4, Example().Slice(3, 8)));
  EXPECT_FALSE(Example().HasAt(9, MarkedText()));
  EXPECT_TRUE(Example().HasScaffoldAt(5, "<e>"));
  EXPECT_TRUE(Example().HasScaffoldAt(8, ""));
  EXPECT_FALSE(Example().HasScaffoldAt(9, ""));
  EXPECT_FALSE(Example().HasScaffoldAt(3, "hi"));
  EXPECT_FALSE(Example().HasScaffoldAt(5, "<e>>"));
}

TEST(MarkedTextTest, ContentEndsWhereScaffoldBegins) {
  EXPECT_EQ(Example().ContentEnd(3), 5u);
  EXPECT_EQ(Example().ContentEnd(5), 5u);
  EXPECT_EQ(Example().ContentEnd(8), 8u);
  EXPECT_EQ(Example().Slice(0, 5).ContentEnd(3), 5u);
}

}  // namespace
}  // namespace plimsoll::worker
