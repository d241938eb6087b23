// What a stream may show, and when: whole code points, no stop string.
#include "worker/text/text_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace plimsoll::worker {
namespace {

// Everything the stream shows for `pieces`; stops feeding once it has stopped.
std::string Shown(TextStream& stream, const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += stream.Push(piece);
  return text + stream.Finish();
}

TEST(TextStreamTest, PassesTextThroughAtOnceWithoutStopStrings) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("Hello"), "Hello");
  EXPECT_EQ(stream.Push(" world"), " world");
  EXPECT_EQ(stream.Finish(), "");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStreamTest, StopsBeforeAStopStringAcrossPieces) {
  TextStream stream({"<end>"});
  EXPECT_EQ(stream.Push("text<e"), "text");
  EXPECT_EQ(stream.Push("n"), "");
  EXPECT_EQ(stream.Push("d>more"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.stop_string(), "<end>");
  EXPECT_EQ(stream.Push("after"), "");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(TextStreamTest, GivesAHeldPrefixBackWhenItIsNoStopString) {
  TextStream stream({"<end>"});
  EXPECT_EQ(stream.Push("a<en"), "a");
  EXPECT_EQ(stream.Push("x"), "<enx");
  EXPECT_EQ(stream.Push("<end"), "");
  EXPECT_EQ(stream.Finish(), "<end");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStreamTest, HoldsTheRightTailOfARepeatingPrefix) {
  TextStream stream({"aab"});
  EXPECT_EQ(stream.Push("aaa"), "a");
  EXPECT_EQ(stream.Push("a"), "a");
  EXPECT_EQ(stream.Push("b"), "");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStreamTest, TheStopStringThatEndsFirstCounts) {
  TextStream stream({"bcde", "cd"});
  EXPECT_EQ(Shown(stream, {"abcdef"}), "ab");
  EXPECT_EQ(stream.stop_string(), "cd");
}

TEST(TextStreamTest, OfStopStringsThatEndTogetherTheLongestCounts) {
  TextStream stream({"d", "bcd", "cd"});
  EXPECT_EQ(Shown(stream, {"a", "b", "cdef"}), "a");
  EXPECT_EQ(stream.stop_string(), "bcd");
}

TEST(TextStreamTest, HoldsBackPartOfACodePoint) {
  TextStream stream({});
  EXPECT_EQ(stream.Push("caf\xc3"), "caf");
  EXPECT_EQ(stream.Push("\xa9"), "\xc3\xa9");
  EXPECT_EQ(stream.Push("\xf0\x9f"), "");
  EXPECT_EQ(stream.Finish(), "\xef\xbf\xbd");
}

TEST(TextStreamTest, FindsAStopStringWhoseBytesArriveOneByOne) {
  TextStream stream({"\xf0\x9f\x98\x80!"});
  std::vector<std::string> pieces;
  for (const char c : std::string("ok \xf0\x9f\x98\x80! no")) {
    pieces.emplace_back(1, c);
  }
  EXPECT_EQ(Shown(stream, pieces), "ok ");
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStreamTest, OneByteStopStringsHoldNothing) {
  TextStream stream({"\n"});
  EXPECT_EQ(stream.Push("line"), "line");
  EXPECT_EQ(stream.Push("s\nx"), "s");
  EXPECT_TRUE(stream.stopped());
}

// `text` before the stop string that ends first, the longest of those.
std::string CutAtStop(const std::string& text,
                      const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end &&
          text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(TextStreamTest, HowTheBytesWereCutChangesNothing) {
  std::mt19937 random(7);
  for (int round = 0; round < 2'000; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) {
      text += std::vector<std::string>{"a", "b", "\xc3\xa9",
                                       "\xf0\x9f\x98\x80"}[random() % 4];
    }
    std::vector<std::string> stops;
    for (uint32_t i = 0; i < random() % 3; ++i) {
      // Whole code points only: bytes are no text.
      std::string stop;
      for (uint32_t n = 0; n <= random() % 5; ++n) {
        stop +=
            random() % 2 == 0 ? "a" : (random() % 3 == 0 ? "\xc3\xa9" : "b");
      }
      stops.push_back(stop);
    }
    TextStream stream(stops);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 7;
      shown += stream.Push(text.substr(at, n));
      at += n;
    }
    shown += stream.Finish();
    EXPECT_EQ(shown, CutAtStop(text, stops)) << "round " << round;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace plimsoll::worker
