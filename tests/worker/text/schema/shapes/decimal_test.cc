#include "worker/text/schema/shapes/decimal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

TEST(DecimalTest, OneNumberHasOneForm) {
  for (const char* text : {"1200", "1.2e3", "12e2", "1200.00", "0.12E+4"}) {
    EXPECT_EQ(ParseDecimal(text), (Decimal{false, "12", 2})) << text;
  }
  EXPECT_EQ(ParseDecimal("-0.050"), (Decimal{true, "5", -2}));
  EXPECT_EQ(ParseDecimal("-0e5"), Decimal());
}

TEST(DecimalTest, WhatIsNoJsonNumberIsNone) {
  for (const char* text :
       {"", "-", "01", "1.", ".5", "1e", "+1", "1x", "1e100001", "0x1"}) {
    EXPECT_FALSE(ParseDecimal(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseDecimal("1e100000").has_value());
}

TEST(DecimalTest, NumbersHaveAnOrder) {
  const std::vector<std::string> ascending = {"-1e20", "-12.5", "-12.05", "-1",
                                              "-0.5",  "0",     "0.05",   "0.5",
                                              "0.51",  "1",     "9",      "10"};
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t k = 0; k < ascending.size(); ++k) {
      const int order =
          Compare(*ParseDecimal(ascending[i]), *ParseDecimal(ascending[k]));
      EXPECT_EQ(order < 0, i < k) << ascending[i] << " " << ascending[k];
      EXPECT_EQ(order == 0, i == k) << ascending[i] << " " << ascending[k];
    }
  }
}

TEST(DecimalTest, PlainTextHasLimits) {
  EXPECT_EQ(PlainText(*ParseDecimal("12.5e1"), 3, 0), "125");
  EXPECT_EQ(PlainText(*ParseDecimal("-0.25"), 1, 2), "-0.25");
  EXPECT_EQ(PlainText(*ParseDecimal("10.25"), 2, 2), "10.25");
  EXPECT_EQ(PlainText(*ParseDecimal("1e3"), 3, 0), std::nullopt);
  EXPECT_EQ(PlainText(*ParseDecimal("0.001"), 3, 2), std::nullopt);
  EXPECT_EQ(Remainder(*ParseDecimal("12345"), 7), 12345 % 7);
}

}  // namespace
}  // namespace plimsoll::worker
