#include "services/tracing/drop_news.h"

#include <gtest/gtest.h>

namespace plimsoll::services {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(DropNewsTest, WithoutDropsThereIsNothingToSay) {
  DropNews news;
  EXPECT_FALSE(news.Take(kStart, true, 0).has_value());
}

TEST(DropNewsTest, TheFirstDropIsToldAtOnce) {
  DropNews news;
  const auto line = news.Take(kStart, false, 3);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->is_warning);
  EXPECT_EQ(line->n_dropped, 3);
}

TEST(DropNewsTest, LaterDropsAreToldTogetherOnceAnInterval) {
  DropNews news;
  ASSERT_TRUE(news.Take(kStart, false, 3).has_value());
  const absl::Time next = kStart + DropNews::kInterval;
  EXPECT_FALSE(news.Take(next - absl::Nanoseconds(1), false, 10).has_value());
  const auto line = news.Take(next, false, 11);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->is_warning);
  EXPECT_EQ(line->n_dropped, 8);
}

TEST(DropNewsTest, AReceiverThatIsBackIsToldOnce) {
  DropNews news;
  ASSERT_TRUE(news.Take(kStart, false, 3).has_value());
  const auto line = news.Take(kStart, true, 5);
  ASSERT_TRUE(line.has_value());
  EXPECT_FALSE(line->is_warning);
  EXPECT_EQ(line->n_dropped, 2);
  EXPECT_FALSE(news.Take(kStart, true, 5).has_value());
}

TEST(DropNewsTest, AReceiverThatComesAndGoesFillsNoLog) {
  DropNews news;
  int n_lines = 0;
  for (int i = 1; i <= 100; ++i) {
    n_lines += news.Take(kStart, false, i).has_value() ? 1 : 0;
    n_lines += news.Take(kStart, true, i).has_value() ? 1 : 0;
  }
  EXPECT_EQ(n_lines, 2);
}

TEST(DropNewsTest, AFullQueueBeforeAGoodReceiverIsAWarning) {
  DropNews news;
  const auto line = news.Take(kStart, true, 1);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->is_warning);
  EXPECT_FALSE(news.Take(kStart, true, 1).has_value());
}

}  // namespace
}  // namespace plimsoll::services
