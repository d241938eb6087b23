#include "services/cli/chat/transcript.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace plimsoll::cli {
namespace {

TEST(TranscriptTest, TellsARequestWhatWasSaid) {
  Transcript transcript;
  transcript.system = "Be brief.";
  transcript.Add({"one", "first", {5, 6}});
  transcript.Add({"two", "second"});
  v1::OpenSessionRequest request;
  AddTurns(transcript, request);
  EXPECT_EQ(request.system(), "Be brief.");
  ASSERT_EQ(request.turns_size(), 2);
  EXPECT_EQ(request.turns(0).message(), "one");
  EXPECT_FALSE(request.turns(0).has_text()) << "its tokens say it exactly";
  EXPECT_EQ(request.turns(0).tokens().ids_size(), 2);
  EXPECT_EQ(request.turns(1).text(), "second");
}

TEST(TranscriptTest, WithoutInstructionsTheFormatHasItsOwn) {
  v1::OpenSessionRequest request;
  AddTurns(Transcript(), request);
  EXPECT_FALSE(request.has_system());
  EXPECT_EQ(request.turns_size(), 0);
}

TEST(TranscriptTest, ARequestHasTheNewestTurnsWithinItsLimits) {
  Transcript transcript;
  for (size_t i = 0; i < Transcript::kMaxSentTurns + 1; ++i) {
    transcript.turns.push_back({absl::StrCat("m", i), "r"});
  }
  v1::OpenSessionRequest request;
  AddTurns(transcript, request);
  ASSERT_EQ(request.turns_size(), int{Transcript::kMaxSentTurns});
  EXPECT_EQ(request.turns(0).message(), "m1");

  const std::string third(static_cast<size_t>(Transcript::kMaxSentBytes / 3),
                          'x');
  Transcript large;
  for (const char* name : {"a", "b", "c"}) large.Add({name, third});
  v1::OpenSessionRequest bounded;
  AddTurns(large, bounded);
  ASSERT_EQ(bounded.turns_size(), 2);
  EXPECT_EQ(bounded.turns(1).message(), "c");
}

TEST(TranscriptTest, ForgetsTheOldestBeyondItsLimits) {
  Transcript transcript;
  for (size_t i = 0; i < Transcript::kMaxTurns; ++i) {
    transcript.turns.push_back({absl::StrCat("m", i), "r"});
  }
  EXPECT_EQ(transcript.Add({"one more", "r"}), 1);
  EXPECT_EQ(transcript.turns.size(), Transcript::kMaxTurns);
  EXPECT_EQ(transcript.turns.front().message, "m1");

  const std::string half(static_cast<size_t>(Transcript::kMaxBytes / 2), 'x');
  Transcript large;
  EXPECT_EQ(large.Add({"a", half}), 0);
  EXPECT_EQ(large.Add({"b", half}), 1);
  EXPECT_EQ(large.turns.front().message, "b");
  EXPECT_EQ(large.Add({"c", half + half}), 1) << "the newest stays";
  EXPECT_EQ(large.turns.size(), 1u);
}

}  // namespace
}  // namespace plimsoll::cli
