#include "services/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::services {
namespace {

constexpr char kTraceHex[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParent[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string StateOf(const std::string& state) {
  return ParseTrace(kParent, state)->state;
}

TEST(TraceContextTest, ATraceParentIsReadAndWritten) {
  const auto context = ParseTrace(kParent, "");
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(ToHex(context->trace_id), kTraceHex);
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(TraceParentOf(*context), kParent);
}

TEST(TraceContextTest, OnlyTheLowestFlagSays) {
  const std::string ids = std::string(kParent).substr(0, 53);
  EXPECT_FALSE(ParseTrace(ids + "00", "")->is_sampled);
  EXPECT_FALSE(ParseTrace(ids + "fe", "")->is_sampled);
  EXPECT_TRUE(ParseTrace(ids + "ff", "")->is_sampled);
  EXPECT_EQ(TraceParentOf(*ParseTrace(ids + "ff", "")), kParent);
}

TEST(TraceContextTest, WhatIsNotExactlyATraceParentIsNone) {
  for (const char* text : {
           "",
           "00",
           // A digit less, and one more.
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
           " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           // Upper case, and what is no digit.
           "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0gf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333\n-01",
           "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
           // Ids that are 0.
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
           // The version that never is.
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
       }) {
    EXPECT_FALSE(ParseTrace(text, "").has_value()) << text;
  }
}

TEST(TraceContextTest, ALaterVersionMayHaveMore) {
  std::string later(kParent);
  later[1] = '1';
  EXPECT_TRUE(ParseTrace(later, "").has_value());
  EXPECT_TRUE(ParseTrace(later + "-what.comes", "").has_value());
  EXPECT_FALSE(ParseTrace(later + "x", "").has_value());
  later += '-';
  later.resize(kMaxTraceParentBytes, 'x');
  EXPECT_TRUE(ParseTrace(later, "").has_value());
  EXPECT_FALSE(ParseTrace(later + 'x', "").has_value());
}

TEST(TraceContextTest, AGoodStateIsKeptAsItCame) {
  for (const char* state : {"a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
                            "1tenant@system=x y", "a_-*/0=!~"}) {
    EXPECT_EQ(StateOf(state), state);
  }
}

TEST(TraceContextTest, OnlyMembersOfAStateAreKept) {
  for (const char* state :
       {"a=1 , b=2", "a=1,\tb=2", "\ta=1\t,\tb=2 ", "a=1,,b=2", ",a=1,b=2,"}) {
    EXPECT_EQ(StateOf(state), "a=1,b=2");
  }
}

TEST(TraceContextTest, ABadStateIsLeftOut) {
  for (const char* state : {"", ",", "a", "a=", "=1", "A=1", "1a=1", "a=1,a=2",
                            "a=1=2", "a=\x01", "a=\xc3\xa4", "a=1\t2", "a\t=1",
                            "a@=1", "@a=1", "a@1=1", "a@b@c=1", "a b=1"}) {
    EXPECT_EQ(StateOf(state), "") << state;
  }
}

TEST(TraceContextTest, AStateHasItsLimits) {
  const std::string longest = "a=" + std::string(256, 'x');
  EXPECT_EQ(StateOf(longest), longest);
  EXPECT_EQ(StateOf(longest + "x"), "");
  const std::string key(256, 'k');
  EXPECT_EQ(StateOf(key + "=1"), key + "=1");
  EXPECT_EQ(StateOf(key + "k=1"), "");
  const std::string tenant = std::string(241, 't') + "@" + std::string(14, 's');
  EXPECT_EQ(StateOf(tenant + "=1"), tenant + "=1");
  EXPECT_EQ(StateOf("t" + tenant + "=1"), "");
  EXPECT_EQ(StateOf(tenant + "s=1"), "");
  std::string members = "a0=1";
  for (int i = 1; i < kMaxTraceStateMembers; ++i) {
    absl::StrAppend(&members, ",a", i, "=1");
  }
  EXPECT_EQ(StateOf(members), members);
  EXPECT_EQ(StateOf(members + ",b=1"), "");
  // Two members of 255 bytes and a ",", and one byte more.
  const std::string whole = "a=" + std::string(253, 'x') +
                            ",b=" + std::string(kMaxTraceStateBytes - 258, 'x');
  ASSERT_EQ(whole.size(), kMaxTraceStateBytes);
  EXPECT_EQ(StateOf(whole), whole);
  EXPECT_EQ(StateOf(whole + "x"), "");
}

}  // namespace
}  // namespace plimsoll::services
