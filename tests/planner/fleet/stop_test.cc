// Whatever may take long stops when it is told to, wherever it is.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "base/stop_check.h"
#include "planner/fleet/bounds.h"
#include "planner/fleet/placement.h"
#include "planner/fleet/what_if.h"
#include "planner/layout/layer_split.h"
#include "planner/layout/model_set.h"
#include "tests/planner/fleet/placement_problems.h"
#include "tests/planner/shapes.h"
#include "tests/planner/units.h"
#include "tests/sanitized.h"

namespace plimsoll::planner {
namespace {

// Says stop from its n-th question on.
class StopAt {
 public:
  explicit StopAt(int64_t n) : n_(n) {}

  absl::Status operator()() {
    ++n_asked_;
    return n_asked_ < n_ ? absl::OkStatus() : absl::CancelledError("enough");
  }
  int64_t n_asked() const { return n_asked_; }

 private:
  const int64_t n_;
  int64_t n_asked_ = 0;
};

using Work = std::function<absl::Status(StopCheck)>;

// Told to stop at each of its questions, or at 200 of them, `work` returns that
// error without many more questions.
void ExpectStops(const Work& work) {
  constexpr int64_t kNever = int64_t{1} << 40;
  StopAt never(kNever);
  ASSERT_TRUE(work([&] { return never(); }).ok());
  ASSERT_GT(never.n_asked(), 1);
  const int64_t step = never.n_asked() / 200 + 1;
  for (int64_t n = 1; n <= never.n_asked(); n += step) {
    StopAt stop(n);
    const absl::Status status = work([&] { return stop(); });
    ASSERT_EQ(status.code(), absl::StatusCode::kCancelled) << n;
    ASSERT_LT(stop.n_asked(), n + 1'000) << n;
  }
}

TEST(StopTest, ASplit) {
  DeviceProfile profile = CommittedCpuProfile();
  profile.runtime_bytes = 0;
  // Fits; does not fit, so that changes are tried.
  for (const int64_t bytes : {200 * kMiB, 20 * kMiB}) {
    const std::vector<SplitDevice> devices(4, {profile, bytes});
    ExpectStops([&](StopCheck stop) {
      return SplitLayers(Smollm2(), {}, devices, stop).status();
    });
  }
}

TEST(StopTest, ASetOfModels) {
  const std::vector<SetMember> members(2, {Smollm2(), {}});
  ExpectStops([&](StopCheck stop) {
    return PlanSet(members, CommittedCpuProfile(), kGiB, stop).status();
  });
}

// A set stops even if each model tries only one context.
TEST(StopTest, EachModelOfASet) {
  constexpr int64_t kMembers = 5;
  PlanOptions options;
  options.n_ctx = 16;
  const std::vector<SetMember> members(kMembers, {Smollm2(), options});
  StopAt never(int64_t{1} << 40);
  EXPECT_TRUE(PlanSet(members, CommittedCpuProfile(), kGiB, [&] {
                return never();
              }).ok());
  EXPECT_GE(never.n_asked(), 2 * kMembers);
}

TEST(StopTest, APlacement) {
  std::mt19937_64 random(5);
  constexpr int kProblems = testing::kIsSanitized ? 4 : 40;
  for (int i = 0; i < kProblems; ++i) {
    const PlacementProblem problem = SmallProblem(random, 12, 40);
    ExpectStops(
        [&](StopCheck stop) { return PlaceModels(problem, stop).status(); });
  }
}

TEST(StopTest, ASearchOfTheCatalogue) {
  const auto catalogue = DeviceCatalogue::Parse(
      "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
      "source\n"
      "large,Large,gpu,17179869184,driver,500000000000,2020,\n"
      "small,Small,board,2147483648,nominal,10000000000,2020,\n");
  ExpectStops([&](StopCheck stop) {
    return FittingDevices(Smollm2(), {}, *catalogue, stop).status();
  });
}

TEST(StopTest, AGrid) {
  WhatIfAxes axes;
  axes.devices.assign(2, {CommittedCpuProfile(), kGiB});
  axes.weights = {std::nullopt, DType::kQ8_0};
  axes.n_ctx = {16, 32, 64};
  ExpectStops([&](StopCheck stop) -> absl::Status {
    auto what_if = WhatIf::Create(Smollm2(), {}, axes, stop);
    if (!what_if.ok()) return what_if.status();
    const auto points = what_if->Next(100, stop);
    if (!points.ok()) return points.status();
    return what_if->Frontier(stop).status();
  });
}

}  // namespace
}  // namespace plimsoll::planner
