// What --headroom takes, and of which device it speaks.
#include "services/planner/headroom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

std::string Refusal(const std::vector<std::string>& texts) {
  const auto policy = ParseHeadrooms(texts);
  EXPECT_TRUE(absl::IsInvalidArgument(policy.status())) << policy.status();
  return std::string(policy.status().message());
}

TEST(HeadroomTest, ADeviceThatIsNamedCountsBeforeAllOthers) {
  const auto policy =
      ParseHeadrooms({"host/cpu=8GiB", "1024", "uuid=with=signs=0"});
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_THAT(policy->Of("host/cpu"), Optional(int64_t{8} << 30));
  EXPECT_THAT(policy->Of("uuid=with=signs"), Optional(0));
  EXPECT_THAT(policy->Of("another"), Optional(1'024));
}

TEST(HeadroomTest, WithoutAValueOthersAreAsTheyWere) {
  EXPECT_EQ(ParseHeadrooms({})->Of("cpu"), std::nullopt);
  EXPECT_EQ(ParseHeadrooms({"gpu=1"})->Of("cpu"), std::nullopt);
}

TEST(HeadroomTest, WhatMakesNoSenseIsNamed) {
  for (const char* text : {"", "some", "gpu=", "gpu=-1", "gpu=1 parsec",
                           "9223372036854775808", "gpu=9000000TiB"}) {
    EXPECT_THAT(Refusal({text}), HasSubstr(absl::StrCat("--headroom ", text)));
  }
  EXPECT_THAT(Refusal({"=1"}), HasSubstr("0 bytes, not 1 to 256"));
  EXPECT_THAT(Refusal({"1", "2"}), HasSubstr("two for all other"));
  EXPECT_THAT(Refusal({"a=1", "a=2"}), HasSubstr("two for this device"));
}

TEST(HeadroomTest, NamesHaveALimitedLength) {
  const std::string longest(planner::LeaseBook::kMaxIdBytes, 'x');
  EXPECT_TRUE(ParseHeadrooms({longest + "=1"}).ok());
  EXPECT_THAT(Refusal({longest + "x=1"}), HasSubstr("257 bytes"));
}

TEST(HeadroomTest, TakesALimitedNumberOfDevices) {
  std::vector<std::string> texts = {"7"};
  for (size_t i = 0; i < HeadroomPolicy::kMaxDevices; ++i) {
    texts.push_back(absl::StrCat("d", i, "=1"));
  }
  EXPECT_TRUE(ParseHeadrooms(texts).ok());
  texts.push_back("one more=1");
  EXPECT_THAT(Refusal(texts), HasSubstr("at most 1024 devices"));
}

}  // namespace
}  // namespace plimsoll::services
