// What a worker tells of steps, requests, loads and leases.
#include "services/worker/models/worker_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;

class RecordingObserver final : public WorkerObserver {
 public:
  struct Seen {
    std::vector<worker::StepRecord> steps;
    std::vector<worker::RequestRecord> requests;
    std::vector<LoadRecord> loads;
    std::vector<std::string> unloads;
    std::vector<LeaseRecord> leases;
  };

  void OnStep(const std::string& model,
              const worker::StepRecord& step) override {
    absl::MutexLock lock(&mu_);
    EXPECT_EQ(model, "a");
    seen_.steps.push_back(step);
  }
  void OnRequestEnd(const std::string& model,
                    const worker::RequestRecord& request) override {
    absl::MutexLock lock(&mu_);
    EXPECT_EQ(model, "a");
    seen_.requests.push_back(request);
  }
  void OnLoadEnd(const LoadRecord& load) override {
    absl::MutexLock lock(&mu_);
    seen_.loads.push_back(load);
  }
  void OnUnload(const std::string& model) override {
    absl::MutexLock lock(&mu_);
    seen_.unloads.push_back(model);
  }
  void OnLease(const LeaseRecord& lease) override {
    absl::MutexLock lock(&mu_);
    seen_.leases.push_back(lease);
  }

  Seen seen() const {
    absl::MutexLock lock(&mu_);
    return seen_;
  }

 private:
  mutable absl::Mutex mu_;
  Seen seen_ ABSL_GUARDED_BY(mu_);
};

// A worker whose events are recorded. `setup` changes no options.
struct Observed {
  explicit Observed(TestWorkerSetup setup)
      : worker(WithObserver(std::move(setup))) {}

  TestWorkerSetup WithObserver(TestWorkerSetup setup) {
    setup.change = [this](WorkerOptions& options) {
      options.observer = &observer;
    };
    return setup;
  }

  RecordingObserver observer;  // outlives the worker
  TestWorker worker;
};

TEST(WorkerObserverTest, HearsOfAModelsLoadAndOfItsEnd) {
  TestPlanner planner;
  Observed observed({.planner = &planner});
  ASSERT_TRUE(observed.worker.Load("a").ok());
  const int64_t bytes =
      static_cast<int64_t>(observed.worker.Describe("a").total_bytes());
  ASSERT_TRUE(observed.worker.Unload("a").ok());
  const RecordingObserver::Seen seen = observed.observer.seen();
  ASSERT_EQ(seen.loads.size(), 1u);
  EXPECT_EQ(seen.loads[0].model, "a");
  EXPECT_TRUE(seen.loads[0].status.ok());
  EXPECT_EQ(seen.loads[0].total_bytes, bytes);
  EXPECT_GT(seen.loads[0].time, absl::ZeroDuration());
  EXPECT_THAT(seen.unloads, ElementsAre("a"));
  ASSERT_EQ(seen.leases.size(), 2u);
  EXPECT_EQ(seen.leases[0].event, LeaseEvent::kGranted);
  EXPECT_EQ(seen.leases[1].event, LeaseEvent::kReleased);
  for (const LeaseRecord& lease : seen.leases) {
    EXPECT_EQ(lease.purpose, "a");
    EXPECT_EQ(lease.device_id, "test/cpu");
    EXPECT_EQ(lease.bytes, bytes);
  }
}

TEST(WorkerObserverTest, HearsOfAReleaseThatThePlannerLearnsOfLater) {
  TestPlanner planner;
  Observed observed({.planner = &planner});
  ASSERT_TRUE(observed.worker.Load("a").ok());
  const std::string address = planner.server->address();
  planner.server.reset();
  ASSERT_TRUE(observed.worker.Unload("a").ok());
  ASSERT_EQ(observed.observer.seen().leases.size(), 1u);
  CallGate gate;
  const auto service = NewPlannerService({.planner = planner.planner,
                                          .ledger = planner.ledger,
                                          .gate = gate,
                                          .pool = *planner.pool});
  const auto server = Server::Start({.listen = address}, {service.get()}, gate);
  ASSERT_TRUE(server.ok()) << server.status();
  while (observed.observer.seen().leases.size() < 2) std::this_thread::yield();
  EXPECT_EQ(observed.observer.seen().leases[1].event, LeaseEvent::kReleased);
}

TEST(WorkerObserverTest, HearsWhyALoadFailed) {
  Observed observed({.device_memory = 1'000'000});
  ASSERT_FALSE(observed.worker.Load("a").ok());
  const RecordingObserver::Seen seen = observed.observer.seen();
  ASSERT_EQ(seen.loads.size(), 1u);
  EXPECT_EQ(seen.loads[0].status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(seen.loads[0].total_bytes, 0);
}

TEST(WorkerObserverTest, HearsOfEveryStepAndOfTheRequestsEnd) {
  Observed observed(TestWorkerSetup{});
  ASSERT_TRUE(observed.worker.Load("a").ok());
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "mine");
  context.AddMetadata("x-tenant", "blue");
  v1::GenerateResponse response;
  ASSERT_TRUE(observed.worker.generation
                  ->Generate(&context,
                             GreedyRequest<v1::GenerateRequest>("hello", 5),
                             &response)
                  .ok());
  // The engine tells it after the reply, and ends with the unload.
  ASSERT_TRUE(observed.worker.Unload("a").ok());
  const RecordingObserver::Seen seen = observed.observer.seen();
  ASSERT_EQ(seen.requests.size(), 1u);
  EXPECT_EQ(seen.requests[0].request_id, "mine");
  EXPECT_EQ(seen.requests[0].tenant, "blue");
  EXPECT_TRUE(seen.requests[0].status.ok());
  EXPECT_EQ(seen.requests[0].info.n_generated, 5);
  EXPECT_EQ(seen.requests[0].info.n_prompt, response.prompt_ids_size());
  int64_t n_prompt_rows = 0;
  int64_t n_decode_rows = 0;
  for (const worker::StepRecord& step : seen.steps) {
    EXPECT_EQ(step.n_sequences, 1);
    n_prompt_rows += step.n_prompt_rows;
    n_decode_rows += step.n_decode_rows;
  }
  EXPECT_EQ(n_prompt_rows, response.prompt_ids_size());
  EXPECT_EQ(n_decode_rows, 4);  // the fifth token's row is never computed
}

}  // namespace
}  // namespace plimsoll::services
