// Sizes as people write them.
#include "services/cli/terminal/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace plimsoll::cli {
namespace {

using ::testing::HasSubstr;

int64_t Parsed(absl::string_view text) {
  const auto bytes = ParseBytes(text);
  EXPECT_TRUE(bytes.ok()) << text << ": " << bytes.status();
  return bytes.value_or(-1);
}

TEST(ParseBytesTest, TakesPlainBytes) {
  EXPECT_EQ(Parsed("0"), 0);
  EXPECT_EQ(Parsed("12884901888"), 12'884'901'888);
  EXPECT_EQ(Parsed("512B"), 512);
  EXPECT_EQ(Parsed("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(ParseBytesTest, TakesBinaryUnitsInAnyCase) {
  EXPECT_EQ(Parsed("1KiB"), 1'024);
  EXPECT_EQ(Parsed("3MiB"), 3 << 20);
  EXPECT_EQ(Parsed("12GiB"), int64_t{12} << 30);
  EXPECT_EQ(Parsed("2tib"), int64_t{2} << 40);
  EXPECT_EQ(Parsed(" 12 gib "), int64_t{12} << 30);
}

TEST(ParseBytesTest, TakesDecimalsOfUnits) {
  EXPECT_EQ(Parsed("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(Parsed("0.25KiB"), 256);
  EXPECT_EQ(Parsed("1.0001KiB"), 1'024);  // the fraction of a byte is dropped
  EXPECT_EQ(Parsed("0.9999999999999999999999GiB"), 1'073'740'750);
}

TEST(ParseBytesTest, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", " ", "GiB", "-1", "1.5", "1.", ".5GiB", "1..5GiB", "1.2.3GiB",
        "12XiB", "1e9", "0x10", "12GiBs", "+5"}) {
    EXPECT_EQ(ParseBytes(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(ParseBytesTest, ErrorsSayWhatToWriteInstead) {
  EXPECT_THAT(std::string(ParseBytes("12GB").status().message()),
              HasSubstr("write 12GiB or the number of bytes"));
  EXPECT_THAT(std::string(ParseBytes("1.5g").status().message()),
              HasSubstr("write 1.5GiB"));
  EXPECT_THAT(std::string(ParseBytes("lots").status().message()),
              HasSubstr("KiB, MiB, GiB or TiB"));
}

TEST(ParseBytesTest, TakesTheLargestSizeAndNotTheNext) {
  EXPECT_EQ(Parsed("8388607TiB"), int64_t{8'388'607} << 40);
  EXPECT_EQ(Parsed("8388607.999TiB"),
            (int64_t{8'388'607} << 40) + (int64_t{1} << 40) * 999 / 1000);
  EXPECT_EQ(ParseBytes("8388608TiB").status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ParseBytes("9223372036854775808").status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(FormatBytesTest, TakesTheLargestUnitThatFits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1'023), "1023 B");
  EXPECT_EQ(FormatBytes(1'024), "1.0 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(int64_t{12} << 30), "12.0 GiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8388608.0 TiB");
  EXPECT_EQ(FormatBytes(-2'048), "-2.0 KiB");
}

TEST(FormatCountedTest, ManyHaveAnS) {
  EXPECT_EQ(FormatCounted(0, "device"), "0 devices");
  EXPECT_EQ(FormatCounted(1, "device"), "1 device");
  EXPECT_EQ(FormatCounted(1'234, "running call"), "1,234 running calls");
}

TEST(FormatCountTest, GroupsByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'000), "1,000");
  EXPECT_EQ(FormatCount(-1'234'567), "-1,234,567");
}

}  // namespace
}  // namespace plimsoll::cli
