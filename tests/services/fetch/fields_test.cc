#include "services/fetch/fields.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::fetch {
namespace {

TEST(FetchFieldsTest, FieldsAreFoundInAnyCase) {
  const ReplyHead head = {200, {{"content-LENGTH", "12"}, {"ETag", "\"a\""}}};
  EXPECT_EQ(head.Length(), 12);
  EXPECT_EQ(head.Field("etag"), "\"a\"");
  EXPECT_EQ(head.Field("Date"), "");
}

TEST(FetchFieldsTest, ALengthIsADecimalNumber) {
  for (const char* text :
       {"", "-1", "+1", "1 ", "0x10", "1,1", "99999999999999999999"}) {
    const ReplyHead head = {200, {{"Content-Length", text}}};
    EXPECT_FALSE(head.Length().has_value()) << text;
  }
}

TEST(FetchFieldsTest, ARedirectSaysWhereTo) {
  EXPECT_TRUE((ReplyHead{302, {{"Location", "/x"}}}).IsRedirect());
  EXPECT_FALSE((ReplyHead{302, {}}).IsRedirect());
  EXPECT_FALSE((ReplyHead{304, {{"Location", "/x"}}}).IsRedirect());
}

TEST(FetchFieldsTest, RangesAreRead) {
  const auto part = ParseContentRange("bytes 10-19/20");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->first, 10);
  EXPECT_EQ(part->last, 19);
  EXPECT_EQ(part->total, 20);
  const auto none = ParseContentRange("bytes */20");
  ASSERT_TRUE(none.has_value());
  EXPECT_FALSE(none->first.has_value());
  EXPECT_EQ(none->total, 20);
  const auto open = ParseContentRange("bytes 0-0/*");
  ASSERT_TRUE(open.has_value());
  EXPECT_FALSE(open->total.has_value());
}

TEST(FetchFieldsTest, RangesThatContradictThemselvesAreNone) {
  for (const char* text :
       {"", "10-19/20", "bytes 10-9/20", "bytes 10-20/20", "bytes */*",
        "bytes 1-2-3/4", "bytes -1-2/4", "bytes 1-2/3/4", "lines 1-2/4"}) {
    EXPECT_FALSE(ParseContentRange(text).has_value()) << text;
  }
}

TEST(FetchFieldsTest, AChallengeSaysWhereATokenIs) {
  const auto challenge = ParseBearerChallenge(
      "bearer Realm=\"https://a.example/token\",service=\"r \\\"1\\\"\" , "
      "scope=\"repository:m:pull\",error=invalid");
  ASSERT_TRUE(challenge.has_value());
  EXPECT_EQ(challenge->realm, "https://a.example/token");
  EXPECT_EQ(challenge->service, "r \"1\"");
  EXPECT_EQ(challenge->scope, "repository:m:pull");
}

TEST(FetchFieldsTest, OtherChallengesAreNone) {
  for (const char* text :
       {"", "Bearer", "Basic realm=\"x\"", "Bearer scope=\"x\"",
        "Bearer realm=\"x", "Bearer realm", "Bearer realm=\"x\\",
        "Bearer =\"x\""}) {
    EXPECT_FALSE(ParseBearerChallenge(text).has_value()) << text;
  }
}

TEST(FetchFieldsTest, OnlyStrongValidatorsCount) {
  EXPECT_EQ(StrongETag(" \"a:b\" "), "\"a:b\"");
  for (const std::string& text :
       {std::string("W/\"a\""), std::string("a"), std::string("\"\""),
        std::string("\"a\"b\""), std::string("\"a\r\nX: y\""), std::string(),
        "\"" + std::string(511, 'a') + "\""}) {
    EXPECT_EQ(StrongETag(text), "") << text;
  }
  const std::string longest = "\"" + std::string(510, 'a') + "\"";
  EXPECT_EQ(StrongETag(longest), longest);
}

}  // namespace
}  // namespace plimsoll::fetch
