// Which calls of a step are updated, when a graph is made anew, that what does
// not fit is started without one, and that kernels of a graph overlap.
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulated_backend.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/numeric.cuh"

namespace plimsoll::kernels::cuda_emulated {
namespace {

void AddTo(int64_t* sum, const int64_t* values, int64_t n, char /*odd size*/) {
  WaitForKernelsBefore();
  if (GlobalIndex() == 0) *sum += std::accumulate(values, values + n, 0L);
}
void Double(int64_t* sum) {
  WaitForKernelsBefore();
  if (GlobalIndex() == 0) *sum *= 2;
}
// Reads before it may.
void AddEarly(int64_t* sum, const int64_t* from) {
  const int64_t value = *from;
  WaitForKernelsBefore();
  if (GlobalIndex() == 0) *sum += value;
}
void AddWithoutWaiting(int64_t* sum) { *sum += 1; }

class CudaLaunchQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(staging_.Open(memory_.data(), nullptr).ok());
    ASSERT_TRUE(queue_
                    .Open(memory_.data() + Staging::kBytes, &staging_, nullptr,
                          /*overlaps=*/true)
                    .ok());
  }
  void TearDown() override { DriverRefusals() = {}; }
  void Add(const std::vector<int64_t>& values) {
    const auto n = static_cast<int64_t>(values.size());
    const int64_t* at = *queue_.PutSpan(std::span<const int64_t>(values));
    Launch(AddTo, {1}, 32, 0, &queue_, &sum_, at, n, 'x');
  }
  void Twice() { TwiceInBlocks(1); }
  void TwiceInBlocks(int64_t n_blocks) {
    Launch(Double, {n_blocks}, 32, 0, &queue_, &sum_);
  }

  std::vector<std::byte> memory_ =
      std::vector<std::byte>(Staging::kBytes + LaunchQueue::kStepBytes);
  Staging staging_;
  LaunchQueue queue_;
  int64_t sum_ = 0;
};

TEST_F(CudaLaunchQueueTest, OutsideOfAStepCallsRunAtOnce) {
  Add({1, 2});
  EXPECT_EQ(sum_, 3);
  Twice();
  EXPECT_EQ(sum_, 6);
  EXPECT_TRUE(queue_.StartAsGraph().ok());
  EXPECT_EQ(queue_.counts().graphs_built, 0);
}

TEST_F(CudaLaunchQueueTest, AStepRunsAtItsEndAndIsUpdatedWhereItDiffers) {
  for (int64_t i = 0; i < 10; ++i) {
    sum_ = 0;
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    // Their number changes an argument when it does, their values do not.
    Add(std::vector<int64_t>(i < 7 ? 3 : 4, i));
    Twice();
    Add({100});
    EXPECT_EQ(sum_, 0);
    ASSERT_TRUE(queue_.StartAsGraph().ok());
    EXPECT_EQ(sum_, 2 * (i < 7 ? 3 : 4) * i + 100);
    EXPECT_EQ(queue_.counts().calls_updated, i < 7 ? 0 : 1);
  }
  EXPECT_EQ(queue_.counts().graphs_built, 1);
  EXPECT_EQ(queue_.counts().graph_launches, 10);
  EXPECT_EQ(queue_.counts().call_launches, 0);
}

TEST_F(CudaLaunchQueueTest, AnotherGridIsAnUpdateAndAnotherListAGraph) {
  for (const int64_t n_blocks : {1, 2, 2, 1}) {
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    TwiceInBlocks(n_blocks);
    ASSERT_TRUE(queue_.StartAsGraph().ok());
  }
  EXPECT_EQ(queue_.counts().calls_updated, 2);
  EXPECT_EQ(queue_.counts().graphs_built, 1);
  ASSERT_TRUE(queue_.BeginStep(1).ok());
  Twice();
  Twice();
  ASSERT_TRUE(queue_.StartAsGraph().ok());
  EXPECT_EQ(queue_.counts().graphs_built, 2);
}

constexpr auto kMaxGraphs = static_cast<int64_t>(LaunchQueue::kMaxGraphs);

TEST_F(CudaLaunchQueueTest,
       OneStepMoreThanThereArePlacesChangesTheOldestAlike) {
  const auto step = [&](int64_t n_rows) {
    sum_ = 0;
    ASSERT_TRUE(queue_.BeginStep(n_rows).ok());
    Add(std::vector<int64_t>(static_cast<size_t>(n_rows), n_rows));
    ASSERT_TRUE(queue_.StartAsGraph().ok());
    EXPECT_EQ(sum_, n_rows * n_rows);
  };
  // Another list's is older, and stays.
  ASSERT_TRUE(queue_.BeginStep(1).ok());
  Twice();
  ASSERT_TRUE(queue_.StartAsGraph().ok());
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n < kMaxGraphs; ++n) step(n);
    EXPECT_EQ(queue_.counts().graphs_built, kMaxGraphs);
    EXPECT_EQ(queue_.counts().calls_updated, 0);
  }
  step(kMaxGraphs);  // changes the graph of 1 row
  EXPECT_EQ(queue_.counts().calls_updated, 1);
  for (const int64_t n : {int64_t{2}, kMaxGraphs}) step(n);
  EXPECT_EQ(queue_.counts().calls_updated, 1);
  step(1);  // changes the graph of 3 rows
  EXPECT_EQ(queue_.counts().calls_updated, 2);
  ASSERT_TRUE(queue_.BeginStep(1).ok());
  Twice();
  ASSERT_TRUE(queue_.StartAsGraph().ok());
  EXPECT_EQ(queue_.counts().graphs_built, kMaxGraphs);
}

TEST_F(CudaLaunchQueueTest, OneListMoreThanThereArePlacesIsBuiltAnew) {
  const auto step = [&](int64_t n_calls) {
    sum_ = 1;
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    for (int64_t i = 0; i < n_calls; ++i) Twice();
    ASSERT_TRUE(queue_.StartAsGraph().ok());
    EXPECT_EQ(sum_, int64_t{1} << n_calls);
  };
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= kMaxGraphs; ++n) step(n);
    EXPECT_EQ(queue_.counts().graphs_built, kMaxGraphs);
  }
  step(kMaxGraphs + 1);  // 1 makes room
  EXPECT_EQ(queue_.counts().graphs_built, kMaxGraphs + 1);
  step(2);
  EXPECT_EQ(queue_.counts().graphs_built, kMaxGraphs + 1);
  step(1);
  EXPECT_EQ(queue_.counts().graphs_built, kMaxGraphs + 2);
}

// Each number of rows has a list for steps without guesses; from two rows on it
// has one for steps with guesses, too.
TEST_F(CudaLaunchQueueTest, AllListsOfStepsHavePlaces) {
  const auto backend = *NewEmulatedCudaBackend();
  const int64_t n = std::ssize(backend->Device().step_rows) + 1;
  EXPECT_LE(2 * n - 1, kMaxGraphs);
}

TEST_F(CudaLaunchQueueTest, NoGraphIsAddedAfterTheWarmUp) {
  const auto step = [&](int64_t n_rows, int64_t n_calls) {
    sum_ = 1;
    ASSERT_TRUE(queue_.BeginStep(n_rows).ok());
    for (int64_t i = 0; i < n_calls; ++i) TwiceInBlocks(n_rows);
    ASSERT_TRUE(queue_.StartAsGraph().ok());
    EXPECT_EQ(sum_, int64_t{1} << n_calls);
  };
  step(1, 2);
  step(3, 2);
  queue_.EndWarmUp();
  step(5, 2);
  step(4, 2);
  EXPECT_EQ(queue_.counts().calls_updated, 2 + 2);
  for (const int64_t n_rows : {4, 5}) step(n_rows, 2);
  EXPECT_EQ(queue_.counts().calls_updated, 2 + 2);
  EXPECT_EQ(queue_.counts().call_launches, 0);
  step(1, 3);  // a list that no graph has
  EXPECT_EQ(queue_.counts().call_launches, 3);
  EXPECT_EQ(queue_.counts().graphs_built, 2);
  EXPECT_EQ(queue_.counts().graph_launches, 6);
}

TEST_F(CudaLaunchQueueTest, EveryKernelOfAGraphBeginsBeforeTheOneBeforeEnds) {
  int64_t copies[2] = {};
  const auto step = [&] {
    sum_ = 1;
    copies[0] = copies[1] = 0;
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    Twice();
    Launch(AddEarly, {1}, 32, 0, &queue_, &copies[0], &sum_);
    Launch(AddEarly, {1}, 32, 0, &queue_, &copies[1], &copies[0]);
    ASSERT_TRUE(queue_.StartAsGraph().ok());
  };
  // Two kernels at a time: in one step the first two, in the next the others.
  step();
  EXPECT_EQ(copies[0], 1);
  EXPECT_EQ(copies[1], 1);
  step();
  EXPECT_EQ(copies[0], 2);
  EXPECT_EQ(copies[1], 0);
  EXPECT_TRUE(queue_.overlaps());
}

TEST_F(CudaLaunchQueueTest, KernelsOverlapOnlyInGraphsThatAreAskedTo) {
  int64_t copy = 0;
  const auto launch = [&](LaunchQueue& queue) {
    ASSERT_TRUE(queue.BeginStep(1).ok());
    Launch(Double, {1}, 32, 0, &queue, &sum_);
    Launch(AddEarly, {1}, 32, 0, &queue, &copy, &sum_);
  };
  sum_ = 1;
  launch(queue_);
  ASSERT_TRUE(queue_.StartEach().ok());
  EXPECT_EQ(copy, 2);
  LaunchQueue plain;
  ASSERT_TRUE(plain
                  .Open(memory_.data() + Staging::kBytes, &staging_, nullptr,
                        /*overlaps=*/false)
                  .ok());
  launch(plain);
  ASSERT_TRUE(plain.StartAsGraph().ok());
  EXPECT_EQ(copy, 2 + 4);
  EXPECT_FALSE(plain.overlaps());
}

TEST_F(CudaLaunchQueueTest, ADriverMayRefuseGraphsThatOverlap) {
  DriverRefusals().graphs = true;
  sum_ = 1;
  for (const int64_t n_blocks : {1, 2}) {
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    TwiceInBlocks(n_blocks);
    ASSERT_TRUE(queue_.StartAsGraph().ok());
    EXPECT_FALSE(queue_.overlaps());
  }
  EXPECT_EQ(sum_, 4);
  EXPECT_EQ(queue_.counts().graphs_built, 1);
  EXPECT_EQ(queue_.counts().calls_updated, 1);
}

// Then all graphs are made anew at once, without overlap, and updated as others
// are.
TEST_F(CudaLaunchQueueTest, ADriverMayRefuseUpdatesOfGraphsThatOverlap) {
  DriverRefusals().updates = true;
  sum_ = 1;
  const auto step = [&](int64_t n_rows, int64_t n_blocks) {
    ASSERT_TRUE(queue_.BeginStep(n_rows).ok());
    TwiceInBlocks(n_blocks);
    ASSERT_TRUE(queue_.StartAsGraph().ok());
  };
  for (const int64_t n_rows : {1, 2}) step(n_rows, 1);
  EXPECT_TRUE(queue_.overlaps());
  for (const int64_t n_rows : {1, 2}) step(n_rows, 2);
  EXPECT_FALSE(queue_.overlaps());
  EXPECT_EQ(queue_.counts().graphs_built, 4);
  EXPECT_EQ(queue_.counts().calls_updated, 1);
  for (const int64_t n_rows : {1, 2}) step(n_rows, 3);
  EXPECT_EQ(queue_.counts().graphs_built, 4);
  EXPECT_EQ(queue_.counts().calls_updated, 3);
  EXPECT_EQ(sum_, 1 << 6);
}

TEST_F(CudaLaunchQueueTest, AKernelThatDoesNotWaitIsFatal) {
  EXPECT_DEATH(Launch(AddWithoutWaiting, {1}, 32, 0, &queue_, &sum_),
               "did not wait");
}

TEST_F(CudaLaunchQueueTest, ASpanOfOneAddressIsPutOnceInAStep) {
  std::vector<int64_t> table(100, 1);
  for (int64_t step = 0; step < 2; ++step) {
    table[0] = step;  // a step later the memory holds something else
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    const std::byte* first = *queue_.PutOnce(std::as_bytes(std::span(table)));
    EXPECT_NE(*queue_.Put(std::as_bytes(std::span(table))), first);
    EXPECT_EQ(*queue_.PutOnce(std::as_bytes(std::span(table))), first);
    EXPECT_NE(*queue_.PutOnce(std::as_bytes(std::span(table).first(50))),
              first);
    ASSERT_TRUE(queue_.StartEach().ok());
    EXPECT_EQ(*reinterpret_cast<const int64_t*>(first), step);
  }
}

TEST_F(CudaLaunchQueueTest, ListsOfAsManyRowsTakeTurns) {
  sum_ = 1;
  for (const int n_calls : {1, 2, 1, 2}) {
    ASSERT_TRUE(queue_.BeginStep(1).ok());
    for (int i = 0; i < n_calls; ++i) Twice();
    ASSERT_TRUE(queue_.StartAsGraph().ok());
  }
  EXPECT_EQ(sum_, 64);
  EXPECT_EQ(queue_.counts().graphs_built, 2);
}

TEST_F(CudaLaunchQueueTest, AStepThatDoesNotFitRunsWithoutAGraph) {
  const std::vector<int64_t> large(LaunchQueue::kStepBytes / 8 / 2, 1);
  ASSERT_TRUE(queue_.BeginStep(1).ok());
  Add({5});
  Add(large);
  EXPECT_TRUE(queue_.is_held());
  Add(large);
  EXPECT_FALSE(queue_.is_held());
  Twice();
  ASSERT_TRUE(queue_.StartAsGraph().ok());
  EXPECT_EQ(sum_, 2 * (5 + LaunchQueue::kStepBytes / 8));
  EXPECT_EQ(queue_.counts().graphs_built, 0);
  EXPECT_EQ(queue_.counts().call_launches, 2);

  ASSERT_TRUE(queue_.BeginStep(1).ok());
  sum_ = 0;
  for (size_t i = 0; i <= LaunchQueue::kMaxCalls; ++i) {
    Add({1});
    EXPECT_EQ(queue_.is_held(), i < LaunchQueue::kMaxCalls);
  }
  EXPECT_EQ(sum_, int64_t{LaunchQueue::kMaxCalls} + 1);
  EXPECT_EQ(queue_.counts().graphs_built, 0);
}

}  // namespace
}  // namespace plimsoll::kernels::cuda_emulated
