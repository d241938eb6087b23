#include "services/http/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string HeaderOf(const HttpResponse& response, absl::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

absl::string_view IndexBytes() { return FindPageFile("/")->bytes; }

TEST(PageTest, AllOfItIsWithinTheLimit) {
  size_t bytes = 0;
  for (const PageFile& file : PageFiles()) bytes += file.bytes.size();
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(bytes, kMaxPageBytes);
}

TEST(PageTest, HasItsFilesAtTheirPaths) {
  EXPECT_THAT(std::string(IndexBytes()), HasSubstr("<!doctype html>"));
  EXPECT_NE(FindPageFile("/page/main.js"), nullptr);
  EXPECT_EQ(FindPageFile("/page/index.html"), nullptr);
  EXPECT_EQ(FindPageFile("/page/"), nullptr);
  EXPECT_EQ(FindPageFile("/page/none.js"), nullptr);
  EXPECT_EQ(FindPageFile("/main.js"), nullptr);
  EXPECT_EQ(FindPageFile(""), nullptr);
}

TEST(PageTest, EveryFileHasItsTypeAndATagOfItsOwn) {
  std::set<std::string> tags;
  for (const PageFile& file : PageFiles()) {
    const HttpResponse response = PageResponse(file, "");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, file.bytes);
    tags.insert(HeaderOf(response, "ETag"));
    const bool is_image = absl::EndsWith(file.name, ".svg");
    EXPECT_EQ(response.content_type == "image/svg+xml", is_image) << file.name;
  }
  EXPECT_EQ(tags.size(), PageFiles().size());
  EXPECT_EQ(PageResponse(*FindPageFile("/"), "").content_type,
            "text/html; charset=utf-8");
  EXPECT_EQ(PageResponse(*FindPageFile("/page/main.js"), "").content_type,
            "text/javascript; charset=utf-8");
  EXPECT_EQ(PageResponse(*FindPageFile("/page/style.css"), "").content_type,
            "text/css; charset=utf-8");
}

TEST(PageTest, WhatAClientHasIsNotSentAgain) {
  const PageFile& file = *FindPageFile("/");
  const std::string tag(file.etag);
  for (const std::string& have :
       {tag, absl::StrCat("W/", tag), absl::StrCat("\"a\", ", tag),
        std::string("*")}) {
    const HttpResponse response = PageResponse(file, have);
    EXPECT_EQ(response.status, 304) << have;
    EXPECT_EQ(response.body, "");
    EXPECT_EQ(HeaderOf(response, "ETag"), tag);
    EXPECT_EQ(HeaderOf(response, "Cache-Control"), "no-cache");
  }
  EXPECT_EQ(PageResponse(file, "\"other\"").status, 200);
}

TEST(PageTest, ThePolicyAllowsOwnFilesOnly) {
  for (const PageFile& file : PageFiles()) {
    const std::string policy =
        HeaderOf(PageResponse(file, ""), "Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("script-src 'self';"));
    EXPECT_THAT(policy, HasSubstr("style-src 'self';"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  }
}

// The policy would refuse these, and nothing would tell who wrote them.
TEST(PageTest, HasNoInlineScriptsOrStyles) {
  const std::string index(IndexBytes());
  for (const char* inlined :
       {"<script>", "<style", " style=", " onclick=", "javascript:"}) {
    EXPECT_THAT(index, Not(HasSubstr(inlined)));
  }
}

// What a model says never becomes HTML, and nothing is loaded from elsewhere.
TEST(PageTest, WritesNoHtmlAndLoadsNothingFromElsewhere) {
  for (const PageFile& file : PageFiles()) {
    for (const char* unsafe :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
          "DOMParser", "eval(", "new Function", "setTimeout(\"", "@import",
          "url(http"}) {
      EXPECT_FALSE(absl::StrContains(file.bytes, unsafe))
          << file.name << ": " << unsafe;
    }
  }
  EXPECT_THAT(std::string(IndexBytes()), Not(HasSubstr("//")));
}

}  // namespace
}  // namespace plimsoll::services
