// What becomes of a model if there is no memory to begin its load or its end.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "tests/failing_new.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FailEachAllocation;

// Knows how a load has ended.
class EndWatcher final : public LoadWatcher {
 public:
  void OnProgress(const LoadReport&) override {}
  void OnLoadEnd(const absl::Status& status) override {
    EXPECT_TRUE(status.ok()) << status;
    end_.Notify();
  }
  void AwaitEnd() { end_.WaitForNotification(); }

 private:
  absl::Notification end_;
};

// Expects a model whose change got no memory to be as it was.
auto ExpectState(TestWorker& worker, v1::ModelState state) {
  return [&worker, state](bool has_failed) {
    if (has_failed) {
      EXPECT_EQ(worker.Describe("a").state(), state);
    }
  };
}

TEST(ModelMemoryTest, ALoadThatCannotBeginLeavesItsModelAsItWas) {
  TestWorker worker;
  const auto watcher = std::make_shared<EndWatcher>();
  ModelRegistry& registry = *worker.registry;
  const int64_t n_failed = FailEachAllocation(
      [&] {
        EXPECT_TRUE(registry.Load("a", registry.load_defaults(), watcher).ok());
      },
      ExpectState(worker, v1::MODEL_STATE_ABSENT));
  EXPECT_GT(n_failed, 1);
  watcher->AwaitEnd();
}

TEST(ModelMemoryTest, AnUnloadThatGetsNoMemoryCanBeAskedForAgain) {
  std::string told;
  absl::Notification is_done;
  TestWorker worker;
  ASSERT_TRUE(worker.Load("a").ok());
  worker.registry->SetReadyListener(
      [&told](bool) { told += "a text that takes memory"; });
  const int64_t n_failed = FailEachAllocation(
      [&] {
        const auto done = [&is_done] { is_done.Notify(); };
        EXPECT_TRUE(worker.registry->Unload("a", done).ok());
      },
      [](bool) {});
  EXPECT_GT(n_failed, 1);
  is_done.WaitForNotification();
  EXPECT_EQ(worker.Describe("a").state(), v1::MODEL_STATE_ABSENT);
}

// A call that waited all the same would keep the worker from its end.
TEST(ModelMemoryTest, ACallWhoseLoadCannotBeginDoesNotWaitForIt) {
  TestWorker worker(
      {.change = [](WorkerOptions& options) { options.on_demand = true; }});
  absl::Notification is_served;
  const int64_t n_failed = FailEachAllocation(
      [&] {
        const auto then = [&is_served](absl::StatusOr<ServedModel> model) {
          EXPECT_TRUE(model.ok()) << model.status();
          is_served.Notify();
        };
        EXPECT_TRUE(worker.registry->ServeOrLoad("a", then).ok());
      },
      ExpectState(worker, v1::MODEL_STATE_ABSENT));
  EXPECT_GT(n_failed, 1);
  is_served.WaitForNotification();
}

}  // namespace
}  // namespace plimsoll::services
