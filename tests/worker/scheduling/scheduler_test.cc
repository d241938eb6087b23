// The scheduler's promises, alone: order, limits, fairness.
#include "worker/scheduling/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "tests/worker/scheduling/next_step.h"

namespace plimsoll::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// (id, first position, rows, samples) of each part of a step.
using Part = std::tuple<int64_t, int64_t, int64_t, bool>;

std::vector<Part> Parts(const std::vector<ScheduledRows>& step) {
  std::vector<Part> parts;
  for (const ScheduledRows& r : step) {
    parts.emplace_back(r.id, r.first_position, r.n_rows, r.samples);
  }
  return parts;
}

TEST(SchedulerTest, HasNothingToDoWhenEmpty) {
  Scheduler scheduler(2, 8, 4);
  EXPECT_THAT(Next(scheduler), IsEmpty());
}

TEST(SchedulerTest, NobodyRunsWhoWasNotBegun) {
  Scheduler scheduler(2, 8, 4);
  ASSERT_TRUE(scheduler.Add(1, 6).ok());
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 0, 6, true}));
  ASSERT_TRUE(scheduler.Add(2, 6).ok());
  EXPECT_THAT(Parts(scheduler.NextStep()), ElementsAre(Part{1, 6, 1, true}))
      << "it came after the others were admitted";
  scheduler.Admit([](int64_t id, int64_t) {
    EXPECT_EQ(id, 2);
    return Admission{.n_computed = 4, .limit = Scheduler::kNoLimit};
  });
  EXPECT_THAT(Parts(scheduler.NextStep()),
              ElementsAre(Part{1, 7, 1, true}, Part{2, 4, 2, true}));
}

TEST(SchedulerTest, CutsAPromptIntoChunksAndSamplesAtItsEnd) {
  Scheduler scheduler(1, 4, 1);
  ASSERT_TRUE(scheduler.Add(1, 10).ok());
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 0, 4, false}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 4, 4, false}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 8, 2, true}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 10, 1, true}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 11, 1, true}));
}

TEST(SchedulerTest, SamplesAPromptThatFillsTheStepExactly) {
  Scheduler scheduler(1, 4, 1);
  ASSERT_TRUE(scheduler.Add(1, 4).ok());
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 0, 4, true}));
}

TEST(SchedulerTest, CutsAPromptWhereItsContextIsFullUntilThereIsRoom) {
  Scheduler scheduler(1, 4, 1);
  ASSERT_TRUE(scheduler.Add(1, 9).ok());
  EXPECT_THAT(Parts(Next(scheduler, {.first_rows = 6})),
              ElementsAre(Part{1, 0, 4, false}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 4, 2, false}));
  EXPECT_THAT(Next(scheduler), IsEmpty());
  scheduler.SetLimit(1, 10);
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 6, 3, true}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 9, 1, true}));
  EXPECT_THAT(Next(scheduler), IsEmpty());
}

TEST(SchedulerTest, AFullSequenceDoesNotHoldUpTheOthers) {
  Scheduler scheduler(2, 8, 2);
  ASSERT_TRUE(scheduler.Add(1, 9).ok());
  ASSERT_TRUE(scheduler.Add(2, 4).ok());
  scheduler.Admit([](int64_t id, int64_t) {
    return Admission{0, id == 1 ? 3 : Scheduler::kNoLimit};
  });
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 0, 3, false}, Part{2, 0, 4, true}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{2, 4, 1, true}));
}

TEST(SchedulerTest, ASequenceThatStartsOverKeepsItsSlot) {
  Scheduler scheduler(1, 8, 1);
  ASSERT_TRUE(scheduler.Add(1, 2).ok());
  Next(scheduler, {.first_rows = 4});
  Next(scheduler);
  Next(scheduler);
  EXPECT_THAT(Next(scheduler), IsEmpty());
  scheduler.Restart(1, 3, 4);
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 0, 3, true}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 3, 1, true}));
  EXPECT_THAT(Next(scheduler), IsEmpty());
  EXPECT_EQ(scheduler.SlotOf(1), 0);
}

TEST(SchedulerTest, DecodingRowsComeFirstAndPromptsFillTheRest) {
  Scheduler scheduler(3, 8, 4);
  ASSERT_TRUE(scheduler.Add(1, 2).ok());
  Next(scheduler);
  ASSERT_TRUE(scheduler.Add(2, 5).ok());
  ASSERT_TRUE(scheduler.Add(3, 100).ok());
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 2, 1, true}, Part{2, 0, 5, true},
                          Part{3, 0, 2, false}));
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 3, 1, true}, Part{2, 5, 1, true},
                          Part{3, 2, 6, false}));
}

TEST(SchedulerTest, PromptsTakeNoMoreRowsThanTheyMay) {
  Scheduler scheduler(3, 64, 4);
  ASSERT_TRUE(scheduler.Add(1, 1).ok());
  EXPECT_EQ(scheduler.Decoding(), 0);
  (void)Next(scheduler);
  EXPECT_EQ(scheduler.Decoding(), 1);
  ASSERT_TRUE(scheduler.Add(2, 7).ok());
  ASSERT_TRUE(scheduler.Add(3, 100).ok());
  EXPECT_THAT(Parts(Next(scheduler, {.prompt_rows = 5})),
              ElementsAre(Part{1, 1, 1, true}, Part{2, 0, 5, false}));
  EXPECT_THAT(Parts(Next(scheduler, {.prompt_rows = 0})),
              ElementsAre(Part{1, 2, 1, true}));
  const auto step = Next(scheduler, {.prompt_rows = 5});
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 3, 1, true}, Part{2, 5, 2, true},
                                       Part{3, 0, 3, false}));
  EXPECT_TRUE(step[0].is_decoding);
  EXPECT_FALSE(step[1].is_decoding);
  EXPECT_EQ(scheduler.Decoding(), 2);
  scheduler.Park(1);
  EXPECT_EQ(scheduler.Decoding(), 1);
}

TEST(SchedulerTest, TenantsTakeTurnsForSlots) {
  Scheduler scheduler(1, 512, 64);
  for (int64_t id = 1; id <= 20; ++id) {
    ASSERT_TRUE(scheduler.Add(id, 500, {"flood"}).ok());
  }
  (void)Next(scheduler);
  ASSERT_TRUE(scheduler.Add(100, 500, {"other"}).ok());
  int64_t n_before = 0;
  for (int64_t id = 1; !scheduler.SlotOf(100); ++id, ++n_before) {
    scheduler.Remove(id);
    (void)Next(scheduler);
  }
  EXPECT_LE(n_before, 3);
}

TEST(SchedulerTest, PromptsAtSeveralDepthsShareWhatAStepMayTake) {
  Scheduler scheduler(2, 64, 4);
  ASSERT_TRUE(scheduler.Add(1, 107).ok());
  ASSERT_TRUE(scheduler.Add(2, 400).ok());
  scheduler.Admit([](int64_t id, int64_t) {
    return Admission{.n_computed = id == 1 ? 100 : 0,
                     .limit = Scheduler::kNoLimit};
  });
  const auto most = [](const PromptPlace& place) {
    return place.position < 100 ? 16 : 4;
  };
  std::vector<ScheduledRows> step;
  scheduler.NextStep(most, step);
  EXPECT_THAT(Parts(step), ElementsAre(Part{1, 100, 4, false}));
  scheduler.NextStep(most, step);
  EXPECT_THAT(Parts(step),
              ElementsAre(Part{1, 104, 3, true}, Part{2, 0, 4, false}));
  scheduler.NextStep(most, step);
  EXPECT_THAT(Parts(step),
              ElementsAre(Part{1, 107, 1, true}, Part{2, 4, 16, false}));
}

TEST(SchedulerTest, PromptsBesideStreamsOfOtherTenantsAreTold) {
  Scheduler scheduler(4, 64, 4);
  ASSERT_TRUE(scheduler.Add(1, 1, {"a"}).ok());
  ASSERT_TRUE(scheduler.Add(2, 100, {"a"}).ok());
  ASSERT_TRUE(scheduler.Add(3, 100, {"b"}).ok());
  // A name alone does not make a tenant: it comes from another peer.
  ASSERT_TRUE(scheduler.Add(4, 100, {.tenant = "a", .peer = "192.0.2.1"}).ok());
  scheduler.Admit([](int64_t, int64_t) {
    return Admission{.n_computed = 0, .limit = Scheduler::kNoLimit};
  });
  const auto most = [](const PromptPlace& place) {
    return place.is_beside_others ? 4 : 16;
  };
  std::vector<ScheduledRows> step;
  scheduler.NextStep(most, step);
  ASSERT_FALSE(step.empty());
  for (const ScheduledRows& rows : step) {
    EXPECT_FALSE(rows.is_beside_others) << "nothing decodes yet";
  }

  std::map<int64_t, bool> is_beside_others;
  for (int i = 0; i < 9; ++i) {
    scheduler.NextStep(most, step);
    for (const ScheduledRows& rows : step) {
      if (rows.is_decoding) {
        EXPECT_FALSE(rows.is_beside_others);
        continue;
      }
      is_beside_others[rows.id] = rows.is_beside_others;
      EXPECT_LE(rows.n_rows, rows.is_beside_others ? 4 : 16);
    }
  }
  EXPECT_THAT(is_beside_others,
              ElementsAre(Pair(2, false), Pair(3, true), Pair(4, true)));
}

TEST(SchedulerTest, TenantsTakeTurnsForPromptRows) {
  Scheduler scheduler(3, 64, 4);
  ASSERT_TRUE(scheduler.Add(1, 1'000, {"a"}).ok());
  ASSERT_TRUE(scheduler.Add(2, 1'000, {"a"}).ok());
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 0, 64, false}));
  ASSERT_TRUE(scheduler.Add(3, 100, {"b"}).ok());
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{3, 0, 64, false}));
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 64, 64, false}));
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{3, 64, 36, true}, Part{1, 128, 28, false}));
}

TEST(SchedulerTest, SlotsGoToTheFirstComeAndAreDistinct) {
  Scheduler scheduler(2, 8, 4);
  for (int64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler.Add(id, 1).ok());
  Next(scheduler);
  EXPECT_EQ(scheduler.running(), 2);
  EXPECT_EQ(scheduler.waiting(), 2);
  ASSERT_TRUE(scheduler.SlotOf(1).has_value());
  ASSERT_TRUE(scheduler.SlotOf(2).has_value());
  EXPECT_NE(scheduler.SlotOf(1), scheduler.SlotOf(2));
  EXPECT_FALSE(scheduler.SlotOf(3).has_value());
}

TEST(SchedulerTest, RemovalFreesTheSlotForTheNextThatWaits) {
  Scheduler scheduler(1, 8, 4);
  for (int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(scheduler.Add(id, 1).ok());
  Next(scheduler);
  const auto slot = scheduler.SlotOf(1);
  scheduler.Remove(2);  // a waiting one: it never gets a slot
  EXPECT_EQ(scheduler.waiting(), 1);
  scheduler.Remove(1);
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{3, 0, 1, true}));
  EXPECT_EQ(scheduler.SlotOf(3), slot);
}

TEST(SchedulerTest, AParkedSequenceKeepsItsSlotAndTakesNoPart) {
  Scheduler scheduler(2, 8, 4);
  ASSERT_TRUE(scheduler.Add(1, 1).ok());
  ASSERT_TRUE(scheduler.Add(2, 20).ok());
  Next(scheduler);
  scheduler.Park(1);
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{2, 7, 8, false}));
  scheduler.Park(2);
  EXPECT_THAT(Next(scheduler), IsEmpty());
  EXPECT_TRUE(scheduler.SlotOf(1).has_value());
  EXPECT_TRUE(scheduler.IsParked(1));
  scheduler.Unpark(1);
  scheduler.Unpark(2);
  EXPECT_FALSE(scheduler.IsParked(1));
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 1, 1, true}, Part{2, 15, 5, true}));
}

TEST(SchedulerTest, MoreDecodingSequencesThanRowsTakeTurns) {
  Scheduler scheduler(5, 2, 5);
  for (int64_t id = 0; id < 5; ++id) ASSERT_TRUE(scheduler.Add(id, 1).ok());
  for (int step = 0; step < 3; ++step) {  // slow readers let all prompts in
    for (const ScheduledRows& r : Next(scheduler)) scheduler.Park(r.id);
  }
  for (int64_t id = 0; id < 5; ++id) scheduler.Unpark(id);
  std::map<int64_t, int> served;
  for (int step = 0; step < 50; ++step) {
    for (const ScheduledRows& r : Next(scheduler)) ++served[r.id];
  }
  for (int64_t id = 0; id < 5; ++id) EXPECT_NEAR(served[id], 20, 1) << id;
}

TEST(SchedulerTest, APromptTakesTurnsWithDecodingThatTakesEveryRow) {
  Scheduler scheduler(4, 2, 5);
  for (int64_t id = 1; id <= 2; ++id) ASSERT_TRUE(scheduler.Add(id, 1).ok());
  Next(scheduler);
  ASSERT_TRUE(scheduler.Add(3, 4).ok());
  ASSERT_TRUE(scheduler.Add(4, 4).ok());
  std::map<int64_t, int64_t> rows;
  for (int step = 0; step < 6; ++step) {
    for (const ScheduledRows& r : Next(scheduler)) rows[r.id] += r.n_rows;
  }
  // Twelve rows for three of them, one at a time each.
  for (const int64_t id : {1, 2, 3}) {
    EXPECT_GE(rows[id], 3) << id;
    EXPECT_LE(rows[id], 5) << id;
  }
  EXPECT_EQ(rows[4], 0) << "prompts keep their order";
}

TEST(SchedulerTest, WhoIsPreemptedBeginsAgainBeforeTheOthers) {
  Scheduler scheduler(2, 8, 4);
  for (int64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler.Add(id, 3).ok());
  Next(scheduler);
  Next(scheduler);
  scheduler.Preempt(2, 4);
  scheduler.Preempt(1, 4);
  EXPECT_EQ(scheduler.running(), 0);
  EXPECT_EQ(scheduler.waiting(), 4);
  EXPECT_FALSE(scheduler.SlotOf(1).has_value());
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 0, 4, true}, Part{2, 0, 4, true}));
  scheduler.Preempt(1, 5);
  scheduler.Park(1);
  scheduler.Remove(2);
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{3, 0, 3, true}))
      << "its reader is behind, it has a slot";
  EXPECT_TRUE(scheduler.IsParked(1));
  scheduler.Preempt(1, 5);
  scheduler.Remove(1);
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{3, 3, 1, true}, Part{4, 0, 3, true}));
  EXPECT_EQ(scheduler.waiting(), 0);
}

TEST(SchedulerTest, WhoMustWaitHoldsUpAllBehind) {
  Scheduler scheduler(2, 8, 4);
  for (int64_t id = 1; id <= 2; ++id) ASSERT_TRUE(scheduler.Add(id, 3).ok());
  std::vector<int64_t> asked;
  const auto not_now = [&asked](int64_t id, int64_t) {
    asked.push_back(id);
    return std::optional<Admission>();
  };
  scheduler.Admit(not_now);
  scheduler.Admit(not_now);
  EXPECT_THAT(asked, ElementsAre(1, 1));
  EXPECT_EQ(scheduler.waiting(), 2);
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 0, 3, true}, Part{2, 0, 3, true}));
}

TEST(SchedulerTest, WhoIsPreemptedIsBeforeItsOwnTenantOnly) {
  Scheduler scheduler(2, 8, 4);
  ASSERT_TRUE(scheduler.Add(1, 3, {"a"}).ok());
  ASSERT_TRUE(scheduler.Add(2, 3, {"a"}).ok());
  Next(scheduler);
  scheduler.Preempt(2, 4);
  ASSERT_TRUE(scheduler.Add(3, 3, {"a"}).ok());
  ASSERT_TRUE(scheduler.Add(4, 3, {"b"}).ok());
  std::vector<int64_t> asked;
  const auto fits = [&asked](int64_t id, int64_t) -> std::optional<Admission> {
    asked.push_back(id);
    if (id == 2) return std::nullopt;
    return Admission{.n_computed = 0, .limit = Scheduler::kNoLimit};
  };
  scheduler.Admit(fits);
  EXPECT_THAT(asked, ElementsAre(4)) << "its tenant has no slot";
  scheduler.Remove(4);
  scheduler.Admit(fits);
  EXPECT_THAT(asked, ElementsAre(4, 2));
}

TEST(SchedulerTest, WhoIsPreemptedWithAReaderThatIsBehindWantsNoSlot) {
  Scheduler scheduler(1, 8, 4);
  ASSERT_TRUE(scheduler.Add(1, 3).ok());
  Next(scheduler);
  scheduler.Park(1);
  scheduler.Preempt(1, 4);
  EXPECT_EQ(scheduler.waiting(), 1);
  EXPECT_FALSE(scheduler.HasNext());
  EXPECT_THAT(Next(scheduler), IsEmpty());
  scheduler.Unpark(1);
  EXPECT_TRUE(scheduler.HasNext());
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 0, 4, true}));
}

// Steps until the only one that runs gives its slot up; -1 if it does not.
int64_t StepsOfSlice(Scheduler& scheduler,
                     const std::function<void()>& before_step) {
  for (int64_t n_steps = 0; n_steps < 2'000; ++n_steps) {
    if (scheduler.WhoseSliceEnds([](int64_t) { return true; })) return n_steps;
    before_step();
    Next(scheduler);
  }
  return -1;
}

TEST(SchedulerTest, APromptOfManyContextsHasASliceToo) {
  constexpr int64_t kCtx = 128;
  Scheduler scheduler(1, 64, 4, kCtx);
  ASSERT_TRUE(scheduler.Add(1, 1'000 * kCtx, {"a"}).ok());
  Next(scheduler, {.first_rows = kCtx});
  ASSERT_TRUE(scheduler.Add(2, 1, {"b"}).ok());
  int64_t n_rows = 64;
  int64_t limit = kCtx;
  const int64_t n_steps = StepsOfSlice(scheduler, [&] {
    if (n_rows == limit) {
      limit += 64;
      scheduler.SetLimit(1, limit);
      scheduler.BeginSlice(1);
    }
    n_rows += 64;
  });
  // Its steps are long, so it leaves as soon as the other has waited for long
  // enough: it has computed more than a context by then.
  EXPECT_EQ(n_steps, Scheduler::kMostWaited);
}

TEST(SchedulerTest, TheSliceOfAStreamWithoutAnEndDoesNotGrow) {
  constexpr int64_t kCtx = 128;
  Scheduler scheduler(1, 64, 4, kCtx);
  ASSERT_TRUE(scheduler.Add(1, 1'000 * kCtx, {"a"}).ok());
  scheduler.Admit([](int64_t, int64_t) {
    return Admission{.n_computed = 1'000 * kCtx - 1,
                     .limit = Scheduler::kNoLimit};
  });
  Next(scheduler);
  ASSERT_TRUE(scheduler.Add(2, 1, {"b"}).ok());
  EXPECT_EQ(StepsOfSlice(scheduler, /*before_step=*/[] {}),
            Scheduler::kLeastSlice + kCtx / Scheduler::kRowsOfSlice);
}

TEST(SchedulerTest, ALongPromptPutsFewBeforeWhoComesLater) {
  Scheduler scheduler(1, 64, 64);
  ASSERT_TRUE(scheduler.Add(1, 1'000'000, {"long"}).ok());
  for (int64_t id = 2; id < 50; ++id) {
    ASSERT_TRUE(scheduler.Add(id, 1, {"short"}).ok());
  }
  Next(scheduler);
  ASSERT_TRUE(scheduler.SlotOf(1).has_value());
  ASSERT_TRUE(scheduler.Add(100, 1, {"new"}).ok());
  scheduler.Remove(1);
  int64_t n_before = 0;
  for (Next(scheduler); !scheduler.SlotOf(100); Next(scheduler)) {
    scheduler.Remove(2 + n_before++);
  }
  EXPECT_LE(n_before, Scheduler::kMostInAdvance / FairQueue::kLeastTokens);
}

// It is paid for once, as it is computed, also where a copy of its context has
// waited with it.
TEST(SchedulerTest, APromptCostsAsMuchAsItHasTokens) {
  for (const bool has_copy : {false, true}) {
    Scheduler scheduler(1, 512, 64);
    ASSERT_TRUE(scheduler.Add(1, 4'000, {"a"}).ok());
    for (int64_t id = 10; id < 60; ++id) {
      ASSERT_TRUE(scheduler.Add(id, 100, {"b"}).ok());
    }
    int64_t n_computed = 0;
    const auto step = [&] {
      scheduler.Admit([&](int64_t id, int64_t) {
        return Admission{.n_computed = id == 1 && has_copy ? n_computed : 0,
                         .limit = Scheduler::kNoLimit};
      });
      return scheduler.NextStep();
    };
    int64_t next_id = 10;
    step();
    for (const int64_t n_before : {11, has_copy ? 10 : 0}) {
      step();
      n_computed += 1'024;
      ASSERT_EQ(scheduler.SlotOf(1), 0);
      scheduler.Yield(1, 4'000);
      const int64_t first_id = next_id;
      for (step(); !scheduler.SlotOf(1); step()) scheduler.Remove(next_id++);
      EXPECT_EQ(next_id - first_id, n_before) << has_copy;
    }
  }
}

TEST(SchedulerTest, GuessesTakeTheRowsThatNobodyElseNeeds) {
  Scheduler scheduler(2, 6, 2);
  ASSERT_TRUE(scheduler.Add(1, 1).ok());
  ASSERT_TRUE(scheduler.Add(2, 1).ok());
  Next(scheduler);
  scheduler.SetDraft(1, 3);
  scheduler.SetDraft(2, 3);
  const auto step = Next(scheduler);
  EXPECT_THAT(Parts(step),
              ElementsAre(Part{1, 1, 4, true}, Part{2, 1, 2, true}));
  EXPECT_EQ(step[0].n_draft, 3);
  EXPECT_EQ(step[1].n_draft, 1);
  scheduler.Reject(1, 2);  // one of three was right
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 3, 1, true}, Part{2, 3, 1, true}))
      << "guesses are of one step";
}

TEST(SchedulerTest, GuessesWaitForPromptsAndEndWithTheContext) {
  Scheduler scheduler(2, 8, 2);
  ASSERT_TRUE(scheduler.Add(1, 1).ok());
  Next(scheduler, {.first_rows = 5});
  scheduler.SetDraft(1, 7);
  EXPECT_THAT(Parts(Next(scheduler)), ElementsAre(Part{1, 1, 4, true}));
  scheduler.Reject(1, 3);
  ASSERT_TRUE(scheduler.Add(2, 9).ok());
  scheduler.SetDraft(1, 7);
  EXPECT_THAT(Parts(Next(scheduler)),
              ElementsAre(Part{1, 2, 1, true}, Part{2, 0, 7, false}));
}

}  // namespace
}  // namespace plimsoll::worker
