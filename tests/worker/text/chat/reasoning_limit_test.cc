#include "worker/text/chat/reasoning_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/worker/text/tokenizer/gguf_fixture.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;

constexpr char kThinkSign[] = R"('<think>' ~ text ~ '</think>\n\n' ~ rest)";
constexpr char kChannelSign[] = "<|channel|>";

// All bytes, and marks: those of <think> are user-defined, those of channels
// are control tokens.
std::unique_ptr<Tokenizer> MarkTokenizer() {
  std::vector<FixtureToken> more;
  for (const char* mark : {"<think>", "</think>"}) {
    more.push_back({mark, TokenType::kUserDefined});
  }
  for (const char* mark :
       {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<eos>"}) {
    more.push_back({mark, TokenType::kControl});
  }
  return ByteTokenizer(more);
}

class ReasoningLimitTest : public ::testing::Test {
 protected:
  ReplyReading Reading(absl::string_view sign) const {
    return {.format = FindReplyFormat(sign)};
  }
  ReplyReading ReadingWithTools(absl::string_view sign) const {
    ReplyReading reading = Reading(sign);
    reading.tools.emplace_back().name = "light";
    return reading;
  }

  std::string TextOf(const std::vector<int32_t>& ids) const {
    return tokenizer_->Decode(ids, RenderSpecial::kYes);
  }

  // What a model says that wants to say `text`, a token for each byte and mark,
  // while a guard may say something else. A token that is forced takes the
  // place of the model's, except if it is the same one.
  std::string Say(const ReasoningLimit& limit, absl::string_view text) const {
    ReasoningGuard guard(limit);
    const std::vector<int32_t> wanted =
        *tokenizer_->Encode(text, ParseSpecial::kYes);
    std::vector<int32_t> said;
    size_t at = 0;
    while (at < wanted.size() || guard.Next()) {
      const std::optional<int32_t> forced = guard.Next();
      const bool is_same = at < wanted.size() && forced == wanted[at];
      const int32_t id = forced ? *forced : wanted[at];
      if (!forced || is_same) ++at;
      std::string bytes;
      tokenizer_->AppendBytes(id, RenderSpecial::kYes, bytes);
      guard.Push(id, bytes);
      said.push_back(id);
    }
    return TextOf(said);
  }

  ReasoningLimit Limit(const ReplyReading& reading, int64_t max_tokens) const {
    const auto limit = LimitReasoning(reading, max_tokens, *tokenizer_);
    EXPECT_TRUE(limit.has_value());
    return limit.value_or(ReasoningLimit{});
  }

  std::unique_ptr<Tokenizer> tokenizer_ = MarkTokenizer();
};

TEST_F(ReasoningLimitTest, TheEndIsTheMarkAndWhatTheTemplateHasBehindIt) {
  EXPECT_EQ(TextOf(Limit(Reading(kThinkSign), 1).end), "</think>\n\n");
  EXPECT_EQ(TextOf(Limit(Reading("<think> </think>"), 1).end), "</think>");
  EXPECT_EQ(TextOf(Limit(Reading(R"('</think>\n\n\n\n')"), 1).end),
            "</think>\n\n");
  EXPECT_EQ(TextOf(Limit(Reading(R"('</think>' '</think>\n')"), 1).end),
            "</think>\n");
}

TEST_F(ReasoningLimitTest, MarksThatAreControlTokensAreForcedByTheirIds) {
  const ReasoningLimit limit = Limit(Reading(kChannelSign), 1);
  EXPECT_EQ(TextOf(limit.end),
            "<|end|><|start|>assistant<|channel|>final"
            "<|message|>");
  EXPECT_EQ(limit.end.front(), *tokenizer_->Find("<|end|>"));
  // With tools a call may follow.
  EXPECT_THAT(Limit(ReadingWithTools(kChannelSign), 1).end,
              ElementsAre(*tokenizer_->Find("<|end|>")));
}

TEST_F(ReasoningLimitTest, ThereIsNoneWithoutMarks) {
  EXPECT_FALSE(LimitReasoning(Reading("<tool_call>"), 1, *tokenizer_));
}

TEST_F(ReasoningLimitTest, ReasoningEndsAtTheLimitAndNotBefore) {
  const ReplyReading reading = Reading(kThinkSign);
  constexpr char kWanted[] = "<think>abcd</think>\n\nYes";
  EXPECT_EQ(Say(Limit(reading, 3), kWanted),
            "<think>abc</think>\n\nd</think>\n\nYes");
  EXPECT_EQ(Say(Limit(reading, 4), kWanted), kWanted);
  EXPECT_EQ(Say(Limit(reading, 5), kWanted), kWanted);
  EXPECT_EQ(Say(Limit(reading, 0), "<think>a"), "<think></think>\n\na");
  EXPECT_EQ(Say(Limit(reading, 1), "<think>a"), "<think>a</think>\n\n");
}

TEST_F(ReasoningLimitTest, ReasoningThatThePromptOpensIsLimitedAtOnce) {
  ReplyReading reading = Reading(kThinkSign);
  reading.begins_reasoning = true;
  EXPECT_EQ(Say(Limit(reading, 0), "a"), "</think>\n\na");
  EXPECT_EQ(Say(Limit(reading, 2), "abc"), "ab</think>\n\nc");
  EXPECT_EQ(Say(Limit(reading, 3), "a</think>bcd"), "a</think>bcd");
}

TEST_F(ReasoningLimitTest, AnAnswerHasNoLimit) {
  const ReplyReading reading = Reading(kThinkSign);
  for (const char* text : {"abc", "a<think>bc", "<b>abc", "", " <thin"}) {
    EXPECT_EQ(Say(Limit(reading, 0), text), text);
  }
}

// A mark that the vocabulary has no token for is spelled byte by byte.
TEST_F(ReasoningLimitTest, AMarkThatHasBegunIsGoneOnWith) {
  ReplyReading reading = Reading("[THINK]");
  reading.begins_reasoning = true;
  EXPECT_EQ(Say(Limit(reading, 3), "a[/THINK]b"), "a[/THINK]b");
  EXPECT_EQ(Say(Limit(reading, 3), "a[/b"), "a[/THINK]b");
  EXPECT_EQ(Say(Limit(reading, 3), "a[[c"), "a[[/THINK]c");
}

TEST_F(ReasoningLimitTest, TheLimitCountsAllReasoningOfAReply) {
  const ReplyReading reading = ReadingWithTools(kChannelSign);
  constexpr char kMore[] =
      "<|start|>assistant<|channel|>analysis<|message|>cd<|end|>";
  const std::string wanted =
      std::string("<|channel|>analysis<|message|>ab<|end|>") + kMore;
  EXPECT_EQ(Say(Limit(reading, 3), wanted),
            "<|channel|>analysis<|message|>ab<|end|><|start|>assistant"
            "<|channel|>analysis<|message|>c<|end|>d<|end|>");
  EXPECT_EQ(Say(Limit(reading, 4), wanted), wanted);
}

TEST_F(ReasoningLimitTest, GivingUpLeavesTheModelAlone) {
  ReplyReading reading = Reading(kThinkSign);
  reading.begins_reasoning = true;
  ReasoningGuard early(Limit(reading, 0));
  EXPECT_EQ(early.Next(), *tokenizer_->Find("</think>"));
  early.GiveUp();
  EXPECT_EQ(early.Next(), std::nullopt);
  early.Push(7, "a");
  EXPECT_EQ(early.Next(), std::nullopt) << "for the rest of the reasoning";
  ReasoningGuard late(Limit(reading, 0));
  late.Push(*late.Next(), "</think>");
  EXPECT_TRUE(late.Next().has_value()) << "line breaks follow";
  late.GiveUp();
  EXPECT_EQ(late.Next(), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::worker
