// What a flag for bytes of devices takes, and of which device it speaks.
#include "services/planner/device_bytes.h"

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

absl::StatusOr<DeviceBytes> Parse(const std::vector<std::string>& texts) {
  return ParseDeviceBytes("--headroom", texts, /*least=*/0);
}

std::string Refusal(const absl::StatusOr<DeviceBytes>& policy) {
  EXPECT_TRUE(absl::IsInvalidArgument(policy.status())) << policy.status();
  return std::string(policy.status().message());
}

TEST(DeviceBytesTest, ADeviceThatIsNamedCountsBeforeAllOthers) {
  const auto policy = Parse({"host/cpu=8GiB", "1024", "uuid=with=signs=0"});
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_THAT(policy->Of("host/cpu"), Optional(int64_t{8} << 30));
  EXPECT_THAT(policy->Of("uuid=with=signs"), Optional(0));
  EXPECT_THAT(policy->Of("another"), Optional(1'024));
}

TEST(DeviceBytesTest, WithoutAValueOthersAreAsTheyWere) {
  EXPECT_EQ(Parse({})->Of("cpu"), std::nullopt);
  EXPECT_EQ(Parse({"gpu=1"})->Of("cpu"), std::nullopt);
}

TEST(DeviceBytesTest, WhatMakesNoSenseIsNamed) {
  for (const char* text : {"", "some", "gpu=", "gpu=-1", "gpu=1 parsec",
                           "9223372036854775808", "gpu=9000000TiB"}) {
    EXPECT_THAT(Refusal(Parse({text})),
                HasSubstr(absl::StrCat("--headroom ", text)));
  }
  EXPECT_THAT(Refusal(Parse({"=1"})), HasSubstr("0 bytes, not 1 to 256"));
  EXPECT_THAT(Refusal(Parse({"1", "2"})), HasSubstr("two for all other"));
  EXPECT_THAT(Refusal(Parse({"a=1", "a=2"})), HasSubstr("two for this device"));
}

TEST(DeviceBytesTest, ASizeHasALeastValue) {
  const auto parse = [](const char* text) {
    return ParseDeviceBytes("--device-memory", {text}, /*least=*/1);
  };
  EXPECT_TRUE(parse("gpu=1").ok());
  EXPECT_THAT(Refusal(parse("gpu=0")), HasSubstr("not be below 1"));
}

TEST(DeviceBytesTest, NamesHaveALimitedLength) {
  const std::string longest(planner::LeaseBook::kMaxIdBytes, 'x');
  EXPECT_TRUE(Parse({longest + "=1"}).ok());
  EXPECT_THAT(Refusal(Parse({longest + "x=1"})), HasSubstr("257 bytes"));
}

TEST(DeviceBytesTest, TakesALimitedNumberOfDevices) {
  std::vector<std::string> texts = {"7"};
  for (size_t i = 0; i < DeviceBytes::kMaxDevices; ++i) {
    texts.push_back(absl::StrCat("d", i, "=1"));
  }
  EXPECT_TRUE(Parse(texts).ok());
  texts.push_back("one more=1");
  EXPECT_THAT(Refusal(Parse(texts)), HasSubstr("at most 1024 devices"));
}

}  // namespace
}  // namespace plimsoll::services
