// Element types: block sizes, lookups and row bytes.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace plimsoll {
namespace {

TEST(DTypeTest, EveryTypeIsFoundByItsIdAndItsName) {
  for (const DTypeInfo& info : kDTypes) {
    EXPECT_EQ(FindDType(static_cast<uint32_t>(info.dtype)), &info);
    EXPECT_EQ(FindDType(info.name), &info);
  }
}

TEST(DTypeTest, RemovedAndUnknownIdsAreNotFound) {
  for (uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 41u, 0xFFFFFFFFu}) {
    EXPECT_EQ(FindDType(id), nullptr) << id;
  }
  EXPECT_EQ(FindDType("f17"), nullptr);
}

TEST(DTypeTest, RowBytesAreWholeBlocks) {
  EXPECT_EQ(*RowBytes(DType::kF32, 3), 12);
  EXPECT_EQ(*RowBytes(DType::kQ8_0, 64), 68);
  EXPECT_EQ(*RowBytes(DType::kQ6_K, 256), 210);
  EXPECT_EQ(*RowBytes(DType::kQ4_K, 0), 0);
}

TEST(DTypeTest, APartOfABlockIsAnErrorNeverZero) {
  EXPECT_TRUE(absl::IsInvalidArgument(RowBytes(DType::kQ8_0, 31).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(RowBytes(DType::kQ4_K, 128).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(RowBytes(DType::kF32, -1).status()));
}

TEST(DTypeTest, RowBytesReportOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(absl::IsOutOfRange(RowBytes(DType::kF32, kMax / 2).status()));
  EXPECT_TRUE(RowBytes(DType::kI8, kMax).ok());
}

}  // namespace
}  // namespace plimsoll
