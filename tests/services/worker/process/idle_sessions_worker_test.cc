// A worker that has bytes for idle sessions: plans, with a planner and without
// one, what clients are told, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/layout/kv_cache_bytes.h"
#include "tests/services/worker/worker_fixture.h"
#include "worker/device/model_file.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FindRandomModel;
using ::testing::HasSubstr;

class IdleSessionsWorkerTest : public ::testing::TestWithParam<bool> {
 protected:
  // A worker whose --idle-session-bytes is `bytes`.
  void Start(std::optional<int64_t> bytes) {
    worker_.emplace(TestWorkerSetup{.planner = GetParam() ? &planner_ : nullptr,
                                    .model = FindRandomModel("lfm2_q8_0"),
                                    .change = [bytes](WorkerOptions& options) {
                                      options.load.idle_session_bytes = bytes;
                                    }});
    const auto opened = worker::ModelFile::Open(worker_->file.path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto slot =
        planner::KvCacheBytes((*opened)->shape(), {.n_ctx = 4'096});
    ASSERT_TRUE(slot.ok()) << slot.status();
    place_ = slot->PlaceBytes();
  }

  grpc::Status Load(const v1::LoadOptions& options) {
    grpc::ClientContext context;
    v1::LoadModelRequest request;
    request.set_model("a");
    *request.mutable_options() = options;
    const auto reader = worker_->models->LoadModel(&context, request);
    v1::LoadModelResponse message;
    while (reader->Read(&message)) {
    }
    return reader->Finish();
  }

  // Expects the loaded model to have so many places, in the plan and in memory.
  void ExpectPlaces(int64_t n) {
    grpc::ClientContext context;
    v1::GetMemoryRequest request;
    request.set_model("a");
    v1::GetMemoryResponse memory;
    ASSERT_TRUE(worker_->models->GetMemory(&context, request, &memory).ok());
    const v1::MemoryPlan& plan = memory.plan();
    EXPECT_EQ(plan.options().n_idle_sessions(), n);
    EXPECT_FALSE(plan.options().has_idle_session_bytes());
    EXPECT_EQ(static_cast<int64_t>(plan.idle_session_bytes()), n * place_);
    EXPECT_EQ(memory.measured().planned_bytes(),
              memory.measured().allocated_bytes());
    EXPECT_GE(memory.measured().planned_bytes(), plan.arena_bytes());
  }

  TestPlanner planner_;
  std::optional<TestWorker> worker_;
  int64_t place_ = 0;
};

TEST_P(IdleSessionsWorkerTest, ARequestsBytesBecomePlaces) {
  Start(std::nullopt);
  v1::LoadOptions options;
  options.set_idle_session_bytes(static_cast<uint64_t>(4 * place_ - 1));
  grpc::Status status = Load(options);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectPlaces(3);
  ASSERT_TRUE(worker_->Unload("a").ok());
  options.set_idle_session_bytes(static_cast<uint64_t>(4 * place_));
  status = Load(options);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectPlaces(4);
}

TEST_P(IdleSessionsWorkerTest, ARequestsNumberGoesBeforeTheFlagsBytes) {
  Start(1 << 20);
  ASSERT_TRUE(Load({}).ok());
  ExpectPlaces((1 << 20) / place_);
  ASSERT_TRUE(worker_->Unload("a").ok());
  v1::LoadOptions options;
  options.set_n_idle_sessions(2);
  ASSERT_TRUE(Load(options).ok());
  ExpectPlaces(2);
}

TEST_P(IdleSessionsWorkerTest, BytesThatHoldNoPlaceAreRefused) {
  Start(std::nullopt);
  v1::LoadOptions options;
  options.set_idle_session_bytes(static_cast<uint64_t>(place_ - 1));
  grpc::Status status = Load(options);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr(absl::StrCat("take ", place_, ";")));
  options.set_n_idle_sessions(1);
  status = Load(options);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("beside n_idle_sessions"));
}

INSTANTIATE_TEST_SUITE_P(, IdleSessionsWorkerTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Planner" : "Alone";
                         });

}  // namespace
}  // namespace plimsoll::services
