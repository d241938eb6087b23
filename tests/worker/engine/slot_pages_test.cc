// Pages go round, or the newest sequence that can begin again loses its own.
#include "worker/engine/slot_pages.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/worker/engine/given_resources.h"
#include "worker/engine/contexts.h"

namespace plimsoll::worker {
namespace {

TEST(SlotPagesTest, APoolForAllSlotsIsNotScarce) {
  const EngineResources resources = GivenResources(/*n_slots=*/2, 8);
  EXPECT_FALSE(SlotPages(resources, Preemption::kOn).is_scarce());
}

class ScarcePagesTest : public ::testing::Test {
 protected:
  EngineResources resources_ = GivenResources(/*n_slots=*/3, /*n_pages=*/5);
  SlotPages pages_{resources_, Preemption::kOn};
};

TEST_F(ScarcePagesTest, ASequenceNeedsThePagesOfItsPrompt) {
  ASSERT_TRUE(pages_.is_scarce());
  const auto first = MakeSequence(resources_, {.id = 1, .n_prompt = 130});
  const auto second = MakeSequence(resources_, {.id = 2, .n_prompt = 128});
  const auto third = MakeSequence(resources_, {.id = 3, .n_prompt = 1});
  pages_.ClaimFor(*first, 0);
  EXPECT_TRUE(pages_.HasRoomFor(*second, 1));
  pages_.ClaimFor(*second, 1);
  EXPECT_FALSE(pages_.HasRoomFor(*third, 2));
}

TEST_F(ScarcePagesTest, AContextThatRollsNeedsAllItsPages) {
  const auto rolls =
      MakeSequence(resources_, {.id = 1, .policy = ContextPolicy::kRoll});
  const auto other = MakeSequence(resources_, {.id = 2, .n_prompt = 65});
  pages_.ClaimFor(*rolls, 0);
  EXPECT_FALSE(pages_.HasRoomFor(*other, 1));
}

TEST_F(ScarcePagesTest, AnIdleSessionKeepsAllItsPages) {
  const auto other = MakeSequence(resources_, {.id = 2, .n_prompt = 65});
  pages_.ClaimForSession(0);
  EXPECT_FALSE(pages_.HasRoomFor(*other, 1));
  pages_.ClearClaims();
  EXPECT_TRUE(pages_.HasRoomFor(*other, 1));
}

TEST_F(ScarcePagesTest, TheNewestSequenceThatCanBeginAgainIsTheVictim) {
  const auto first = MakeSequence(resources_, {.id = 1, .n_prompt = 130});
  const auto second = MakeSequence(resources_, {.id = 2, .n_prompt = 130});
  const auto rolls =
      MakeSequence(resources_, {.id = 3, .policy = ContextPolicy::kRoll});
  pages_.ClaimFor(*first, 0);
  EXPECT_EQ(pages_.Victim(), std::nullopt);
  pages_.ClaimFor(*second, 1);
  pages_.ClaimFor(*rolls, 2);
  EXPECT_EQ(pages_.Victim(), 2);
}

TEST_F(ScarcePagesTest, ASequenceThatHasEndedNeedsNone) {
  const auto first = MakeSequence(resources_, {.id = 1, .n_prompt = 256});
  const auto second = MakeSequence(resources_, {.id = 2, .n_prompt = 256});
  pages_.ClaimFor(*first, 0);
  EXPECT_FALSE(pages_.HasRoomFor(*second, 1));
  second->End(absl::OkStatus());
  EXPECT_TRUE(pages_.HasRoomFor(*second, 1));
}

TEST_F(ScarcePagesTest, NothingIsReservedWithPreemption) {
  EXPECT_EQ(pages_.ReservedPages(), std::nullopt);
}

class ReservedPagesTest : public ::testing::Test {
 protected:
  EngineResources resources_ = GivenResources(/*n_slots=*/3, /*n_pages=*/5);
  StepCounters counters_;
  Contexts contexts_{resources_, counters_};
  SlotPages pages_{resources_, Preemption::kOff};
};

// The last token of a reply needs no place.
TEST_F(ReservedPagesTest, ASequenceNeedsThePagesOfItsPromptAndItsReply) {
  const auto first =
      MakeSequence(resources_, {.id = 1, .n_prompt = 10, .max_tokens = 183});
  pages_.ClaimFor(*first, 0);
  EXPECT_EQ(pages_.ReservedPages(), 3);
  const auto exact =
      MakeSequence(resources_, {.id = 2, .n_prompt = 100, .max_tokens = 29});
  EXPECT_TRUE(pages_.HasRoomFor(*exact, 1));
  const auto one_past =
      MakeSequence(resources_, {.id = 3, .n_prompt = 100, .max_tokens = 30});
  EXPECT_FALSE(pages_.HasRoomFor(*one_past, 1));
}

TEST_F(ReservedPagesTest, AReplyIsBoundedByTheContext) {
  for (const int64_t max_tokens : {int64_t{0}, INT64_MAX}) {
    pages_.ClearClaims();
    const auto endless = MakeSequence(
        resources_, {.id = 1, .n_prompt = 10, .max_tokens = max_tokens});
    EXPECT_TRUE(pages_.HasRoomFor(*endless, 0));
    pages_.ClaimFor(*endless, 0);
    EXPECT_EQ(pages_.ReservedPages(), 4);
    EXPECT_FALSE(pages_.HasRoomFor(*endless, 1));
  }
}

TEST_F(ReservedPagesTest, ContextsThatRollAndSessionsReserveTheWholeContext) {
  const auto rolls = MakeSequence(
      resources_, {.id = 1, .policy = ContextPolicy::kRoll, .max_tokens = 1});
  const auto one_page =
      MakeSequence(resources_, {.id = 2, .n_prompt = 60, .max_tokens = 5});
  const auto two_pages =
      MakeSequence(resources_, {.id = 3, .n_prompt = 60, .max_tokens = 6});
  pages_.ClaimFor(*rolls, 0);
  EXPECT_TRUE(pages_.HasRoomFor(*one_page, 1));
  EXPECT_FALSE(pages_.HasRoomFor(*two_pages, 1));
  // The session keeps them when its call has ended.
  rolls->End(absl::OkStatus());
  pages_.ClearClaims();
  pages_.ClaimFor(*rolls, 0);
  EXPECT_FALSE(pages_.HasRoomFor(*two_pages, 1));
  pages_.ClearClaims();
  pages_.ClaimForSession(0);
  EXPECT_TRUE(pages_.HasRoomFor(*one_page, 1));
  EXPECT_FALSE(pages_.HasRoomFor(*two_pages, 1));
  EXPECT_FALSE(pages_.HasRoomFor(*rolls, 1));
}

TEST_F(ReservedPagesTest, WhoHasEndedKeepsOnlyThePagesThatItHas) {
  const auto first = MakeSequence(resources_, {.id = 1, .n_prompt = 60});
  ASSERT_TRUE(contexts_.Begin(*first, 0).has_value());
  ASSERT_TRUE(contexts_.Extend(*first, 0, 60).ok());
  pages_.ClaimFor(*first, 0);
  EXPECT_EQ(pages_.ReservedPages(), 4);
  first->End(absl::OkStatus());
  pages_.ClearClaims();
  pages_.ClaimFor(*first, 0);
  EXPECT_EQ(pages_.ReservedPages(), 1);
}

TEST_F(ReservedPagesTest, NobodyIsAVictim) {
  for (int64_t i = 0; i < 3; ++i) {
    const auto one = MakeSequence(resources_, {.id = 1 + i, .n_prompt = 256});
    pages_.ClaimFor(*one, i);
  }
  EXPECT_EQ(pages_.ReservedPages(), 12);
  EXPECT_EQ(pages_.Victim(), std::nullopt);
}

TEST_F(ReservedPagesTest, PagesThatRunningSequencesShareCountOnce) {
  const auto first = MakeSequence(
      resources_, {.id = 1, .n_prompt = 130, .tenant = "a", .max_tokens = 127});
  ASSERT_TRUE(contexts_.Begin(*first, 0).has_value());
  ASSERT_TRUE(contexts_.Extend(*first, 0, 130).ok());
  contexts_.Publish(*first, 0);
  pages_.ClaimFor(*first, 0);
  ASSERT_EQ(pages_.ReservedPages(), 4);
  // Both need three pages, of which two are there, and one is left.
  GivenSequence given = {
      .id = 2, .n_prompt = 131, .tenant = "a", .max_tokens = 62};
  const auto alike = MakeSequence(resources_, given);
  EXPECT_TRUE(pages_.HasRoomFor(*alike, 1));
  given.tenant = "b";
  EXPECT_FALSE(pages_.HasRoomFor(*MakeSequence(resources_, given), 1));
  // One token more needs a fourth page, which is not there.
  given = {.id = 3, .n_prompt = 131, .tenant = "a", .max_tokens = 63};
  EXPECT_FALSE(pages_.HasRoomFor(*MakeSequence(resources_, given), 1));
  ASSERT_TRUE(contexts_.Begin(*alike, 1).has_value());
  pages_.ClearClaims();
  pages_.ClaimFor(*first, 0);
  pages_.ClaimFor(*alike, 1);
  EXPECT_EQ(pages_.ReservedPages(), 5);
}

}  // namespace
}  // namespace plimsoll::worker
