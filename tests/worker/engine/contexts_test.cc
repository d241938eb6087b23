// What a slot's context begins with, and what becomes of it when it is full.
#include "worker/engine/contexts.h"

#include <gtest/gtest.h>

#include "tests/worker/engine/given_resources.h"

namespace plimsoll::worker {
namespace {

class ContextsTest : public ::testing::Test {
 protected:
  // Computes the whole prompt of a sequence in a slot.
  void Compute(Sequence& sequence, int64_t slot) {
    ASSERT_TRUE(contexts_.Begin(sequence, slot).has_value());
    ASSERT_TRUE(
        contexts_.Extend(sequence, slot, sequence.history().n_positions())
            .ok());
  }

  EngineResources resources_ = GivenResources(/*n_slots=*/2, /*n_pages=*/8);
  StepCounters counters_;
  Contexts contexts_{resources_, counters_};
};

TEST_F(ContextsTest, BeginsWithWhatTheTenantHasPublished) {
  const auto first =
      MakeSequence(resources_, {.id = 1, .n_prompt = 130, .tenant = "a"});
  Compute(*first, 0);
  contexts_.Publish(*first, 0);
  const auto second =
      MakeSequence(resources_, {.id = 2, .n_prompt = 130, .tenant = "a"});
  const auto begun = contexts_.Begin(*second, 1);
  ASSERT_TRUE(begun.has_value());
  EXPECT_EQ(begun->n_computed, 128);
  EXPECT_EQ(counters_.cached_tokens, 128);
}

TEST_F(ContextsTest, SharesNothingBetweenTenants) {
  const auto first =
      MakeSequence(resources_, {.id = 1, .n_prompt = 130, .tenant = "a"});
  Compute(*first, 0);
  contexts_.Publish(*first, 0);
  const auto second =
      MakeSequence(resources_, {.id = 2, .n_prompt = 130, .tenant = "b"});
  const auto begun = contexts_.Begin(*second, 1);
  ASSERT_TRUE(begun.has_value());
  EXPECT_EQ(begun->n_computed, 0);
}

TEST_F(ContextsTest, ComputesTheLastTokenAgain) {
  const auto first = MakeSequence(resources_, {.id = 1, .n_prompt = 128});
  Compute(*first, 0);
  contexts_.Publish(*first, 0);
  const auto second = MakeSequence(resources_, {.id = 2, .n_prompt = 128});
  const auto begun = contexts_.Begin(*second, 1);
  ASSERT_TRUE(begun.has_value());
  EXPECT_EQ(begun->n_computed, 64);
}

TEST_F(ContextsTest, RollsAFullContextAndMovesItsLimit) {
  const auto sequence = MakeSequence(
      resources_, {.n_prompt = 200, .policy = ContextPolicy::kRoll});
  ASSERT_TRUE(contexts_.Begin(*sequence, 0).has_value());
  const int64_t limit = Contexts::RowLimit(*sequence);
  ASSERT_TRUE(contexts_.Extend(*sequence, 0, limit).ok());
  // A history has all tokens that its context has computed.
  ASSERT_LE(limit, 200);
  EXPECT_TRUE(contexts_.IsFull(*sequence, 0));
  EXPECT_EQ(contexts_.Roll(*sequence, 0), RollMethod::kShift);
  EXPECT_FALSE(contexts_.IsFull(*sequence, 0));
  EXPECT_GT(Contexts::RowLimit(*sequence), limit);
}

TEST_F(ContextsTest, WithoutRoomForACopyARolledContextCannotLoseItsSlot) {
  const auto sequence = MakeSequence(
      resources_, {.n_prompt = 200, .policy = ContextPolicy::kRoll});
  Compute(*sequence, 0);
  EXPECT_TRUE(contexts_.CanLoseSlot(*sequence));
  contexts_.Roll(*sequence, 0);
  EXPECT_FALSE(contexts_.CanLoseSlot(*sequence));
  EXPECT_FALSE(contexts_.Park(*sequence, 0));
}

TEST_F(ContextsTest, DropGivesAllPagesBackButThoseThatOthersMayShare) {
  const auto sequence = MakeSequence(resources_, {.n_prompt = 100});
  Compute(*sequence, 0);
  EXPECT_EQ(contexts_.UsedPages(), 2);
  contexts_.Drop(*sequence, 0);
  EXPECT_EQ(contexts_.UsedPages(), 0);
  const auto begun = contexts_.Begin(*sequence, 1);
  ASSERT_TRUE(begun.has_value());
  EXPECT_EQ(begun->n_computed, 64);
}

}  // namespace
}  // namespace plimsoll::worker
