// Text within limits.
#include "services/cli/terminal/input.h"

#include <gtest/gtest.h>

#include <sstream>

namespace plimsoll::cli {
namespace {

TEST(ReadAllTest, KeepsEveryByte) {
  const std::string bytes("a\0\xFF\r\n\n", 6);
  std::istringstream in(bytes);
  EXPECT_EQ(*ReadAll(in, 6), bytes);
}

TEST(ReadAllTest, TakesTheLimitAndNotOneByteMore) {
  std::istringstream at(std::string(100'000, 'x'));
  EXPECT_TRUE(ReadAll(at, 100'000).ok());
  std::istringstream beyond(std::string(100'001, 'x'));
  EXPECT_EQ(ReadAll(beyond, 100'000).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReadLineTest, GivesLinesAndAnUnendedLast) {
  std::istringstream in("one\n\ntwo");
  EXPECT_EQ(**ReadLine(in, 10), "one");
  EXPECT_EQ(**ReadLine(in, 10), "");
  EXPECT_EQ(**ReadLine(in, 10), "two");
  EXPECT_FALSE(ReadLine(in, 10)->has_value());
}

TEST(ReadLineTest, TakesTheLimitAndNotOneByteMore) {
  std::istringstream in("1234\n12345\n");
  EXPECT_EQ(**ReadLine(in, 4), "1234");
  EXPECT_EQ(ReadLine(in, 4).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReadTextTest, NamesAFileThatIsNotThere) {
  std::istringstream in;
  const auto text = ReadText("no/such/file", in, 10);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(text.status().message().find("no/such/file"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace plimsoll::cli
