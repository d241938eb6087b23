#include "services/worker/models/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/wire/errors.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/worker/worker_fixture.h"
#include "tests/worker/device/hooked_device.h"
#include "tests/worker/engine/hanging_operation.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::HangingOperation;
using ::plimsoll::testing::HookedDevice;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

TEST(ModelRegistryTest, ALoadReportsItsPlanOnceAndEndsReady) {
  TestWorker worker;
  std::vector<v1::LoadModelResponse> messages;
  ASSERT_TRUE(worker.LoadWithMessages("a", 4'096, messages).ok());
  int plans = 0;
  for (const auto& message : messages) plans += message.has_plan() ? 1 : 0;
  EXPECT_EQ(plans, 1);
  ASSERT_FALSE(messages.empty());
  EXPECT_EQ(messages.back().model().state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(messages.back().model().n_ctx(), 4'096u);
  EXPECT_EQ(messages.back().model().n_slots(), 2u);
}

TEST(ModelRegistryTest, ManyLoadsAreOneAndAllAreAnswered) {
  TestPlanner planner;
  TestWorker worker({.planner = &planner});
  std::atomic<int> ready = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      std::vector<v1::LoadModelResponse> messages;
      if (worker.LoadWithMessages("a", 4'096, messages).ok() &&
          !messages.empty() &&
          messages.back().model().state() == v1::MODEL_STATE_READY) {
        ++ready;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(ready, 8);
  EXPECT_EQ(planner.Leases().size(), 1u);
}

TEST(ModelRegistryTest, ALeaseIsConfirmedWhileLoadedAndGoneAfterwards) {
  TestPlanner planner;
  TestWorker worker({.planner = &planner});
  ASSERT_TRUE(worker.Load("a").ok());
  ASSERT_EQ(planner.Leases().size(), 1u);
  const v1::Lease lease = planner.Leases().front();
  EXPECT_EQ(lease.state(), v1::LEASE_STATE_CONFIRMED);
  EXPECT_EQ(lease.bytes(), worker.Describe("a").total_bytes());
  EXPECT_EQ(lease.purpose(), "a");
  EXPECT_LE(lease.measured_bytes(), lease.bytes());
  ASSERT_TRUE(worker.Unload("a").ok());
  EXPECT_TRUE(planner.Leases().empty());
  EXPECT_EQ(worker.Describe("a").state(), v1::MODEL_STATE_ABSENT);
}

TEST(ModelRegistryTest, AnArchitectureThatCannotRunIsSaidBeforeAnythingElse) {
  const std::string path = ::testing::TempDir() + "planned_only.gguf";
  std::ofstream(path, std::ios::binary)
      << planner::PlannedOnlyBuilder().Build();
  TestPlanner planner;
  for (TestPlanner* with : {&planner, static_cast<TestPlanner*>(nullptr)}) {
    // The model would not fit either.
    TestWorker worker({.planner = with,
                       .device_memory = 1'000,
                       .change = [&](WorkerOptions& options) {
                         options.models[0].path = path;
                       }});
    const grpc::Status status = worker.Load("a");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr("architecture \"qwen2\""));
    EXPECT_NE(worker.Describe("a").state(), v1::MODEL_STATE_READY);
    EXPECT_TRUE(planner.Leases().empty());
  }
}

TEST(ModelRegistryTest, WhatDoesNotFitIsRefusedWithItsNumbers) {
  TestPlanner planner;
  for (TestPlanner* with : {&planner, static_cast<TestPlanner*>(nullptr)}) {
    TestWorker worker({.planner = with, .device_memory = 1'000'000});
    const absl::Status status = FromGrpc(worker.Load("a"));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    const ErrorDetails details = DetailsOf(status);
    EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
    for (const char* key :
         {"wanted_bytes", "available_bytes", "missing_bytes"}) {
      EXPECT_THAT(details.metadata, Contains(Key(key)));
    }
    EXPECT_NE(worker.Describe("a").last_error(), "");
  }
  EXPECT_TRUE(planner.Leases().empty());
}

TEST(ModelRegistryTest, AnUnloadEndsRunningStreams) {
  TestWorker worker;
  ASSERT_TRUE(worker.Load("a").ok());
  grpc::ClientContext context;
  auto request = GreedyRequest<v1::StreamGenerateRequest>("hello", 0);
  request.mutable_response()->set_top_logprobs(64);
  const auto reader = worker.generation->StreamGenerate(&context, request);
  v1::StreamGenerateResponse part;
  ASSERT_TRUE(reader->Read(&part));
  ASSERT_TRUE(worker.Unload("a").ok());
  bool is_finished = false;
  while (reader->Read(&part)) is_finished = part.has_finish();
  EXPECT_FALSE(is_finished);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ModelRegistryTest, AnUnloadDuringALoadEndsIt) {
  TestPlanner planner;
  HangingOperation operation;
  const HookedDevice device({.before = [&] { return operation.Pass(); }});
  TestWorker worker(
      {.planner = &planner, .change = [&](WorkerOptions& options) {
         options.devices = {
             DeviceOf(device, "test/device", /*memory_bytes=*/std::nullopt)};
       }});
  operation.Hang();
  grpc::Status loaded;
  std::thread caller([&] { loaded = worker.Load("a"); });
  operation.AwaitHang();  // with its lease, and most of its work before it
  EXPECT_EQ(worker.Describe("a").state(), v1::MODEL_STATE_LOADING);
  EXPECT_EQ(planner.Leases().size(), 1u);
  absl::Notification unloaded;
  ASSERT_TRUE(worker.registry->Unload("a", [&] { unloaded.Notify(); }).ok());
  EXPECT_FALSE(unloaded.HasBeenNotified());
  EXPECT_EQ(worker.Load("a").error_code(), grpc::StatusCode::UNAVAILABLE);
  operation.GoOn();
  unloaded.WaitForNotification();
  caller.join();
  EXPECT_EQ(loaded.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(loaded.error_message(), HasSubstr("ended by an unload"));
  EXPECT_EQ(worker.Describe("a").state(), v1::MODEL_STATE_ABSENT);
  EXPECT_TRUE(planner.Leases().empty());
  EXPECT_TRUE(worker.Load("a").ok());
}

TEST(ModelRegistryTest, UnloadingWhatIsAbsentIsNoError) {
  TestWorker worker;
  EXPECT_TRUE(worker.Unload("a").ok());
  EXPECT_EQ(worker.Unload("nobody").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(ModelRegistryTest, LoadsAndUnloadsInAnyOrderEndAbsent) {
  TestPlanner planner;
  TestWorker worker({.planner = &planner});
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&worker, i] {
      const std::string model = i % 2 == 0 ? "a" : "b";
      for (int round = 0; round < 4; ++round) {
        worker.Load(model).ok();
        worker.Unload(model).ok();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(worker.Unload("a").ok());
  EXPECT_TRUE(worker.Unload("b").ok());
  EXPECT_TRUE(planner.Leases().empty());
}

TEST(ModelRegistryTest, ADestroyedWorkerGivesItsLeasesBack) {
  TestPlanner planner;
  {
    TestWorker worker({.planner = &planner});
    ASSERT_TRUE(worker.Load("a").ok());
    ASSERT_TRUE(worker.Load("b").ok());
    EXPECT_EQ(planner.Leases().size(), 2u);
  }
  EXPECT_TRUE(planner.Leases().empty());
}

TEST(ModelRegistryTest, MemoryTakenAfterTheGrantFailsTheLoadAndFreesTheLease) {
  constexpr int64_t kFreeBytes = 1'000;
  TestPlanner planner;
  std::atomic<bool> others_leave = false;
  TestWorker worker(
      {.planner = &planner, .change = [&](WorkerOptions& options) {
         WorkerDevice& device = options.devices.front();
         device.profile = [&, whole = device.profile] {
           planner::DeviceProfile profile = whole();
           const bool is_granted = !planner.Leases().empty();
           if (is_granted && !others_leave) profile.free_bytes = kFreeBytes;
           return profile;
         };
       }});
  const grpc::Status refused = worker.Load("a");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("but the device has 1000 bytes free"));
  EXPECT_TRUE(planner.Leases().empty());
  others_leave = true;
  EXPECT_TRUE(worker.Load("a").ok());
}

TEST(ModelRegistryTest, ALeaseIsReleasedOnceThePlannerIsBack) {
  TestPlanner planner;
  TestWorker worker({.planner = &planner});
  ASSERT_TRUE(worker.Load("a").ok());
  const std::string address = planner.server->address();
  planner.server.reset();
  ASSERT_TRUE(worker.Unload("a").ok());
  const auto held = [&planner] {
    v1::ListLeasesResponse response;
    EXPECT_TRUE(planner.ledger.ListLeases({}, response).ok());
    return response.leases_size();
  };
  EXPECT_EQ(held(), 1);
  CallGate gate;
  const auto service = NewPlannerService({.planner = planner.planner,
                                          .ledger = planner.ledger,
                                          .gate = gate,
                                          .pool = *planner.pool});
  const auto server = Server::Start({.listen = address}, {service.get()}, gate);
  ASSERT_TRUE(server.ok()) << server.status();
  while (held() > 0) std::this_thread::yield();
}

TEST(ModelRegistryTest, ALoadedModelIsPresentedToAPlannerThatForgotIt) {
  TestPlanner planner;
  TestWorker worker({.planner = &planner});
  ASSERT_TRUE(worker.Load("a").ok());
  const std::string address = planner.server->address();
  const v1::Lease lease = planner.Leases().front();
  planner.server.reset();
  Ledger ledger(LedgerOptions{
      .clock = BootTime, .is_first = false, .first_epoch = 1'000});
  Planner second({}, ledger);
  CallGate gate;
  const auto service = NewPlannerService({.planner = second,
                                          .ledger = ledger,
                                          .gate = gate,
                                          .pool = *planner.pool});
  const auto server = Server::Start({.listen = address}, {service.get()}, gate);
  ASSERT_TRUE(server.ok()) << server.status();
  v1::ListLeasesResponse response;
  while (response.leases_size() == 0) {
    std::this_thread::yield();
    ASSERT_TRUE(ledger.ListLeases({}, response).ok());
  }
  EXPECT_EQ(response.leases(0).id(), lease.id());
  EXPECT_EQ(response.leases(0).epoch(), lease.epoch());
  EXPECT_EQ(response.leases(0).state(), v1::LEASE_STATE_CONFIRMED);
}

TEST(ModelRegistryTest, AWorkerServesOnWithoutItsPlanner) {
  auto planner = std::make_unique<TestPlanner>();
  TestWorker worker({.planner = planner.get()});
  ASSERT_TRUE(worker.Load("a").ok());
  planner.reset();
  grpc::ClientContext context;
  v1::GenerateResponse response;
  EXPECT_TRUE(worker.generation
                  ->Generate(&context,
                             GreedyRequest<v1::GenerateRequest>("hello", 3),
                             &response)
                  .ok());
  const absl::Status status = FromGrpc(worker.Load("b"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_PLANNER_UNAVAILABLE);
  EXPECT_TRUE(DetailsOf(status).retry_after.has_value());
}

TEST(ModelRegistryTest, AnOmittedContextIsTheLargestThatFits) {
  TestWorker worker;
  grpc::ClientContext context;
  v1::LoadModelRequest request;
  request.set_model("a");
  const auto reader = worker.models->LoadModel(&context, request);
  v1::LoadModelResponse message;
  uint32_t n_ctx = 0;
  while (reader->Read(&message)) {
    if (message.has_plan()) n_ctx = message.plan().n_ctx();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(n_ctx, plimsoll::testing::kRandomContext);
}

TEST(ModelRegistryTest, MemoryIsThePlanBesideWhatWasMeasured) {
  TestWorker worker;
  ASSERT_TRUE(worker.Load("a").ok());
  grpc::ClientContext context;
  v1::GetMemoryRequest request;
  request.set_model("a");
  v1::GetMemoryResponse response;
  ASSERT_TRUE(worker.models->GetMemory(&context, request, &response).ok());
  EXPECT_EQ(response.measured().planned_bytes(),
            response.measured().allocated_bytes());
  EXPECT_GE(response.measured().allocated_bytes(),
            response.plan().arena_bytes());
  uint64_t in_arena = 0;
  for (const auto& region : response.plan().regions()) {
    if (region.has_offset()) in_arena += region.bytes();
  }
  EXPECT_LE(in_arena, response.plan().arena_bytes());
  EXPECT_GT(response.rss_bytes(), 0u);
}

TEST(ModelRegistryTest, AnEmptyNameNeedsASingleModel) {
  TestWorker worker;
  EXPECT_EQ(worker.Load("").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(ModelRegistryTest, ReadinessFollowsTheModels) {
  TestWorker worker;
  std::vector<bool> heard;
  worker.registry->SetReadyListener(
      [&](bool ready) { heard.push_back(ready); });
  EXPECT_EQ(heard, std::vector<bool>{true});  // lazy: ready without a model
  worker.registry->UnloadAll();
  EXPECT_FALSE(heard.back());
  worker.registry->SetReadyListener(nullptr);
}

}  // namespace
}  // namespace plimsoll::services
