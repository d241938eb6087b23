#include "services/fetch/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::fetch {
namespace {

using ::testing::HasSubstr;

std::string Resolved(const std::string& base, const std::string& location) {
  const auto url = ResolveUrl(*ParseUrl(base), location);
  return url.ok() ? url->Text() : std::string(url.status().message());
}

TEST(FetchUrlTest, PartsAreRead) {
  const auto url = ParseUrl("HTTPS://Models.Example:8443/a/b%20c.gguf?x=1#top");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "models.example");
  EXPECT_EQ(url->port, "8443");
  EXPECT_EQ(url->path, "/a/b%20c.gguf?x=1");
  EXPECT_EQ(url->LastSegment(), "b c.gguf");
  EXPECT_EQ(url->Place(), "https://models.example:8443/a/b%20c.gguf");
  EXPECT_EQ(url->Text(), "https://models.example:8443/a/b%20c.gguf?x=1");
}

TEST(FetchUrlTest, OneServerHasOneOrigin) {
  EXPECT_EQ(ParseUrl("https://a.example")->Origin(), "https://a.example:443");
  EXPECT_EQ(ParseUrl("https://A.example:443/x")->Origin(),
            "https://a.example:443");
  EXPECT_EQ(ParseUrl("http://[::1]/x")->Origin(), "http://[::1]:80");
}

TEST(FetchUrlTest, WhatIsNoUrlIsRefused) {
  for (const char* text :
       {"", "a.gguf", "ftp://a.example/x", "https://", "https:///x",
        "https://a b/x", "https://a.example/x\r\nHost: b", "https://a:b/",
        "https://a:123456/", "https://[::1/", "https://[x]/", "https://a\\b/",
        "file:///etc/passwd", "https://\xC3\xA4.example/"}) {
    EXPECT_FALSE(ParseUrl(text).ok()) << text;
  }
}

TEST(FetchUrlTest, APasswordIsRefusedAndNotRepeated) {
  const auto url = ParseUrl("https://me:secret@a.example/x");
  ASSERT_FALSE(url.ok());
  EXPECT_THAT(std::string(url.status().message()), Not(HasSubstr("secret")));
}

TEST(FetchUrlTest, TheLongestUrlIsReadAndOneByteMoreIsNot) {
  const std::string head = "https://a.example/";
  EXPECT_TRUE(
      ParseUrl(head + std::string(kMaxUrlBytes - head.size(), 'x')).ok());
  EXPECT_FALSE(
      ParseUrl(head + std::string(kMaxUrlBytes - head.size() + 1, 'x')).ok());
}

TEST(FetchUrlTest, TheLongestHostIsReadAndOneByteMoreIsNot) {
  const std::string longest(kMaxHostBytes, 'h');
  EXPECT_TRUE(ParseUrl("https://" + longest + "/").ok());
  EXPECT_FALSE(ParseUrl("https://" + longest + "h/").ok());
}

TEST(FetchUrlTest, RedirectsLeadToAbsoluteAndRelativePlaces) {
  const std::string base = "https://a.example:8443/x/y?q=1";
  EXPECT_EQ(Resolved(base, "http://b.example/z"), "http://b.example/z");
  EXPECT_EQ(Resolved(base, "//b.example/z"), "https://b.example/z");
  EXPECT_EQ(Resolved(base, "/z?u=http://c/"),
            "https://a.example:8443/z?u=http://c/");
  EXPECT_EQ(Resolved(base, "z"), "https://a.example:8443/x/z");
  EXPECT_EQ(Resolved(base, "?q=2"), "https://a.example:8443/x/y?q=2");
  EXPECT_THAT(Resolved(base, "file:///etc/passwd"), HasSubstr("no URL"));
}

TEST(FetchUrlTest, PlainHttpIsForLoopbackUnlessAllowed) {
  EXPECT_TRUE(CheckPlainHttp(*ParseUrl("https://a.example/"), false).ok());
  EXPECT_TRUE(CheckPlainHttp(*ParseUrl("http://127.0.0.1:80/"), false).ok());
  EXPECT_TRUE(CheckPlainHttp(*ParseUrl("http://[::1]/"), false).ok());
  EXPECT_TRUE(CheckPlainHttp(*ParseUrl("http://localhost/"), false).ok());
  const Url plain = *ParseUrl("http://a.example/");
  EXPECT_THAT(std::string(CheckPlainHttp(plain, false).message()),
              HasSubstr("--insecure-http"));
  EXPECT_TRUE(CheckPlainHttp(plain, true).ok());
}

TEST(FetchUrlTest, EncodingKeepsWhatIsPlain) {
  EXPECT_EQ(PercentEncodePath("a-B_1.~/ :"), "a-B_1.~/%20%3A");
  EXPECT_EQ(PercentEncode("a/b"), "a%2Fb");
}

}  // namespace
}  // namespace plimsoll::fetch
