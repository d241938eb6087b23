#include "services/cli/flags/element_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

TEST(ParseKvTypesTest, TakesOneTypeForBothOrOneEach) {
  EXPECT_EQ(ParseKvTypes("f32")->k, DType::kF32);
  EXPECT_EQ(ParseKvTypes("f32")->v, DType::kF32);
  EXPECT_EQ(ParseKvTypes("q8_0,f16")->k, DType::kQ8_0);
  EXPECT_EQ(ParseKvTypes("q8_0,f16")->v, DType::kF16);
  EXPECT_EQ(ParseKvTypes("Q8_0")->k, DType::kQ8_0);
  EXPECT_FALSE(ParseKvTypes("f17").ok());
  EXPECT_FALSE(ParseKvTypes("f16,f16,f16").ok());
  EXPECT_FALSE(ParseKvTypes("").ok());
}

TEST(ParseWeightsTest, TakesEveryTypeInLettersOfBothSizes) {
  EXPECT_FALSE(ParseWeights("file")->has_value());
  for (const char* name : {"q4_k", "q4_K", "Q4_K"}) {
    EXPECT_EQ(*ParseWeights(name), DType::kQ4_K) << name;
  }
  EXPECT_EQ(*ParseWeights("MXFP4"), DType::kMxfp4);
  EXPECT_THAT(std::string(ParseWeights("q9").status().message()),
              HasSubstr("q4_K, q5_K"));
}

}  // namespace
}  // namespace plimsoll::cli
