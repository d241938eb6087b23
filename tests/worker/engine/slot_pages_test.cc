// Pages go round, or the newest sequence that can begin again loses its own.
#include "worker/engine/slot_pages.h"

#include <gtest/gtest.h>

#include "tests/worker/engine/given_resources.h"

namespace plimsoll::worker {
namespace {

TEST(SlotPagesTest, APoolForAllSlotsIsNotScarce) {
  const EngineResources resources = GivenResources(/*n_slots=*/2, 8);
  EXPECT_FALSE(SlotPages(resources).is_scarce());
}

class ScarcePagesTest : public ::testing::Test {
 protected:
  EngineResources resources_ = GivenResources(/*n_slots=*/3, /*n_pages=*/5);
  SlotPages pages_{resources_};
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

}  // namespace
}  // namespace plimsoll::worker
