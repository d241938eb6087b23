// A mixed step stays within twice the one without prompt rows, whatever steps
// cost, and prompts never stand still.
#include "worker/scheduling/prompt_budget.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {
namespace {

constexpr int64_t kSlots = 16;
constexpr double kShare = 0.47;
constexpr double kBesideOthers = 0.18;

PromptBudget MakeBudget(double of_step) {
  return PromptBudget(kSlots,
                      {.of_step = of_step, .beside_others = kBesideOthers});
}

// Seconds of a step with so many decoding and prompt rows.
using Cost = std::function<double(int64_t, int64_t)>;

constexpr int kSteps = 400;

struct Mixed {
  int n_steps = 0;  // with prompt rows
  int64_t n_rows = 0;
  double mean_ratio = 0;  // their time over that of steps without prompt rows
};

// Runs steps with `n_decoding` rows and a prompt without end. Returns what the
// last half of them did.
Mixed RunMixed(PromptBudget& budget, const Cost& cost, int64_t n_decoding) {
  Mixed mixed;
  for (int i = 0; i < kSteps; ++i) {
    const int64_t rows = budget.Rows(n_decoding);
    const double seconds = cost(n_decoding, rows);
    budget.Record(n_decoding, rows, absl::Seconds(seconds));
    if (i < kSteps / 2 || rows == 0) continue;
    mixed.mean_ratio += seconds / cost(n_decoding, 0);
    ++mixed.n_steps;
    mixed.n_rows += rows;
  }
  mixed.mean_ratio /= mixed.n_steps;
  return mixed;
}

// That mean ratio, where nearly all steps have prompt rows.
double MeanRatio(PromptBudget& budget, const Cost& cost, int64_t n_decoding) {
  const Mixed mixed = RunMixed(budget, cost, n_decoding);
  EXPECT_GE(mixed.n_steps, kSteps / 2 - 10) << "prompts stood still";
  return mixed.mean_ratio;
}

TEST(PromptBudgetTest, NothingLimitsPromptsWhileNothingDecodes) {
  PromptBudget budget = MakeBudget(kShare);
  EXPECT_EQ(budget.Rows(0), Scheduler::kNoLimit);
  budget.Record(0, 512, absl::Seconds(1));
  EXPECT_EQ(budget.Rows(0), Scheduler::kNoLimit);
}

TEST(PromptBudgetTest, AnUnknownStepIsMeasuredOnceAndAgainAfterManyMixedOnes) {
  PromptBudget budget = MakeBudget(kShare);
  EXPECT_EQ(budget.Rows(1), 0);
  EXPECT_EQ(budget.Rows(kSlots), 0);
  budget.Record(1, 0, absl::Milliseconds(7));
  for (int64_t i = 0; i < PromptBudget::kMixedSteps; ++i) {
    EXPECT_GE(budget.Rows(1), 1) << i;
    budget.Record(1, budget.Rows(1), absl::Milliseconds(13));
  }
  EXPECT_EQ(budget.Rows(1), 0);
  budget.Record(1, 0, absl::Milliseconds(7));
  EXPECT_GE(budget.Rows(1), 1);
  EXPECT_EQ(budget.Rows(kSlots), 0);
}

TEST(PromptBudgetTest, RowsThatTakeMoreThanTheShareComeInFewerSteps) {
  constexpr double kDecode = 10e-3;
  for (const double share : {0.05, 0.15, kShare}) {
    // One row of a prompt that is far into its context.
    for (const double row : {5e-3, 10e-3, 30e-3}) {
      PromptBudget budget = MakeBudget(share);
      double with_rows = 0;
      double without = 0;
      int64_t n_rows = 0;
      for (int i = 0; i < 2000; ++i) {
        const int64_t rows = budget.Rows(1);
        const double taken = row * static_cast<double>(rows);
        budget.Record(1, rows, absl::Seconds(kDecode + taken));
        if (i < 200) continue;
        with_rows += taken;
        without += kDecode;
        n_rows += rows;
      }
      EXPECT_LE(with_rows / (with_rows + without), share * 1.05)
          << share << " " << row;
      EXPECT_GE(with_rows / (with_rows + without), share * 0.5)
          << share << " " << row;
      EXPECT_GT(n_rows, 0);
    }
  }
}

TEST(PromptBudgetTest, AStepThatHungStopsPromptsForSoLongAtMost) {
  PromptBudget budget = MakeBudget(0.15);
  budget.Record(1, 0, absl::Milliseconds(10));
  budget.Record(1, budget.Rows(1), absl::Seconds(60));
  int n_without = 0;
  while (budget.Rows(1) == 0) {
    ASSERT_LE(++n_without, PromptBudget::kMaxPause);
    budget.Record(1, 0, absl::Milliseconds(10));
  }
  EXPECT_EQ(n_without, PromptBudget::kMaxPause);
}

TEST(PromptBudgetTest, AMixedStepTakesTwiceAsLongAtMost) {
  // A decode of 7 ms or 1 ms, a row of 10 us to 1 ms, with a cost of its own
  // for having prompt rows at all or without.
  for (const double decode : {1e-3, 7e-3}) {
    for (const double row : {1e-5, 1e-4, 4e-4}) {
      for (const double begin : {0.0, 2e-4}) {
        const Cost cost = [&](int64_t n_decoding, int64_t n_prompt) {
          return decode * (1 + 0.1 * static_cast<double>(n_decoding)) +
                 (n_prompt > 0 ? begin : 0) +
                 row * static_cast<double>(n_prompt);
        };
        PromptBudget budget = MakeBudget(kShare);
        for (const int64_t n_decoding : {int64_t{1}, kSlots}) {
          const double ratio = MeanRatio(budget, cost, n_decoding);
          EXPECT_LE(ratio, 2.0) << decode << " " << row << " " << begin;
          EXPECT_GE(ratio, 1.5) << decode << " " << row << " " << begin;
        }
      }
    }
  }
}

TEST(PromptBudgetTest, PromptsTakeTheirShareOfAStep) {
  const Cost cost = [](int64_t n_decoding, int64_t n_prompt) {
    return 7e-3 + 1e-4 * static_cast<double>(n_decoding + n_prompt);
  };
  for (const double share : {0.05, 0.15, 0.5, 0.9}) {
    PromptBudget budget = MakeBudget(share);
    const double ratio = MeanRatio(budget, cost, 4);
    EXPECT_LE(ratio, 1.01 / (1 - share)) << share;
    EXPECT_GE(ratio, 0.9 / (1 - share)) << share;
  }
}

TEST(PromptBudgetTest, NoiseDoesNotStarvePrompts) {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> noise(0.7, 1.6);
  const Cost cost = [&](int64_t, int64_t n_prompt) {
    return (7e-3 + 3e-4 * static_cast<double>(n_prompt)) * noise(random);
  };
  PromptBudget budget = MakeBudget(kShare);
  const Mixed mixed = RunMixed(budget, cost, 4);
  EXPECT_GE(mixed.n_steps, kSteps / 3) << "prompts stood still";
  // Without noise 21 rows a step fit.
  EXPECT_GT(mixed.n_rows, 200 * 10);
  EXPECT_LT(mixed.n_rows, 200 * 42);
}

TEST(PromptBudgetTest, ARowThatCostsTooMuchStillGoesOn) {
  const Cost cost = [](int64_t, int64_t n_prompt) {
    return 1e-3 + 1.0 * static_cast<double>(n_prompt);
  };
  PromptBudget budget = MakeBudget(kShare);
  EXPECT_GE(RunMixed(budget, cost, 1).n_steps,
            kSteps / 2 / (static_cast<int>(PromptBudget::kMaxPause) + 2))
      << "prompts stood still";
  for (int i = 0; i < PromptBudget::kMaxPause && budget.Rows(1) == 0; ++i) {
    budget.Record(1, 0, absl::Milliseconds(1));
  }
  EXPECT_EQ(budget.Rows(1), 1);
}

TEST(PromptBudgetTest, AClockThatStandsStillStopsNothing) {
  PromptBudget budget = MakeBudget(kShare);
  for (int i = 0; i < 300; ++i) {
    const int64_t rows = budget.Rows(2);
    if (rows == 0) {
      budget.Record(2, 0, absl::ZeroDuration());
      ASSERT_GE(budget.Rows(2), 1);
    } else {
      budget.Record(2, rows, absl::ZeroDuration());
    }
  }
}

// Short prompts and long ones in turn: what is learned of the rows of one says
// nothing of those of the other.
TEST(PromptBudgetTest, RowsThatAreFurtherOnInTheirContextCostMore) {
  const auto seconds = [](int64_t position, int64_t n_prompt) {
    const double row = 2e-4 * (1 + static_cast<double>(position) / 500);
    return 1e-2 + row * static_cast<double>(n_prompt);
  };
  PromptBudget budget = MakeBudget(kShare);
  int64_t n_rows = 0;
  for (int64_t i = 0; i < 4'000; ++i) {
    const int64_t position = i / 10 % 2 == 0 ? 0 : 7'000;
    const int64_t rows = budget.Rows(3, {.position = position});
    const double took = seconds(position, rows);
    budget.Record(3, rows, absl::Seconds(took), {.position = position});
    if (i < 200) continue;
    EXPECT_LE(took, 2 * seconds(position, 0)) << i << ": " << rows << " rows";
    if (position == 0) n_rows += rows;
  }
  EXPECT_GT(n_rows, 1'900 * 40) << "the short ones are as fast as alone";
}

TEST(PromptBudgetTest, AShortLastChunkDoesNotShrinkTheNextPrompt) {
  PromptBudget budget = MakeBudget(kShare);
  budget.Record(1, 0, absl::Milliseconds(10));
  for (int i = 0; i < 20; ++i) {
    budget.Record(
        1, budget.Rows(1),
        absl::Milliseconds(10 + 0.1 * static_cast<double>(budget.Rows(1))));
  }
  const int64_t before = budget.Rows(1);
  EXPECT_GT(before, 80);
  budget.Record(1, 2, absl::Milliseconds(10.2));
  EXPECT_EQ(budget.Rows(1), before);
}

// A step of 10 ms, and 0.1 ms for each prompt row.
constexpr double kDecode = 10e-3;
constexpr double kRow = 1e-4;
constexpr PromptPlace kAmongOthers = {.is_beside_others = true};

// Runs a step with prompt rows beside streams of other tenants. Returns the
// seconds that they took.
double StepAmongOthers(PromptBudget& budget) {
  const int64_t rows = budget.Rows(1, kAmongOthers);
  const double taken = kRow * static_cast<double>(rows);
  budget.Record(1, rows, absl::Seconds(kDecode + taken), kAmongOthers);
  return taken;
}

TEST(PromptBudgetTest, PromptsBesideOthersKeepTheirShareAfterABurst) {
  PromptBudget budget = MakeBudget(kShare);
  double burst = 0;
  for (int i = 0; i < 70; ++i) burst += StepAmongOthers(budget);
  EXPECT_GE(burst, 60 * 0.7 * kDecode) << "the first steps are not full ones";
  for (int i = 0; i < 1000; ++i) burst += StepAmongOthers(budget);
  EXPECT_GE(burst, PromptBudget::kBurst);

  double taken = 0;
  constexpr int kManySteps = 4000;
  for (int i = 0; i < kManySteps; ++i) {
    const double now = StepAmongOthers(budget);
    EXPECT_LE(now, kDecode);
    taken += now;
  }
  const double share = taken / (taken + kManySteps * kDecode);
  EXPECT_LE(share, kBesideOthers * 1.02);
  EXPECT_GE(share, kBesideOthers * 0.9);
}

TEST(PromptBudgetTest, PromptsBesideTheirOwnTenantHaveTheWholeShareOfAStep) {
  PromptBudget budget = MakeBudget(kShare);
  for (int i = 0; i < 1000; ++i) StepAmongOthers(budget);
  while (budget.Rows(1, kAmongOthers) > 0) StepAmongOthers(budget);
  EXPECT_GE(budget.Rows(1), 70);
}

TEST(PromptBudgetTest, AnUnusedShareComesBackAsABurst) {
  PromptBudget budget = MakeBudget(kShare);
  for (int i = 0; i < 1000; ++i) StepAmongOthers(budget);
  for (int i = 0; i < 100'000; ++i) {
    budget.Record(1, 0, absl::Seconds(kDecode));
  }
  double taken = 0;
  int n_steps = 0;
  while (budget.Rows(1, kAmongOthers) > 0 && n_steps < 1000) {
    taken += StepAmongOthers(budget);
    // One step in many is measured without prompt rows.
    if (++n_steps % PromptBudget::kMixedSteps == 0) StepAmongOthers(budget);
  }
  EXPECT_GE(taken, PromptBudget::kBurst);
  EXPECT_LE(taken, 2 * PromptBudget::kBurst);
}

}  // namespace
}  // namespace plimsoll::worker
