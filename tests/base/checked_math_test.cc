// Arithmetic that reports overflow, at the limits of int64.
#include "base/checked_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace plimsoll {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(CheckedMathTest, AddsUpToTheLimitAndNotPastIt) {
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMin, -1), std::nullopt);
}

TEST(CheckedMathTest, MultipliesUpToTheLimitAndNotPastIt) {
  EXPECT_EQ(CheckedMul(kMax / 2, 2), kMax - 1);
  EXPECT_EQ(CheckedMul(kMax / 2 + 1, 2), std::nullopt);
  EXPECT_EQ(CheckedMul(kMin, -1), std::nullopt);
  EXPECT_EQ(CheckedMul(int64_t{1} << 32, int64_t{1} << 32), std::nullopt);
}

TEST(CheckedMathTest, RoundsUpWithoutWrapping) {
  EXPECT_EQ(CheckedRoundUp(0, 64), 0);
  EXPECT_EQ(CheckedRoundUp(1, 64), 64);
  EXPECT_EQ(CheckedRoundUp(64, 64), 64);
  EXPECT_EQ(CheckedRoundUp(kMax, 1), kMax);
  EXPECT_EQ(CheckedRoundUp(kMax, 64), std::nullopt);
  EXPECT_EQ(RoundUp(65, 64).Get(), 128);
  EXPECT_TRUE(RoundUp(kMax, 64).overflow());
  EXPECT_TRUE(RoundUp(Checked::Overflow(), 64).overflow());
  EXPECT_EQ(AlignUp(65, 64).Get(), 128);
  EXPECT_EQ(AlignUp(64, 64).Get(), 64);
  EXPECT_TRUE(AlignUp(kMax, 64).overflow());
  EXPECT_TRUE(AlignUp(Checked::Overflow(), 64).overflow());
}

TEST(CheckedMathTest, CeilDivDoesNotOverflow) {
  EXPECT_EQ(CeilDiv(0, 3), 0);
  EXPECT_EQ(CeilDiv(7, 3), 3);
  EXPECT_EQ(CeilDiv(kMax, 2), kMax / 2 + 1);
}

TEST(CheckedMathTest, AFormulaRemembersAnyOverflow) {
  EXPECT_EQ((Checked(3) * 4 + 5).Get(), 17);
  Checked wrapped = Checked(kMax) + 1;
  wrapped *= 0;
  EXPECT_TRUE(wrapped.overflow());
  EXPECT_EQ(wrapped.Get(), std::nullopt);
  EXPECT_EQ((Checked(1) + wrapped).Get(), std::nullopt);
  EXPECT_EQ((wrapped * 1).Get(), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
