#include "services/cli/chat/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/services/cli/chat/fake_generator.h"

namespace plimsoll::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ConversationTest : public ::testing::Test {
 protected:
  ChatReply Say(Conversation& chat, const std::string& message) {
    text_.clear();
    return chat.Say(message, {}, [this](ReplyPiece, absl::string_view text) {
      text_.append(text.data(), text.size());
    });
  }
  // The turns of the only session, as "message=reply".
  std::vector<std::string> Turns() {
    EXPECT_THAT(generator_.sessions, SizeIs(1));
    std::vector<std::string> turns;
    for (const auto& turn : generator_.sessions.begin()->second.turns) {
      turns.push_back(turn.message + "=" + turn.reply);
    }
    return turns;
  }
  Transcript Without(const Conversation& chat, size_t n) {
    Transcript next = chat.transcript();
    next.turns.resize(next.turns.size() - n);
    return next;
  }

  FakeGenerator generator_;
  std::string text_;
};

TEST_F(ConversationTest, KeepsWhatWasSaidWithTheRepliesTokens) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin("Be brief.").ok());
  EXPECT_EQ(chat.model_name(), "fake.gguf");
  const ChatReply reply = Say(chat, "one");
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(text_, "re: one");
  EXPECT_EQ(reply.response.text(), "re: one");
  ASSERT_THAT(chat.transcript().turns, SizeIs(1));
  EXPECT_EQ(chat.transcript().turns[0].reply, "re: one");
  EXPECT_THAT(chat.transcript().turns[0].reply_ids, ElementsAre(7, 8));
}

TEST_F(ConversationTest, SaysOnceWhyASessionRecomputes) {
  generator_.recompute_reason = "it looks back";
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin(std::nullopt).ok());
  EXPECT_THAT(chat.TakeNotes(), ElementsAre(HasSubstr("it looks back")));
  ASSERT_TRUE(chat.Replace({}).ok());
  EXPECT_THAT(chat.TakeNotes(), IsEmpty());
  generator_.sessions["tuesday"] = {};
  ConversationOptions options;
  options.session = "tuesday";
  Conversation taken_up(options, generator_);
  ASSERT_TRUE(taken_up.Begin(std::nullopt).ok());
  EXPECT_THAT(taken_up.TakeNotes(), ElementsAre(HasSubstr("it looks back")));
}

TEST_F(ConversationTest, ReasoningIsNoPartOfWhatIsKept) {
  generator_.reasoning = "hm";
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin(std::nullopt).ok());
  std::vector<ReplyPiece> pieces;
  const ChatReply reply = chat.Say(
      "one", {},
      [&](ReplyPiece piece, absl::string_view) { pieces.push_back(piece); });
  EXPECT_THAT(pieces, ElementsAre(ReplyPiece::kReasoning, ReplyPiece::kAnswer,
                                  ReplyPiece::kAnswer));
  EXPECT_EQ(reply.response.reasoning(), "hm");
  EXPECT_EQ(chat.transcript().turns[0].reply, "re: one");
}

TEST_F(ConversationTest, TurnsAreTakenBackByASessionOfThoseThatStay) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin("Be brief.").ok());
  for (const char* message : {"one", "two", "three"}) {
    ASSERT_TRUE(Say(chat, message).status.ok());
  }
  ASSERT_TRUE(chat.Replace(Without(chat, 2)).ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8"));
  EXPECT_EQ(generator_.sessions.begin()->second.system, "Be brief.");
  ASSERT_TRUE(Say(chat, "four").status.ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8", "four=re: four"));
  EXPECT_THAT(chat.TakeNotes(), IsEmpty());
}

TEST_F(ConversationTest, WhatCannotBeReplacedStaysAsItWas) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  ASSERT_TRUE(Say(chat, "one").status.ok());
  Transcript next;
  next.system = "far too long";
  generator_.open_error = absl::OutOfRangeError("the system message");
  EXPECT_EQ(chat.Replace(next).code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(chat.transcript().system.has_value());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8"));
}

TEST_F(ConversationTest, ASessionThatGaveWayIsOpenedAgain) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  ASSERT_TRUE(Say(chat, "one").status.ok());
  generator_.sessions.clear();
  ASSERT_TRUE(Say(chat, "two").status.ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8", "two=re: two"));
  EXPECT_THAT(chat.TakeNotes(), ElementsAre(HasSubstr("open again")));
}

TEST_F(ConversationTest, WhatIsGoneOfAnEarlierChatIsTold) {
  ConversationOptions named;
  named.session = "tuesday";
  generator_.sessions["tuesday"];
  Conversation chat(named, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  generator_.sessions.clear();
  EXPECT_EQ(Say(chat, "one").status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(chat.TakeNotes(), ElementsAre(HasSubstr("/reset")));
  ASSERT_TRUE(chat.Replace({}).ok());
  ASSERT_TRUE(Say(chat, "two").status.ok());
  EXPECT_THAT(Turns(), ElementsAre("two=re: two"));
}

TEST_F(ConversationTest, ASessionWhoseReplyWasLostIsNotInTheWay) {
  ConversationOptions named;
  named.session = "tuesday";
  Conversation chat(named, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  ASSERT_TRUE(Say(chat, "one").status.ok());
  generator_.open_reply_is_lost = true;
  EXPECT_FALSE(chat.Replace({}).ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8"));
  ASSERT_TRUE(Say(chat, "two").status.ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8", "two=re: two"));
}

TEST_F(ConversationTest, TurnsThatDoNotFitAreTold) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  for (const char* message : {"one", "two", "three", "four"}) {
    ASSERT_TRUE(Say(chat, message).status.ok());
  }
  generator_.max_turns = 2;
  ASSERT_TRUE(chat.Replace(Without(chat, 1)).ok());
  EXPECT_THAT(Turns(), ElementsAre("two=ids: 7 8", "three=ids: 7 8"));
  EXPECT_THAT(chat.TakeNotes(), ElementsAre(HasSubstr("oldest 1 of 3 turns")));
  EXPECT_THAT(chat.transcript().turns, SizeIs(3)) << "they can be saved";
}

TEST_F(ConversationTest, AReplyThatBreaksOffIsKeptAsFarAsItCame) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  generator_.reply_error = absl::UnavailableError("gone");
  const ChatReply reply = Say(chat, "one");
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(reply.was_taken);
  ASSERT_THAT(chat.transcript().turns, SizeIs(1));
  EXPECT_EQ(chat.transcript().turns[0].reply, "re:");
  EXPECT_THAT(chat.transcript().turns[0].reply_ids, ElementsAre(7));
}

TEST_F(ConversationTest, AMessageThatIsRefusedIsNoTurn) {
  Conversation chat({}, generator_);
  ASSERT_TRUE(chat.Begin({}).ok());
  const ChatReply reply = Say(chat, "too long");
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(reply.was_taken);
  EXPECT_THAT(chat.transcript().turns, IsEmpty());
}

TEST_F(ConversationTest, OnlyASessionWithTheUsersNameOutlivesTheChat) {
  {
    Conversation chat({}, generator_);
    ASSERT_TRUE(chat.Begin({}).ok());
    EXPECT_THAT(generator_.sessions, SizeIs(1));
  }
  EXPECT_THAT(generator_.sessions, IsEmpty());
  ConversationOptions named;
  named.session = "tuesday";
  {
    Conversation chat(named, generator_);
    ASSERT_TRUE(chat.Begin({}).ok());
    EXPECT_FALSE(chat.was_taken_up());
    ASSERT_TRUE(Say(chat, "one").status.ok());
    ASSERT_TRUE(Say(chat, "two").status.ok());
    ASSERT_TRUE(chat.Replace(Without(chat, 1)).ok());
  }
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8"));
  Conversation later(named, generator_);
  ASSERT_TRUE(later.Begin("ignored").ok());
  EXPECT_TRUE(later.was_taken_up());
  EXPECT_EQ(later.n_unknown_turns(), 1);
  EXPECT_FALSE(later.transcript().system.has_value()) << "it has its own";
  EXPECT_EQ(later.model_name(), "fake.gguf");
}

}  // namespace
}  // namespace plimsoll::cli
