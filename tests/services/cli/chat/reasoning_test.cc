#include "services/cli/chat/reasoning.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::cli {
namespace {

// The text with {} around reasoning.
std::string Split(absl::string_view text, size_t n_bytes) {
  ReasoningSplitter splitter;
  std::string out;
  bool was_reasoning = false;
  const auto append = [&](const std::vector<ReasoningSplitter::Span>& spans) {
    for (const ReasoningSplitter::Span& span : spans) {
      EXPECT_FALSE(span.text.empty());
      if (span.is_reasoning != was_reasoning) out += was_reasoning ? "}" : "{";
      was_reasoning = span.is_reasoning;
      out += span.text;
    }
  };
  for (; !text.empty(); text.remove_prefix(std::min(n_bytes, text.size()))) {
    append(splitter.Push(text.substr(0, n_bytes)));
  }
  append(splitter.Finish());
  return out + (was_reasoning ? "}" : "");
}

struct Case {
  const char* text;
  const char* wanted;
};

TEST(ReasoningTest, IsWhatTheReplyBeginsWithInMarks) {
  const Case cases[] = {
      {"<think>\nhm\n</think>\n\nYes.", "{<think>\nhm\n</think>}\n\nYes."},
      {"\n<think></think>No", "{\n<think></think>}No"},
      {"<seed:think>a</think>b</seed:think>c",
       "{<seed:think>a</think>b</seed:think>}c"},
      {"[THINK]a[/THINK]b", "{[THINK]a[/THINK]}b"},
      {"<think>never ends </thin", "{<think>never ends </thin}"},
      {"<think>a</think>b<think>c</think>",
       "{<think>a</think>}b<think>c"
       "</think>"},
      {"The tag <think> is text", "The tag <think> is text"},
      {"<thi", "<thi"},
      {"<thinly", "<thinly"},
      {"  ", "  "},
      {"", ""},
  };
  for (const Case& one : cases) {
    for (const size_t n : {1u, 2u, 5u, 1000u}) {
      EXPECT_EQ(Split(one.text, n), one.wanted) << one.text << " by " << n;
    }
  }
}

TEST(ReasoningTest, ShowsReasoningAsItComes) {
  ReasoningSplitter splitter;
  EXPECT_TRUE(splitter.Push("<think").empty());
  const auto spans = splitter.Push(">so far <");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].text, "<think>so far ");
  EXPECT_EQ(splitter.Push("b>").at(0).text, "<b>");
}

}  // namespace
}  // namespace plimsoll::cli
