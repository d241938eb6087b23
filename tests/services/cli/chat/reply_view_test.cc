#include "services/cli/chat/reply_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::cli {
namespace {

TEST(ReplyViewTest, APipeGetsTheTextAsItIs) {
  ReplyView view(Style(), 10);
  const std::string text = "<think>a\x1B</think> long words that do not wrap";
  EXPECT_EQ(view.Push(text), text);
  EXPECT_EQ(view.Finish(), "\n");
}

// What is shown of a reply that comes in these parts.
std::string Shown(const Style& style, int64_t width,
                  const std::vector<std::string>& parts) {
  ReplyView view(style, width);
  std::string out;
  for (const std::string& part : parts) out += view.Push(part);
  return out + view.Finish();
}

TEST(ReplyViewTest, ATerminalGetsWrappedTextAndDimReasoning) {
  EXPECT_EQ(Shown({.is_tty = true, .color = true}, 12,
                  {"<think>is it", " so?", "</think>\n\nYes, it is so."}),
            "\033[2m<think>is\033[0m\033[2m it\033[0m"
            "\033[2m\nso?</think>\033[0m\n\nYes, it is\nso.\n");
}

TEST(ReplyViewTest, WithoutColoursTheMarksRemain) {
  EXPECT_EQ(Shown({.is_tty = true}, 80, {"<think>a</think>b"}),
            "<think>a</think>b\n");
}

TEST(ReplyViewTest, ReasoningThatIsToldApartComesBeforeTheAnswer) {
  ReplyView view({.is_tty = true}, 80);
  std::string out = view.PushReasoning("is it");
  out += view.PushReasoning(" so?");
  out += view.Push("Yes");
  out += view.Push(", it is.");
  EXPECT_EQ(out + view.Finish(), "is it so?\n\nYes, it is.\n");
  ReplyView pipe(Style(), 80);
  EXPECT_EQ(pipe.PushReasoning("is it"), "");
  EXPECT_EQ(pipe.Push("Yes"), "Yes");
}

TEST(ReplyViewTest, ALineThatIsEndedIsNotEndedAgain) {
  EXPECT_EQ(Shown({.is_tty = true}, 80, {"a\n"}), "a\n");
  EXPECT_EQ(Shown({.is_tty = true}, 80, {}), "");
}

}  // namespace
}  // namespace plimsoll::cli
