#include "services/cli/chat/chat_console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "services/cli/chat/chat_file.h"
#include "tests/services/cli/chat/fake_generator.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ChatConsoleTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Runs a chat of these lines; its session stays.
  absl::Status Run(const std::string& lines) {
    std::istringstream in(lines);
    std::ostringstream out;
    std::ostringstream err;
    Streams streams{in, out, err, style_, style_, is_terminal_};
    ChatConsoleOptions options;
    options.conversation.session = "kept";
    options.columns = [] { return 80; };
    options.sampling = sampling_;
    options.system = system_;
    const auto reader = NewPlainReader(streams);
    const absl::Status status =
        ChatConsole(std::move(options), generator_, *reader, streams).Run();
    out_ = out.str();
    err_ = err.str();
    return status;
  }
  // What the session holds, as "message=reply".
  std::vector<std::string> Turns() {
    std::vector<std::string> turns;
    for (const auto& turn : generator_.sessions["kept"].turns) {
      turns.push_back(turn.message + "=" + turn.reply);
    }
    return turns;
  }

  FakeGenerator generator_;
  SamplingFlags sampling_;
  std::optional<std::string> system_;
  Style style_;
  bool is_terminal_ = false;
  std::string out_;
  std::string err_;
  const std::string folder_ = ::testing::TempDir() + "/chat_console_test";
  const std::string file_ = folder_ + "/chat.json";
};

TEST_F(ChatConsoleTest, LinesAreMessagesUntilTheEnd) {
  ASSERT_TRUE(Run("one\n\n  two \n").ok());
  EXPECT_EQ(out_, "re: one\nre: two\n");
  EXPECT_THAT(err_, IsEmpty());
  EXPECT_THAT(Turns(), ElementsAre("one=re: one", "two=re: two"));
}

TEST_F(ChatConsoleTest, ExitEndsItWhateverComesNext) {
  ASSERT_TRUE(Run("one\n/exit\ntwo\n").ok());
  EXPECT_EQ(out_, "re: one\n");
}

TEST_F(ChatConsoleTest, NoCommandIsSentToTheModel) {
  EXPECT_FALSE(Run("/help\n/hlep\n /usr/bin\n/\n/set\nlast\n").ok());
  EXPECT_THAT(Turns(), ElementsAre("last=re: last"));
  EXPECT_THAT(err_, AllOf(HasSubstr("/regenerate"), HasSubstr("no command"),
                          HasSubstr("the nearest is /help")));
}

TEST_F(ChatConsoleTest, TwoSlashesAreOneInAMessageAndABlockIsAsItIs) {
  ASSERT_TRUE(Run("//help\n\"\"\"\n/help\n  //x\n\"\"\"\n").ok());
  EXPECT_THAT(Turns(),
              ElementsAre("/help=re: /help", "/help\n  //x=re: /help\n  //x"));
}

TEST_F(ChatConsoleTest, AMessageMayHaveSeveralLines) {
  ASSERT_TRUE(Run("one\\\ntwo\n").ok());
  EXPECT_THAT(Turns(), ElementsAre("one\ntwo=re: one\ntwo"));
  EXPECT_EQ(Run("\"\"\"\nnever ends\n").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Turns(), SizeIs(1)) << "it was not sent";
}

TEST_F(ChatConsoleTest, UndoForgetsTheNewestMessages) {
  ASSERT_TRUE(Run("one\ntwo\n/undo\nthree\nfour\n/undo 2\n").ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8"));
  EXPECT_THAT(err_, AllOf(HasSubstr("forgot 1 message: two"),
                          HasSubstr("forgot 2 messages, from: three")));
}

TEST_F(ChatConsoleTest, UndoSaysWhatIsWrong) {
  EXPECT_FALSE(Run("/undo\none\n/undo 2\n/undo two\n/undo 0\n").ok());
  EXPECT_THAT(err_, AllOf(HasSubstr("nothing was said yet"),
                          HasSubstr("the chat has only 1 message"),
                          HasSubstr("'two' is not a whole number"),
                          HasSubstr("'0' is not a whole number from 1")));
  EXPECT_THAT(Turns(), ElementsAre("one=re: one")) << "nothing is lost";
}

TEST_F(ChatConsoleTest, RegenerateDrawsWithTheNextSeed) {
  sampling_.sampling.seed = 40;
  ASSERT_TRUE(Run("one\ntwo\n/regenerate\n/regenerate\nthree\n").ok());
  EXPECT_THAT(generator_.seeds, ElementsAre(40, 40, 41, 42, 40));
  EXPECT_THAT(Turns(),
              ElementsAre("one=ids: 7 8", "two=re: two", "three=re: three"));
  EXPECT_THAT(err_, HasSubstr("(seed 42)"));
}

TEST_F(ChatConsoleTest, RegenerateTellsThatGreedyRepliesAreTheSame) {
  sampling_.sampling.temperature = 0;
  ASSERT_TRUE(Run("one\n/regenerate\n").ok());
  EXPECT_THAT(err_, HasSubstr("at temperature 0"));
  EXPECT_FALSE(Run("/reset\n/regenerate\n").ok());
  EXPECT_THAT(err_, HasSubstr("nothing was said yet"));
}

TEST_F(ChatConsoleTest, SystemShowsAndChangesTheInstructions) {
  ASSERT_TRUE(Run("one\n/system\n/system Be brief.\n/system\n").ok());
  EXPECT_EQ(generator_.sessions["kept"].system, "Be brief.");
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8"));
  EXPECT_THAT(err_, AllOf(HasSubstr("(none but"), HasSubstr("that stay: 1\n"),
                          HasSubstr("\nBe brief.\n")));
}

TEST_F(ChatConsoleTest, SystemTakesTheInstructionsAway) {
  ASSERT_TRUE(Run("/system a\\\nb\n/system\n/system \"\"\n").ok());
  EXPECT_FALSE(generator_.sessions["kept"].system.has_value());
  EXPECT_THAT(err_, AllOf(HasSubstr("a\nb"), HasSubstr("taken away")));
}

TEST_F(ChatConsoleTest, ResetKeepsTheInstructions) {
  ASSERT_TRUE(Run("/system Be brief.\none\n/reset\n").ok());
  EXPECT_EQ(generator_.sessions["kept"].system, "Be brief.");
  EXPECT_THAT(Turns(), IsEmpty());
}

TEST_F(ChatConsoleTest, SetSaysWhatWasAndIs) {
  ASSERT_TRUE(Run("/set temperature 0.25\n/set temperature\n/set seed = 7\n"
                  "/set\none\n")
                  .ok());
  EXPECT_THAT(err_,
              AllOf(HasSubstr("temperature: was 0.8, is 0.25\n"),
                    HasSubstr("temperature: 0.25\n"),
                    HasSubstr("seed: was 0, is 7"), HasSubstr("max_tokens")));
  EXPECT_THAT(generator_.seeds, ElementsAre(7));
  EXPECT_FALSE(Run("/set temprature 1\n/set top_k 1 2\n").ok());
  EXPECT_THAT(err_, AllOf(HasSubstr("the nearest is temperature"),
                          HasSubstr("write /set NAME VALUE")));
}

TEST_F(ChatConsoleTest, AChatIsSavedAndLoaded) {
  ASSERT_TRUE(
      Run("/system Be brief.\none\n/set top_k 3\n/save " + file_ + "\n").ok());
  EXPECT_THAT(err_, HasSubstr("saved 1 message to "));
  generator_.sessions.clear();
  ASSERT_TRUE(Run("zero\n/load " + file_ + "\ntwo\n/set top_k\n").ok());
  EXPECT_THAT(Turns(), ElementsAre("one=re: one", "two=re: two"));
  EXPECT_EQ(generator_.sessions["kept"].system, "Be brief.");
  EXPECT_THAT(err_,
              AllOf(HasSubstr("loaded 1 message from "),
                    HasSubstr("top_k: was 40, is 3"), HasSubstr("top_k: 3\n")));
}

TEST_F(ChatConsoleTest, ABadFileChangesNothing) {
  std::ofstream(file_) << R"({"format":"plimsoll-chat","version":9})";
  EXPECT_FALSE(Run("one\n/load " + file_ + "\n/load " + folder_ +
                   "/none\n/save " + folder_ + "\ntwo\n")
                   .ok());
  EXPECT_THAT(Turns(), ElementsAre("one=re: one", "two=re: two"));
  EXPECT_THAT(
      err_, AllOf(HasSubstr("chat.json: it is a chat of version 9"),
                  HasSubstr("No such file"), HasSubstr("choose another name")));
}

TEST_F(ChatConsoleTest, AChatThatCannotBeOpenedChangesNothing) {
  ASSERT_TRUE(Run("zero\n/set top_k 3\n/save " + file_ + "\n").ok());
  generator_.sessions.clear();
  generator_.fails_to_open_after = 1;
  EXPECT_FALSE(Run("one\n/load " + file_ + "\n/set top_k\ntwo\n").ok());
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8", "two=re: two"));
  EXPECT_THAT(err_, AllOf(HasSubstr("no room"), HasSubstr("top_k: 40")));
}

TEST_F(ChatConsoleTest, InfoAndMemoryShowWhatIsKept) {
  ASSERT_TRUE(Run("one\n/info\n/memory\n").ok());
  EXPECT_THAT(err_, AllOf(HasSubstr("session kept: 1 turns"),
                          HasSubstr("100 of 4096 tokens"),
                          HasSubstr("planned - measured"),
                          HasSubstr("1.0 MiB of keys and values")));
}

TEST_F(ChatConsoleTest, WhatWasSaidBeforeCannotBeTakenBack) {
  ASSERT_TRUE(Run("one\n").ok());
  EXPECT_FALSE(Run("two\n/undo\n/regenerate\n/system a\n/load " + file_ +
                   "\n/save " + file_ + "\n")
                   .ok());
  EXPECT_THAT(Turns(), ElementsAre("one=re: one", "two=re: two"));
  EXPECT_THAT(err_,
              AllOf(HasSubstr("going on with session kept: 1 turns"),
                    HasSubstr("are not known here, so nothing can be taken"),
                    HasSubstr("and its first 1 turns, which are not known")));
  ASSERT_TRUE(Run("/reset\nthree\n/undo\n").ok());
  EXPECT_THAT(Turns(), IsEmpty());
}

TEST_F(ChatConsoleTest, AnEarlierChatKeepsItsInstructionsUntilReset) {
  generator_.sessions["kept"].system = "Its own.";
  system_ = "Be brief.";
  ASSERT_TRUE(Run("one\n/save " + file_ + "\n").ok());
  EXPECT_EQ(generator_.sessions["kept"].system, "Its own.");
  EXPECT_THAT(err_, HasSubstr("keeps its own instructions"));
  const auto saved = LoadChat(file_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_FALSE(saved->transcript.system.has_value());
  ASSERT_TRUE(Run("/reset\n/system\n").ok());
  EXPECT_EQ(generator_.sessions["kept"].system, "Be brief.");
  EXPECT_THAT(err_, AllOf(HasSubstr("and the session's instructions"),
                          HasSubstr("\nBe brief.\n")));
}

TEST_F(ChatConsoleTest, AnErrorOfAReplyEndsAPipe) {
  generator_.reply_error = absl::UnavailableError("gone");
  EXPECT_EQ(Run("one\ntwo\n").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(out_, "re:\n");
  ASSERT_TRUE(Run("/reset\ntoo long\nfour\n").ok())
      << "but not a message that is too long";
  EXPECT_THAT(err_, HasSubstr("does not fit"));
  EXPECT_THAT(Turns(), ElementsAre("four=re: four"));
}

TEST_F(ChatConsoleTest, AtATerminalTheChatGoesOn) {
  is_terminal_ = true;
  style_.is_tty = true;
  generator_.reply_error = absl::UnavailableError("gone");
  ASSERT_TRUE(Run("one\n/hlep\ntwo\n").ok());
  EXPECT_THAT(
      err_, AllOf(HasSubstr("/help lists the commands"),
                  HasSubstr("plimsoll: gone"), HasSubstr("nearest is /help")));
  EXPECT_THAT(out_, HasSubstr("re: two\n"));
}

TEST_F(ChatConsoleTest, AtATerminalALineTellsSpeedAndContext) {
  style_.is_tty = true;
  ASSERT_TRUE(Run("one\n").ok());
  EXPECT_THAT(err_, HasSubstr("(2 tokens, 12.5 tokens/s; 3,996 of 4,096 tokens "
                              "of context left)"));
  style_.is_tty = false;
  ASSERT_TRUE(Run("two\n").ok());
  EXPECT_THAT(err_, Not(HasSubstr("context left")));
}

TEST_F(ChatConsoleTest, TheOldReplyStaysIfThereIsNoNewOne) {
  generator_.refuses_second = "one";
  EXPECT_EQ(Run("one\n/regenerate\n").code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8")) << "through a pipe, too";
  generator_ = FakeGenerator();
  is_terminal_ = true;
  style_.is_tty = true;
  generator_.refuses_second = "one";
  ASSERT_TRUE(Run("one\n/regenerate\ntwo\n").ok());
  EXPECT_THAT(err_, HasSubstr("plimsoll: refused"));
  EXPECT_THAT(Turns(), ElementsAre("one=ids: 7 8", "two=re: two"));
}

}  // namespace
}  // namespace plimsoll::cli
