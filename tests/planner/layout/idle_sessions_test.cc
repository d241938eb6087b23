// Places for idle sessions by their bytes: as many as have room, and no more.
#include "planner/layout/idle_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/fleet/what_if.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/layer_split.h"
#include "tests/planner/known_models.h"
#include "tests/planner/recurrent_models.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"

namespace plimsoll::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Ten convolutions of 2,048 columns, each with its last two inputs.
constexpr int64_t kLfm2Place = 10 * 2 * 2'048 * 4;
// Fifteen rings of 512 cells: a key and a value of 256 elements in f16.
constexpr int64_t kGemmaPlace = 15 * 512 * 2 * 256 * 2;
constexpr int64_t kMost = LoadOptions::kMaxIdleSessions;

ModelShape Lfm2() {
  return ShapeWith(Lfm2Numbers(), DType::kBF16, DType::kBF16, true);
}

PlanOptions WithBytes(int64_t bytes) {
  PlanOptions options;
  options.n_ctx = 4'096;
  options.n_slots = 2;
  options.idle_session_bytes = bytes;
  return options;
}

PlanOptions WithNumber(int64_t n) {
  PlanOptions options = WithBytes(0);
  options.idle_session_bytes.reset();
  options.n_idle_sessions = n;
  return options;
}

MemoryPlan PlanIn(const ModelShape& shape, const PlanOptions& options,
                  int64_t budget_bytes) {
  const auto plan = Layout(shape, options, CommittedCpuProfile(), budget_bytes);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : MemoryPlan{};
}

MemoryPlan PlanOf(const ModelShape& shape, const PlanOptions& options) {
  return PlanIn(shape, options, std::numeric_limits<int64_t>::max());
}

TEST(IdleSessionsTest, TheirNumberIsHowManyPlacesTheBytesHold) {
  const auto number = [](int64_t bytes) {
    return DecideIdleSessions(Lfm2(), WithBytes(bytes)).value_or(-1);
  };
  for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{3'000}, kMost}) {
    EXPECT_EQ(number(n * kLfm2Place), n);
    EXPECT_EQ(number(n * kLfm2Place + 1), n);
  }
  for (const int64_t n : {int64_t{2}, int64_t{3'000}, kMost}) {
    EXPECT_EQ(number(n * kLfm2Place - 1), n - 1);
  }
  EXPECT_EQ(number(0), 0);
  EXPECT_EQ(number((kMost + 1) * kLfm2Place), kMost);
  EXPECT_EQ(number(std::numeric_limits<int64_t>::max()), kMost);
}

TEST(IdleSessionsTest, BytesThatHoldNoPlaceAreAnErrorThatSaysHowManyDo) {
  for (const int64_t bytes : {int64_t{1}, kLfm2Place - 1}) {
    const absl::Status status =
        DecideIdleSessions(Lfm2(), WithBytes(bytes)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("idle_session_bytes is " + std::to_string(bytes)),
              HasSubstr("take 163840;")));
    EXPECT_EQ(
        Layout(Lfm2(), WithBytes(bytes), CommittedCpuProfile(), kGiB).status(),
        status);
  }
}

TEST(IdleSessionsTest, ANumberStaysAsItIs) {
  EXPECT_EQ(*DecideIdleSessions(Lfm2(), WithNumber(7)), 7);
  PlanOptions both = WithNumber(7);
  both.idle_session_bytes = 8 * kLfm2Place;
  const absl::Status status = DecideIdleSessions(Lfm2(), both).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("idle_session_bytes"), HasSubstr("n_idle_sessions, 7")));
}

TEST(IdleSessionsTest, APlanSaysTheirNumberAndTheirBytes) {
  for (const bool has_states : {true, false}) {
    SCOPED_TRACE(has_states);
    const ModelShape shape = has_states ? Lfm2() : Gemma270m();
    const int64_t place = has_states ? kLfm2Place : kGemmaPlace;
    const MemoryPlan plan = PlanOf(shape, WithBytes(4 * place - 1));
    EXPECT_EQ(plan.options.n_idle_sessions, 3);
    EXPECT_EQ(plan.options.idle_session_bytes, std::nullopt);
    EXPECT_EQ(plan.IdleSessionBytes(), 3 * place);
    const Region& region = *plan.FindRegion(has_states ? "state" : "kv_window");
    EXPECT_EQ(region.bytes, (2 + 3) * place);
    EXPECT_THAT(region.formula, HasSubstr("+ 3 idle) x "));
    const MemoryPlan same = PlanOf(shape, WithNumber(3));
    EXPECT_EQ(plan.total_bytes, same.total_bytes);
    EXPECT_EQ(plan.IdleSessionBytes(), same.IdleSessionBytes());
  }
}

TEST(IdleSessionsTest, AModelOfPagesAloneHasNone) {
  const MemoryPlan plan = PlanOf(Smollm2(), WithBytes(1));
  EXPECT_EQ(plan.options.n_idle_sessions, 0);
  EXPECT_EQ(plan.IdleSessionBytes(), 0);
  EXPECT_EQ(plan.total_bytes, PlanOf(Smollm2(), WithNumber(5)).total_bytes);
}

TEST(IdleSessionsTest, TheyDoNotDependOnTheContext) {
  PlanOptions options = WithBytes(3 * kGemmaPlace);
  const int64_t budget = PlanOf(Gemma270m(), options).total_bytes;
  options.n_ctx.reset();
  const MemoryPlan solved = PlanIn(Gemma270m(), options, budget);
  EXPECT_EQ(solved.n_ctx, 4'096);
  EXPECT_EQ(solved.options.n_idle_sessions, 3);
  // A context within the window has pages alone.
  options.n_ctx = 512;
  const MemoryPlan in_window = PlanOf(Gemma270m(), options);
  EXPECT_EQ(in_window.options.n_idle_sessions, 3);
  EXPECT_EQ(in_window.IdleSessionBytes(), 0);
}

TEST(IdleSessionsTest, SuggestionsFillTheSameBytesAnew) {
  PlanOptions options = WithBytes(10 * kGemmaPlace);
  const int64_t budget = PlanOf(Gemma270m(), options).total_bytes;
  options.n_slots = 4;
  const MemoryPlan plan = PlanIn(Gemma270m(), options, budget);
  ASSERT_FALSE(plan.fits);
  ASSERT_FALSE(plan.suggestions.empty());
  bool has_smaller_places = false;
  for (const Suggestion& suggestion : plan.suggestions) {
    const MemoryPlan changed =
        PlanIn(Gemma270m(), Changed(options, suggestion.change), budget);
    EXPECT_TRUE(changed.fits);
    EXPECT_EQ(plan.total_bytes - changed.total_bytes, suggestion.saves_bytes);
    has_smaller_places |= changed.options.n_idle_sessions > 10;
  }
  EXPECT_TRUE(has_smaller_places);
}

TEST(IdleSessionsTest, PartsOfAModelHaveThoseOfTheWholeModel) {
  const ModelShape shape = Lfm2();
  const PlanOptions options = WithBytes(5 * kLfm2Place - 1);
  DeviceProfile profile = CommittedCpuProfile();
  profile.kind = "cuda";
  const int64_t whole = Layout(shape, options, profile, 64 * kGiB)->total_bytes;
  const std::vector<SplitDevice> devices = {{profile, whole / 2},
                                            {profile, whole}};
  const auto split = SplitLayers(shape, options, devices);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->parts.size(), 2u);
  int64_t bytes = 0;
  for (const SplitPart& part : split->parts) {
    EXPECT_EQ(part.plan.options.n_idle_sessions, 4);
    bytes += part.plan.IdleSessionBytes();
  }
  EXPECT_EQ(bytes, 4 * kLfm2Place);
  // Enough for each part, but not for the model.
  EXPECT_TRUE(absl::IsInvalidArgument(
      SplitLayers(shape, WithBytes(kLfm2Place - 1), devices).status()));
}

TEST(IdleSessionsTest, AWhatIfRefusesBytesBeforeItsFirstPoint) {
  WhatIfAxes axes;
  axes.devices = {{CommittedCpuProfile(), kGiB}};
  axes.weights = {std::nullopt};
  axes.kv = {{DType::kQ8_0, DType::kQ8_0}, {DType::kF16, DType::kF16}};
  axes.n_ubatch = {512};
  axes.n_slots = {1};
  axes.n_ctx = {4'096};
  const auto create = [&axes](int64_t bytes) {
    return WhatIf::Create(Gemma270m(), WithBytes(bytes), axes);
  };
  auto what_if = create(kGemmaPlace);
  ASSERT_TRUE(what_if.ok()) << what_if.status();
  const auto points = what_if->Next(2);
  ASSERT_TRUE(points.ok()) << points.status();
  for (const WhatIfPoint& point : *points) {
    PlanOptions options = WithBytes(kGemmaPlace);
    options.n_slots = 1;
    options.k_type = options.v_type = point.kv.k;
    EXPECT_EQ(point.total_bytes, PlanOf(Gemma270m(), options).total_bytes);
  }
  // Room for a place of q8_0, but not of f16.
  EXPECT_TRUE(absl::IsInvalidArgument(create(kGemmaPlace - 1).status()));
}

}  // namespace
}  // namespace plimsoll::planner
