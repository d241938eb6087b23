#include "worker/text/tokenizer/hash_filter.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/text/tokenizer/front_lengths.h"

namespace plimsoll::worker {
namespace {

TEST(HashFilterTest, WhatWasAddedIsThereAndMostElseIsNot) {
  constexpr int kElements = 4'096;
  HashFilter filter;
  filter.Reset(kElements);
  for (int i = 0; i < kElements; ++i) filter.Add(HashEnds(absl::StrCat(i)));
  int n_wrong = 0;
  for (int i = 0; i < kElements; ++i) {
    EXPECT_TRUE(filter.MayHave(HashEnds(absl::StrCat(i)))) << i;
    n_wrong += filter.MayHave(HashEnds(absl::StrCat("no ", i))) ? 1 : 0;
  }
  EXPECT_LT(n_wrong, kElements / 4);
}

TEST(HashFilterTest, NothingIsInAnEmptyOne) {
  HashFilter filter;
  filter.Reset(0);
  EXPECT_FALSE(filter.MayHave(HashEnds("a")));
  filter.Add(HashEnds("a"));
  EXPECT_TRUE(filter.MayHave(HashEnds("a")));
}

TEST(FrontLengthsTest, NoAddedTextIsLonger) {
  FrontLengths lengths;
  EXPECT_EQ(lengths.Most("ab"), 0u);
  lengths.Add("abc");
  lengths.Add("ab");
  lengths.Add(std::string("xy") + std::string(4'094, 'z'));
  EXPECT_EQ(lengths.Most("abzzz"), 3u);
  EXPECT_EQ(lengths.Most("xy"), 4'096u);
  EXPECT_EQ(lengths.Most("yx"), 0u);
}

}  // namespace
}  // namespace plimsoll::worker
