// Models that are loaded when calls ask for them, under a budget that has not
// room for all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "services/wire/errors.h"
#include "services/worker/models/expiry_thread.h"
#include "services/worker/models/worker_observer.h"
#include "tests/services/worker/worker_fixture.h"

namespace plimsoll::services {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Counts the loads that ended well.
class LoadCounter final : public WorkerObserver {
 public:
  void OnLoadEnd(const LoadRecord& load) override {
    absl::MutexLock lock(&mu_);
    if (load.status.ok()) ++n_loads_[load.model];
    note_ = load.note;
  }
  int n_loads(const std::string& model) {
    absl::MutexLock lock(&mu_);
    return n_loads_[model];
  }
  std::string note() {
    absl::MutexLock lock(&mu_);
    return note_;
  }

 private:
  absl::Mutex mu_;
  std::map<std::string, int> n_loads_;
  std::string note_;  // note of the last load
};

// The bytes of the plan of one of the two models, which have the same file.
int64_t BytesOfOne() {
  static const int64_t bytes = [] {
    TestWorker worker;
    EXPECT_TRUE(worker.Load("a").ok());
    return static_cast<int64_t>(worker.Describe("a").total_bytes());
  }();
  return bytes;
}

// What a test may choose of a worker that loads on demand.
struct DemandSetup {
  double share = 1.5;  // the memory, in units of one model's plan
  TestPlanner* planner = nullptr;
  std::function<void(WorkerOptions&)> change = [](WorkerOptions&) {};
};

class ModelDemandTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestWorker> NewWorker(const DemandSetup& setup) {
    const auto memory =
        static_cast<int64_t>(setup.share * static_cast<double>(BytesOfOne()));
    return std::make_unique<TestWorker>(
        TestWorkerSetup{.planner = setup.planner,
                        .device_memory = memory,
                        .change = [this, &setup](WorkerOptions& options) {
                          options.lazy = false;
                          options.on_demand = true;
                          options.load.n_ctx = 4'096;
                          options.observer = &loads_;
                          setup.change(options);
                        }});
  }

  static absl::StatusOr<v1::GenerateResponse> Generate(
      TestWorker& worker, const std::string& model) {
    grpc::ClientContext context;
    auto request = GreedyRequest<v1::GenerateRequest>("hello", 4);
    request.set_model(model);
    v1::GenerateResponse response;
    const absl::Status status =
        FromGrpc(worker.generation->Generate(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  static v1::ModelState StateOf(TestWorker& worker, const std::string& model) {
    return worker.Describe(model).state();
  }
  static void AwaitState(TestWorker& worker, const std::string& model,
                         v1::ModelState state) {
    while (StateOf(worker, model) != state) std::this_thread::yield();
  }

  LoadCounter loads_;
};

// A stream of `model` that runs until it is read to its end.
class OpenStream {
 public:
  OpenStream(TestWorker& worker, const std::string& model) {
    auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 2'000);
    request.set_model(model);
    // Wide messages fill the client's window soon, so that the stream waits.
    request.mutable_response()->set_top_logprobs(64);
    reader_ = worker.generation->StreamGenerate(&context_, request);
    v1::StreamGenerateResponse part;
    EXPECT_TRUE(reader_->Read(&part));
  }
  // Returns the number of tokens that came.
  uint32_t ReadToEnd() {
    v1::StreamGenerateResponse part;
    uint32_t n_tokens = 0;
    while (reader_->Read(&part)) {
      if (part.has_finish())
        n_tokens = part.finish().usage().generated_tokens();
    }
    EXPECT_TRUE(reader_->Finish().ok());
    return n_tokens;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::StreamGenerateResponse>> reader_;
};

TEST_F(ModelDemandTest, ACallLoadsItsModelAndUnloadsTheIdleOne) {
  const auto worker = NewWorker({});
  EXPECT_TRUE(Generate(*worker, "a").ok());
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  EXPECT_TRUE(Generate(*worker, "b").ok());
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_ABSENT);
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_READY);
  EXPECT_THAT(loads_.note(), HasSubstr("; a with "));
  EXPECT_THAT(loads_.note(), HasSubstr(" bytes was unloaded for it"));
  EXPECT_TRUE(Generate(*worker, "a").ok());
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_ABSENT);
}

TEST_F(ModelDemandTest, NothingIsUnloadedWhereBothFit) {
  const auto worker = NewWorker({.share = 2.1});
  EXPECT_TRUE(Generate(*worker, "a").ok());
  EXPECT_TRUE(Generate(*worker, "b").ok());
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_READY);
}

TEST_F(ModelDemandTest, LeasesFollowTheModels) {
  TestPlanner planner;
  const auto worker = NewWorker({.planner = &planner});
  for (const char* model : {"a", "b", "a"}) {
    ASSERT_TRUE(Generate(*worker, model).ok());
    ASSERT_EQ(planner.Leases().size(), 1u);
    EXPECT_EQ(planner.Leases().front().purpose(), model);
  }
}

TEST_F(ModelDemandTest, ManyCallsAreOneLoad) {
  const auto worker = NewWorker({});
  std::atomic<int> n_good = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back(
        [&] { n_good += Generate(*worker, "b").ok() ? 1 : 0; });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(n_good, 8);
  EXPECT_EQ(loads_.n_loads("b"), 1);
}

TEST_F(ModelDemandTest, CallsOfAllKindsLoadTheirModel) {
  const auto worker = NewWorker({.change = [](WorkerOptions& options) {
    options.chat_format = worker::ChatFormat::kChatMl;
  }});
  {
    grpc::ClientContext context;
    v1::TokenizeRequest request;
    request.set_model("a");
    request.set_text("hello");
    v1::TokenizeResponse response;
    EXPECT_TRUE(worker->tokenizer->Tokenize(&context, request, &response).ok());
    EXPECT_GT(response.ids_size(), 0);
  }
  {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    request.set_model("b");
    request.mutable_text()->set_text("hello");
    request.add_continuations()->set_text(" there");
    v1::ScoreResponse response;
    EXPECT_TRUE(worker->generation->Score(&context, request, &response).ok());
  }
  {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_model("a");
    v1::OpenSessionResponse response;
    EXPECT_TRUE(
        worker->sessions->OpenSession(&context, request, &response).ok());
    EXPECT_NE(response.session().session_id(), "");
  }
  EXPECT_EQ(loads_.n_loads("a"), 2);
  EXPECT_EQ(loads_.n_loads("b"), 1);
}

TEST_F(ModelDemandTest, AModelInUseGivesWayWhenItsCallsHaveEnded) {
  const auto worker = NewWorker({});
  OpenStream first(*worker, "a");
  std::thread other([&worker] { EXPECT_TRUE(Generate(*worker, "b").ok()); });
  AwaitState(*worker, "b", v1::MODEL_STATE_RESERVING);
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  // Nothing of the stream is lost.
  EXPECT_EQ(first.ReadToEnd(), 2'000u);
  other.join();
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_ABSENT);
}

TEST_F(ModelDemandTest, NewCallsOfAModelThatGivesWayHaveTheirTurnLater) {
  const auto worker = NewWorker({});
  OpenStream first(*worker, "a");
  std::thread other([&worker] { EXPECT_TRUE(Generate(*worker, "b").ok()); });
  AwaitState(*worker, "b", v1::MODEL_STATE_RESERVING);
  // Until "a" gives way, calls of it are answered at once.
  absl::Notification is_answered;
  while (true) {
    auto served = worker->registry->ServeOrLoad(
        "a", [&is_answered](absl::StatusOr<ServedModel> model) {
          EXPECT_TRUE(model.ok()) << model.status();
          is_answered.Notify();
        });
    ASSERT_TRUE(served.ok());
    if (!served->has_value()) break;
  }
  EXPECT_FALSE(is_answered.HasBeenNotified());
  first.ReadToEnd();
  other.join();
  is_answered.WaitForNotification();
  EXPECT_EQ(loads_.n_loads("a"), 2);
  EXPECT_EQ(loads_.n_loads("b"), 1);
}

TEST_F(ModelDemandTest, ALoadDoesNotWaitForEverForAModelInUse) {
  const auto worker = NewWorker({.change = [](WorkerOptions& options) {
    options.swap_wait = absl::Milliseconds(20);
  }});
  OpenStream first(*worker, "a");
  const absl::Status status = Generate(*worker, "b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(DetailsOf(status).retry_after.has_value());
  EXPECT_THAT(status.message(),
              HasSubstr("a, which would be unloaded for it, is still in use "
                        "after 20ms"));
  EXPECT_EQ(first.ReadToEnd(), 2'000u);
  EXPECT_TRUE(Generate(*worker, "a").ok());
  EXPECT_EQ(loads_.n_loads("a"), 1);
}

TEST_F(ModelDemandTest, APinnedModelIsLoadedAtTheStartAndStays) {
  const auto worker = NewWorker(
      {.change = [](WorkerOptions& options) { options.pinned = {"a"}; }});
  worker->registry->LoadAtStart();
  AwaitState(*worker, "a", v1::MODEL_STATE_READY);
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_ABSENT);
  const absl::Status status = Generate(*worker, "b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(" bytes are missing"), HasSubstr("a keeps "),
                    HasSubstr("it is pinned")));
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
}

TEST_F(ModelDemandTest, AnOpenSessionKeepsItsModel) {
  const auto worker = NewWorker({});
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  request.set_model("a");
  v1::OpenSessionResponse response;
  ASSERT_TRUE(worker->sessions->OpenSession(&context, request, &response).ok());
  const absl::Status status = Generate(*worker, "b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("1 of its sessions is open"));
  {
    grpc::ClientContext closing;
    v1::CloseSessionRequest close;
    close.set_model("a");
    close.set_session_id(response.session().session_id());
    v1::CloseSessionResponse closed;
    ASSERT_TRUE(worker->sessions->CloseSession(&closing, close, &closed).ok());
  }
  EXPECT_TRUE(Generate(*worker, "b").ok());
}

TEST_F(ModelDemandTest, WhatCanNeverFitIsRefusedAndNothingIsUnloaded) {
  const auto worker = NewWorker(
      {.change = [](WorkerOptions& options) { options.load.n_ctx = 1'024; }});
  ASSERT_TRUE(Generate(*worker, "a").ok());
  grpc::ClientContext context;
  v1::LoadModelRequest request;
  request.set_model("b");
  request.mutable_options()->set_n_ctx(4'096);
  request.mutable_options()->set_n_slots(64);
  const auto reader = worker->models->LoadModel(&context, request);
  v1::LoadModelResponse message;
  while (reader->Read(&message)) continue;
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("unloading 1 other model would give "),
                    HasSubstr(" would still be missing")));
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
}

TEST_F(ModelDemandTest, AModelThatNobodyUsesExpires) {
  const auto worker =
      NewWorker({.share = 2.1, .change = [](WorkerOptions& options) {
                   options.keep_alive = absl::Milliseconds(30);
                   options.pinned = {"b"};
                 }});
  ASSERT_TRUE(Generate(*worker, "b").ok());
  OpenStream stream(*worker, "a");
  const ExpiryThread expiry(*worker->registry, absl::Milliseconds(5));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  stream.ReadToEnd();
  AwaitState(*worker, "a", v1::MODEL_STATE_ABSENT);
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_READY);
}

TEST_F(ModelDemandTest, AKeepAliveHoldsUntilTheModelIsUnloaded) {
  const auto worker = NewWorker({});
  ModelRegistry& registry = *worker->registry;
  ASSERT_TRUE(Generate(*worker, "a").ok());
  registry.UnloadExpired();
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  ASSERT_TRUE(registry.SetKeepAlive("a", absl::ZeroDuration()).ok());
  worker->AwaitNothingHeld();
  while (StateOf(*worker, "a") != v1::MODEL_STATE_ABSENT) {
    registry.UnloadExpired();  // the call may leave a moment later
  }
  ASSERT_TRUE(Generate(*worker, "a").ok());
  registry.UnloadExpired();
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  EXPECT_EQ(registry.SetKeepAlive("nobody", absl::ZeroDuration()).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ModelDemandTest, ANewKeepAliveIsThatOfModelsWhichHadTheOldOne) {
  const auto worker = NewWorker({.share = 2.1});
  ModelRegistry& registry = *worker->registry;
  ASSERT_TRUE(Generate(*worker, "a").ok());
  ASSERT_TRUE(Generate(*worker, "b").ok());
  ASSERT_TRUE(registry.SetKeepAlive("b", absl::Seconds(9)).ok());
  registry.SetDefaultKeepAlive(absl::Seconds(5));
  const auto models = registry.List();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].keep_alive, absl::Seconds(5));
  EXPECT_EQ(models[1].keep_alive, absl::Seconds(9));
  registry.SetDefaultKeepAlive(absl::ZeroDuration());
  worker->AwaitNothingHeld();
  while (StateOf(*worker, "a") != v1::MODEL_STATE_ABSENT) {
    registry.UnloadExpired();  // the call may leave a moment later
  }
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_READY);
  ASSERT_TRUE(Generate(*worker, "a").ok());
  EXPECT_EQ(registry.List()[0].keep_alive, absl::ZeroDuration());
}

TEST_F(ModelDemandTest, WhichModelsArePinnedMayChange) {
  const auto worker = NewWorker(
      {.change = [](WorkerOptions& options) { options.pinned = {"a"}; }});
  worker->registry->LoadAtStart();
  AwaitState(*worker, "a", v1::MODEL_STATE_READY);
  EXPECT_FALSE(Generate(*worker, "b").ok());
  worker->registry->SetPinned({"b"});
  EXPECT_EQ(StateOf(*worker, "b"), v1::MODEL_STATE_ABSENT);
  ASSERT_TRUE(Generate(*worker, "b").ok());
  EXPECT_FALSE(Generate(*worker, "a").ok());
}

TEST_F(ModelDemandTest, ModelsMayBeAdded) {
  const auto worker = NewWorker({});
  const std::string file = worker->file.path();
  ASSERT_TRUE(Generate(*worker, "a").ok());
  EXPECT_EQ(Generate(*worker, "c").status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(
      worker->registry->AddModels({{"a", file}, {"b", file}, {"c", file}})
          .ok());
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
  ASSERT_TRUE(Generate(*worker, "c").ok());
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_ABSENT);
  EXPECT_TRUE(Generate(*worker, "a").ok());
}

TEST_F(ModelDemandTest, ModelsMayNotGoNorChangeTheirFile) {
  const auto worker = NewWorker({});
  const std::string file = worker->file.path();
  ModelRegistry& registry = *worker->registry;
  EXPECT_THAT(registry.AddModels({{"a", file}, {"c", file}}).message(),
              HasSubstr("a model is gone"));
  EXPECT_THAT(
      registry.AddModels({{"c", file}, {"a", file}, {"b", "other.gguf"}})
          .message(),
      HasSubstr("model b has another file"));
  EXPECT_THAT(
      registry.AddModels({{"a", file}, {"b", file, std::string(64, '0')}})
          .message(),
      HasSubstr("model b has another digest"));
  EXPECT_EQ(registry.List().size(), 2u);
  registry.UnloadAll();
  EXPECT_EQ(registry.AddModels({{"a", file}, {"b", file}, {"c", file}}).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ModelDemandTest, SoManyCallsMayWaitAndNoMore) {
  const auto worker = NewWorker({});
  ModelRegistry& registry = *worker->registry;
  OpenStream first(*worker, "a");
  std::atomic<size_t> n_served = 0;
  const auto call = [&] {
    return registry.ServeOrLoad("b",
                                [&n_served](absl::StatusOr<ServedModel> model) {
                                  EXPECT_TRUE(model.ok()) << model.status();
                                  ++n_served;
                                });
  };
  for (size_t i = 0; i < ModelRegistry::kMaxAwaiting; ++i) {
    auto served = call();
    // The stream's own call counts until its thread goes on.
    while (absl::IsResourceExhausted(served.status())) {
      std::this_thread::yield();
      served = call();
    }
    ASSERT_TRUE(served.ok()) << served.status();
    ASSERT_FALSE(served->has_value());
  }
  const absl::Status status = call().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_QUEUE_FULL);
  first.ReadToEnd();
  while (n_served < ModelRegistry::kMaxAwaiting) std::this_thread::yield();
  EXPECT_TRUE(Generate(*worker, "b").ok());
}

TEST_F(ModelDemandTest, CallsThatWaitAreToldOfAShutdown) {
  const auto worker = NewWorker({});
  ModelRegistry& registry = *worker->registry;
  OpenStream first(*worker, "a");
  absl::Notification is_told;
  const auto served =
      registry.ServeOrLoad("b", [&is_told](absl::StatusOr<ServedModel> model) {
        EXPECT_EQ(model.status().code(), absl::StatusCode::kUnavailable);
        is_told.Notify();
      });
  ASSERT_TRUE(served.ok());
  registry.AbortAll();
  is_told.WaitForNotification();
  registry.UnloadAll();
  EXPECT_EQ(Generate(*worker, "b").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ModelDemandTest, ABrokenFileIsTheErrorOfItsCalls) {
  const plimsoll::testing::TemporaryFile broken(std::vector<std::byte>(64));
  const auto worker = NewWorker({.change = [&broken](WorkerOptions& options) {
    options.models[1].path = broken.path();
  }});
  ASSERT_TRUE(Generate(*worker, "a").ok());
  EXPECT_FALSE(Generate(*worker, "b").ok());
  EXPECT_EQ(StateOf(*worker, "a"), v1::MODEL_STATE_READY);
}

TEST(ModelDemandOffTest, ACallForAModelThatIsNotLoadedIsRefused) {
  TestWorker worker;
  grpc::ClientContext context;
  v1::GenerateResponse response;
  const grpc::Status status = worker.generation->Generate(
      &context, GreedyRequest<v1::GenerateRequest>("hello", 4), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(ModelDemandOffTest, ModelsOfTheStartCannotBeAddedLater) {
  TestWorker worker(
      {.change = [](WorkerOptions& options) { options.lazy = false; }});
  const std::string file = worker.file.path();
  EXPECT_EQ(worker.registry->AddModels({{"a", file}, {"b", file}, {"c", file}})
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace plimsoll::services
