#include "services/server/access/token_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "tests/services/json_object.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;

// SHA-256 of "secret".
constexpr char kSecretHash[] =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

using Json = nlohmann::ordered_json;

std::string List(const std::vector<Json>& entries) {
  return Json{{"tokens", entries}}.dump();
}

// A token of "ada" with more members, which may replace hers.
Json Entry(const std::string& more) {
  const Json ada = {{"name", "ada"}, {"sha256", kSecretHash}};
  return testing::WithMembers(ada.dump(), more);
}

// Why the list is refused.
std::string Refusal(const std::string& json) {
  const auto tokens = ParseTokenList(json);
  EXPECT_FALSE(tokens.ok()) << json;
  EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tokens.status().message());
}

TEST(TokenListTest, ReadsWhatIsThere) {
  const auto tokens =
      ParseTokenList(List({Entry(R"({"tenant": "t", "role": "user",
                    "expires": "2030-01-31T12:00:00+01:00"})")}));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 1u);
  const TokenEntry& token = tokens->front();
  EXPECT_EQ(token.name, "ada");
  EXPECT_EQ(token.tenant, "t");
  EXPECT_EQ(token.role, Role::kUser);
  EXPECT_EQ(token.hash, HashToken("secret"));
  EXPECT_EQ(absl::ToUnixSeconds(token.expires), 1896087600);
}

TEST(TokenListTest, WhatIsWrittenIsReadAgain) {
  TokenEntry ada = {"ada", HashToken("a"), "t", Role::kUser,
                    absl::FromUnixSeconds(1'900'000'000)};
  const TokenEntry bob = {"bob", HashToken("b"), "", Role::kAdmin};
  const auto tokens = ParseTokenList(FormatTokenList({ada, bob}));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0].hash, ada.hash);
  EXPECT_EQ((*tokens)[0].expires, ada.expires);
  EXPECT_EQ((*tokens)[1].role, Role::kAdmin);
  EXPECT_EQ((*tokens)[1].expires, absl::InfiniteFuture());
  EXPECT_TRUE(ParseTokenList(FormatTokenList({}))->empty());
}

TEST(TokenListTest, RefusesWhatIsNoList) {
  for (const char* json :
       {"", "[]", "{}", "{\"tokens\": {}}", "{\"tokens\": [], \"more\": 1}",
        "{\"tokens\": [", "\"tokens\""}) {
    EXPECT_NE(Refusal(json), "");
  }
  EXPECT_THAT(Refusal(List({7})), HasSubstr("tokens[0]"));
}

TEST(TokenListTest, NamesTheFieldThatIsBad) {
  struct Case {
    std::string members;
    const char* field;
  };
  const Json no_hex = {{"role", "admin"}, {"sha256", std::string(64, 'g')}};
  for (const Case& bad :
       {Case{"{}", "role"}, Case{R"({"role": "root"})", "role"},
        Case{R"({"role": 7})", "role"}, Case{R"({"role": "user"})", "tenant"},
        Case{R"({"role": "admin", "tenant": "a b"})", "tenant"},
        Case{R"({"role": "admin", "expires": "tomorrow"})", "expires"},
        Case{R"({"role": "admin", "expires": "2030-01-31"})", "expires"},
        Case{R"({"role": "admin", "scope": "all"})", "scope"},
        Case{R"({"role": "admin", "name": ""})", "name"},
        Case{R"({"role": "admin", "sha256": "abc"})", "sha256"},
        Case{no_hex.dump(), "sha256"}}) {
    EXPECT_THAT(Refusal(List({Entry(bad.members)})),
                HasSubstr(absl::StrCat("tokens[0]: ", bad.field)));
  }
}

TEST(TokenListTest, TwoTokensHaveTwoNames) {
  const Json one = Entry(R"({"role": "admin"})");
  EXPECT_THAT(Refusal(List({one, one})), HasSubstr("tokens[1]: name"));
}

TEST(TokenListTest, HasALimit) {
  std::vector<TokenEntry> tokens;
  for (size_t i = 0; i < kMaxTokens; ++i) {
    tokens.push_back({absl::StrCat(i), {}, "", Role::kViewer});
  }
  EXPECT_TRUE(ParseTokenList(FormatTokenList(tokens)).ok());
  tokens.push_back({"one more", {}, "", Role::kViewer});
  EXPECT_THAT(Refusal(FormatTokenList(tokens)), HasSubstr("more than"));
}

TEST(TokenListTest, FindsATokenByAllOfIt) {
  const std::vector<TokenEntry> tokens = {
      {"ada", HashToken("first"), "", Role::kAdmin},
      {"bob", HashToken("second"), "", Role::kViewer}};
  ASSERT_NE(FindToken(tokens, "second"), nullptr);
  EXPECT_EQ(FindToken(tokens, "second")->name, "bob");
  for (const char* wrong : {"", "secon", "second ", "Second"}) {
    EXPECT_EQ(FindToken(tokens, wrong), nullptr) << wrong;
  }
  const std::string longest(kMaxTokenBytes, 'x');
  const std::vector<TokenEntry> long_one = {
      {"x", HashToken(longest), "", Role::kUser},
      {"y", HashToken(longest + "x"), "", Role::kUser}};
  EXPECT_NE(FindToken(long_one, longest), nullptr);
  EXPECT_EQ(FindToken(long_one, longest + "x"), nullptr);
}

TEST(TokenListTest, ANewTokenIsLongAndNew) {
  const auto one = NewToken();
  const auto two = NewToken();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(*one, *two);
  EXPECT_GE(one->size(), 43u);  // 256 bits in base64
  EXPECT_LE(one->size(), kMaxTokenBytes);
}

}  // namespace
}  // namespace plimsoll::services
