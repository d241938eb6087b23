// Bar and table of a small fixed plan, to the character.
#include "services/cli/views/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace plimsoll::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

constexpr uint64_t kMiB = 1 << 20;

void AddRegion(const char* name, uint64_t bytes, v1::Basis basis,
               const char* formula, v1::MemoryPlan& plan) {
  v1::MemoryRegion& region = *plan.add_regions();
  region.set_name(name);
  region.set_bytes(bytes);
  region.set_basis(basis);
  region.set_formula(formula);
}

v1::MemoryPlan SmallPlan(uint64_t budget_bytes) {
  v1::MemoryPlan plan;
  AddRegion("weights", 40 * kMiB, v1::BASIS_DERIVED, "12 tensors", plan);
  AddRegion("kv_full", 20 * kMiB, v1::BASIS_DERIVED, "1 slot x 8 pages", plan);
  AddRegion("kv_window", 0, v1::BASIS_DERIVED, "no rings", plan);
  AddRegion("workspace", 4 * kMiB, v1::BASIS_DERIVED, "one step of 64 rows",
            plan);
  AddRegion("runtime", 15 * kMiB, v1::BASIS_ESTIMATED, "the process itself",
            plan);
  plan.set_total_bytes(80 * kMiB);
  plan.set_budget_bytes(budget_bytes);
  plan.set_fits(plan.total_bytes() <= budget_bytes);
  if (!plan.fits()) plan.set_missing_bytes(80 * kMiB - budget_bytes);
  plan.set_n_ctx(512);
  plan.set_n_ctx_reason("the model was trained for 512 tokens");
  plan.mutable_options()->set_n_slots(1);
  plan.set_marginal_bytes_per_token(40'960);
  plan.set_marginal_bytes_per_slot(uint64_t{21} << 20);
  plan.set_page_tokens(64);
  return plan;
}

TEST(SegmentCellsTest, AreInProportionAndNeverVanish) {
  EXPECT_THAT(SegmentCells({{"a", 50}, {"b", 25}, {"c", 0}}, 100, 40),
              ElementsAre(20, 10, 0));
  EXPECT_THAT(SegmentCells({{"a", 1'000'000}, {"b", 1}}, 1'000'001, 10),
              ElementsAre(9, 1));
}

TEST(SegmentCellsTest, NeverTakeMoreThanThereIs) {
  EXPECT_THAT(SegmentCells({{"a", 1}, {"b", 1}, {"c", 1}}, 3, 2),
              ElementsAre(0, 1, 1));
  EXPECT_THAT(SegmentCells({{"a", 0}}, 0, 10), ElementsAre(0));
}

TEST(SegmentsOfTest, SumToTheTotal) {
  int64_t sum = 0;
  for (const Segment& segment : SegmentsOf(SmallPlan(100 * kMiB))) {
    sum += segment.bytes;
  }
  EXPECT_EQ(sum, static_cast<int64_t>(80 * kMiB));
}

TEST(RenderPlanTest, FittingPlanInAscii) {
  EXPECT_EQ(RenderPlan(SmallPlan(100 * kMiB), "tiny on cpu", Style()),
            R"(tiny on cpu

  [##############################===============++++-----------................]
                                                          load line 100.0 MiB ^
  # weights 40.0 MiB  = kv 20.0 MiB  + scratch 5.0 MiB  - host 15.0 MiB
  . free 20.0 MiB

  region          bytes      size  basis      from
  weights    41,943,040  40.0 MiB  derived    12 tensors
  kv_full    20,971,520  20.0 MiB  derived    1 slot x 8 pages
  workspace   4,194,304   4.0 MiB  derived    one step of 64 rows
  runtime    15,728,640  15.0 MiB  estimated  the process itself
  rounding    1,048,576   1.0 MiB  derived    alignment of regions, and of the
                                              one allocation
  total      83,886,080  80.0 MiB

  FITS: 80.0 MiB of 100.0 MiB, 20.0 MiB stay free
  context: 512 tokens a slot, 1 slot
  why: the model was trained for 512 tokens
  one more token of context costs 40,960 bytes in pages of 64
  one more slot costs 21.0 MiB
)");
}

TEST(RenderPlanTest, IdleSessionsHaveALineIfTheyTakeMemory) {
  v1::MemoryPlan plan = SmallPlan(100 * kMiB);
  plan.mutable_options()->set_n_idle_sessions(1);
  EXPECT_THAT(RenderPlan(plan, "tiny on cpu", Style()),
              Not(HasSubstr("idle session")));
  plan.set_idle_session_bytes(3 * kMiB);
  EXPECT_THAT(RenderPlan(plan, "tiny on cpu", Style()),
              HasSubstr("  1 idle session takes 3.0 MiB\n"));
  plan.mutable_options()->set_n_idle_sessions(2);
  EXPECT_THAT(RenderPlan(plan, "tiny on cpu", Style()),
              HasSubstr("  2 idle sessions take 3.0 MiB\n"));
}

TEST(RenderPlanTest, PlanOverTheLineSaysWhatIsMissingAndWhatToTry) {
  v1::MemoryPlan plan = SmallPlan(60 * kMiB);
  v1::Suggestion& suggestion = *plan.add_suggestions();
  suggestion.set_text("--n-ctx 256");
  suggestion.set_saves_bytes(20 * kMiB);
  const std::string view = RenderPlan(plan, "tiny on cpu", Style());
  EXPECT_THAT(view, HasSubstr("DOES NOT FIT: 80.0 MiB wanted, 60.0 MiB there, "
                              "20.0 MiB missing\n"));
  EXPECT_THAT(view, HasSubstr("  try: --n-ctx 256  (saves 20.0 MiB)\n"));
  EXPECT_THAT(view, HasSubstr("! over the line 20.0 MiB"));
  EXPECT_THAT(view, HasSubstr("load line 60.0 MiB ^\n"));
}

TEST(RenderPlanTest, Utf8BarIsAsWide) {
  Style style;
  style.utf8 = true;
  const std::string view = RenderPlan(SmallPlan(100 * kMiB), "tiny", style);
  for (absl::string_view line : absl::StrSplit(view, '\n')) {
    EXPECT_THAT(Columns(line), Le(80)) << line;
  }
  EXPECT_THAT(view, HasSubstr("█▓"));
  EXPECT_EQ(view.find('\033'), std::string::npos);
}

TEST(RenderPlanTest, EscapesFromAServerAreNotPrinted) {
  v1::MemoryPlan plan = SmallPlan(100 * kMiB);
  plan.set_n_ctx_reason("\033[2J");
  plan.mutable_regions(0)->set_formula("\033[2J");
  EXPECT_EQ(RenderPlan(plan, "\033[2J", Style()).find('\033'),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::cli
