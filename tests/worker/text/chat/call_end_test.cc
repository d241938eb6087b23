#include "worker/text/chat/call_end.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::worker {
namespace {

constexpr char kMark[] = "</call>";

// Where the mark is found in a text that comes in pieces of `n` bytes.
size_t FindIn(const std::string& text, size_t n) {
  CallEnd end;
  for (size_t size = n;; size += n) {
    const size_t at = end.Find(text.substr(0, size), kMark);
    if (at != std::string::npos || size >= text.size()) return at;
  }
}

TEST(CallEndTest, AMarkInAStringIsPassedOverInWhateverPieces) {
  struct Case {
    const char* text;
    size_t at;
  };
  const Case cases[] = {
      {"</call>", 0},
      {"{}</call>", 2},
      {"{}<</call>", 3},
      {"{}</ca</call>", 6},
      {R"({"a":"</call>"}</call>)", 15},
      {R"({"a":"\"</call>"}</call>)", 17},
      {R"({"a":"\\"}</call>)", 10},
      {R"({"a":"\\\"</call>"}</call>)", 19},
      {R"({"a":"</call>)", std::string::npos},
      {R"({"a":1}</call)", std::string::npos},
      {R"({"a":"\)", std::string::npos},
      {"", std::string::npos},
  };
  for (const Case& one : cases) {
    for (size_t n = 1; n <= 30; ++n) {
      EXPECT_EQ(FindIn(one.text, n), one.at) << one.text << " in " << n;
    }
  }
}

}  // namespace
}  // namespace plimsoll::worker
