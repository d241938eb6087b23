#include "services/planner/what_if_queries.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/planner/planner_service.h"
#include "services/server/server.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/planner/deep_source.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr int64_t kGiB = int64_t{1} << 30;

Planner::Models TinyModels() {
  const std::string file = planner::BuilderOf(planner::TinyModel()).Build();
  Planner::Models models;
  models["tiny"] = std::make_shared<const planner::ModelShape>(
      *planner::ShapeFromGguf(*planner::Parse(file)));
  return models;
}

v1::PlanRequest TinyPlan(uint64_t budget_bytes) {
  v1::PlanRequest request;
  request.mutable_source()->set_model("tiny");
  request.set_budget_bytes(budget_bytes);
  return request;
}

v1::WhatIfRequest TinyGrid(int n_points) {
  v1::WhatIfRequest request;
  request.mutable_source()->set_model("tiny");
  request.add_devices()->set_budget_bytes(kGiB);
  for (int i = 0; i < n_points; ++i) {
    request.add_n_ctx(static_cast<uint32_t>(i % 256));
  }
  return request;
}

// The planner behind a real socket.
class WhatIfQueriesTest : public ::testing::Test {
 protected:
  WhatIfQueriesTest()
      : ledger_([] { return absl::UnixEpoch(); }),
        planner_(TinyModels(), ledger_),
        pool_(*WorkPool::Start()),
        service_(NewPlannerService({.planner = planner_,
                                    .ledger = ledger_,
                                    .gate = gate_,
                                    .pool = *pool_})),
        server_(*Server::Start(ServerOptions{}, {service_.get()}, gate_)),
        stub_(v1::PlannerService::NewStub(grpc::CreateChannel(
            server_->address(), grpc::InsecureChannelCredentials()))) {}
  ~WhatIfQueriesTest() override {
    server_->Drain([] {});
  }

  // Everything that a call answers.
  absl::Status Ask(const v1::WhatIfRequest& request,
                   std::vector<v1::WhatIfResponse>& messages) {
    grpc::ClientContext context;
    const auto reader = stub_->WhatIf(&context, request);
    v1::WhatIfResponse message;
    while (reader->Read(&message)) messages.push_back(message);
    return FromGrpc(reader->Finish());
  }
  absl::Status StatusOf(const v1::WhatIfRequest& request) {
    std::vector<v1::WhatIfResponse> messages;
    return Ask(request, messages);
  }

  CallGate gate_;
  Ledger ledger_;
  Planner planner_;
  const std::unique_ptr<WorkPool> pool_;
  const std::unique_ptr<grpc::Service> service_;
  const std::unique_ptr<Server> server_;
  const std::unique_ptr<v1::PlannerService::Stub> stub_;
};

TEST_F(WhatIfQueriesTest, StreamsEveryPointInOrderThenTheFrontier) {
  v1::WhatIfRequest request = TinyGrid(1'100);
  std::vector<v1::WhatIfResponse> messages;
  ASSERT_TRUE(Ask(request, messages).ok());
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].n_points(), 1'100u);
  EXPECT_EQ(messages[0].points_size(), 512);
  EXPECT_EQ(messages[1].points_size(), 512);
  EXPECT_EQ(messages[2].points_size(), 76);
  EXPECT_EQ(messages[3].points_size(), 0);
  for (size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(messages[m].has_n_points(), m == 0);
    EXPECT_EQ(messages[m].frontier_size(), 0);
    for (int i = 0; i < messages[m].points_size(); ++i) {
      const int index = static_cast<int>(m) * 512 + i;
      ASSERT_EQ(messages[m].points(i).wanted_ctx(), request.n_ctx(index));
    }
  }
  ASSERT_GT(messages[3].frontier_size(), 0);
  for (uint32_t index : messages[3].frontier()) EXPECT_LT(index, 1'100u);
}

TEST_F(WhatIfQueriesTest, APointIsWhatPlanReplies) {
  v1::WhatIfRequest request = TinyGrid(0);
  request.add_n_ctx(64);
  request.add_n_slots(3);
  request.add_n_ubatch(32);
  request.add_kv_types()->set_k_type(v1::ELEMENT_TYPE_F32);
  request.mutable_options()->set_margin_bytes(1'000);
  std::vector<v1::WhatIfResponse> messages;
  ASSERT_TRUE(Ask(request, messages).ok());
  ASSERT_EQ(messages[0].points_size(), 1);
  const v1::WhatIfPoint& point = messages[0].points(0);

  v1::PlanRequest one = TinyPlan(kGiB);
  one.mutable_options()->set_n_ctx(64);
  one.mutable_options()->set_n_slots(3);
  one.mutable_options()->set_n_ubatch(32);
  one.mutable_options()->set_k_type(v1::ELEMENT_TYPE_F32);
  one.mutable_options()->set_margin_bytes(1'000);
  v1::PlanResponse response;
  ASSERT_TRUE(planner_.Plan(one, response).ok());
  EXPECT_EQ(point.total_bytes(), response.plan().total_bytes());
  EXPECT_EQ(point.arena_bytes(), response.plan().arena_bytes());
  EXPECT_EQ(point.n_ctx(), response.plan().n_ctx());
  EXPECT_EQ(point.fits(), response.plan().fits());
  EXPECT_EQ(point.kv_bytes_per_token(), response.plan().kv_bytes_per_token());
  EXPECT_EQ(point.budget_bytes(), static_cast<uint64_t>(kGiB));
  EXPECT_TRUE(point.can_run());
  EXPECT_EQ(point.k_type(), v1::ELEMENT_TYPE_F32);
  EXPECT_EQ(point.v_type(), v1::ELEMENT_TYPE_F16);
}

TEST_F(WhatIfQueriesTest, AnEmptyAxisHasTheValueOfTheOptions) {
  v1::WhatIfRequest request = TinyGrid(0);
  request.mutable_options()->set_n_ctx(48);
  request.mutable_options()->set_n_slots(2);
  request.mutable_options()->set_n_ubatch(16);
  request.mutable_options()->set_v_type(v1::ELEMENT_TYPE_F32);
  std::vector<v1::WhatIfResponse> messages;
  ASSERT_TRUE(Ask(request, messages).ok());
  ASSERT_EQ(messages[0].points_size(), 1);
  const v1::WhatIfPoint& point = messages[0].points(0);
  EXPECT_EQ(point.wanted_ctx(), 48u);
  EXPECT_EQ(point.n_slots(), 2u);
  EXPECT_EQ(point.n_ubatch(), 16u);
  EXPECT_EQ(point.v_type(), v1::ELEMENT_TYPE_F32);
  EXPECT_EQ(point.weight_type(), v1::ELEMENT_TYPE_UNSPECIFIED);
}

TEST_F(WhatIfQueriesTest, NothingOnTheFrontierIsNoMessage) {
  v1::WhatIfRequest request = TinyGrid(3);
  request.mutable_devices(0)->set_budget_bytes(1);
  std::vector<v1::WhatIfResponse> messages;
  ASSERT_TRUE(Ask(request, messages).ok());
  EXPECT_EQ(messages.size(), 1u);
}

TEST_F(WhatIfQueriesTest, BadRequestsAreRefusedByName) {
  const auto expect = [this](const v1::WhatIfRequest& request, Code code,
                             const char* text) {
    const absl::Status status = StatusOf(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  v1::WhatIfRequest request = TinyGrid(1);
  request.clear_devices();
  expect(request, Code::kInvalidArgument, "devices");
  request = TinyGrid(1);
  request.clear_source();
  expect(request, Code::kInvalidArgument, "source");
  request = TinyGrid(1);
  request.mutable_source()->set_model("none");
  expect(request, Code::kNotFound, "model");
  request = TinyGrid(1);
  request.mutable_devices(0)->set_device_id("none");
  expect(request, Code::kNotFound, "device");
  request = TinyGrid(1);
  request.add_weight_types(static_cast<v1::ElementType>(999));
  expect(request, Code::kInvalidArgument, "weight_types");
  request = TinyGrid(1);
  request.add_kv_types()->set_v_type(static_cast<v1::ElementType>(999));
  expect(request, Code::kInvalidArgument, "kv_types.v_type");
  request = TinyGrid(1);
  request.add_n_slots(0);
  expect(request, Code::kInvalidArgument, "n_slots");
  request = TinyGrid(1);
  request.mutable_options()->set_n_ubatch(0);
  expect(request, Code::kInvalidArgument, "n_ubatch");
}

TEST_F(WhatIfQueriesTest, ThereAreAtMost64Devices) {
  v1::WhatIfRequest request = TinyGrid(1);
  while (request.devices_size() < 64) {
    *request.add_devices() = request.devices(0);
  }
  EXPECT_TRUE(StatusOf(request).ok());
  *request.add_devices() = request.devices(0);
  EXPECT_EQ(StatusOf(request).code(), Code::kInvalidArgument);
}

// Readers that take nothing hold their calls, and no one else's.
TEST_F(WhatIfQueriesTest, SlowReadersHoldOnlyThemselvesAndOnlySoMany) {
  const v1::WhatIfRequest large = TinyGrid(1'000'000 / 4);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WhatIfResponse>>> readers;
  for (int i = 0; i < kMaxWhatIfCalls; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub_->WhatIf(contexts.back().get(), large));
    v1::WhatIfResponse message;
    ASSERT_TRUE(readers.back()->Read(&message));  // it runs
  }
  const absl::Status refused = StatusOf(TinyGrid(1));
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(DetailsOf(refused).reason, v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_TRUE(DetailsOf(refused).retry_after.has_value());
  // Other calls are answered.
  v1::PlanResponse response;
  grpc::ClientContext plan_context;
  EXPECT_TRUE(stub_->Plan(&plan_context, TinyPlan(kGiB), &response).ok());

  for (const auto& context : contexts) context->TryCancel();
  for (const auto& reader : readers) {
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  // The client knows before the server does.
  absl::Status status = StatusOf(TinyGrid(1));
  while (status.code() == Code::kResourceExhausted) {
    status = StatusOf(TinyGrid(1));
  }
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(WhatIfQueriesTest, ACallThatCannotBeginCountsAsOver) {
  for (int i = 0; i < 2 * kMaxWhatIfCalls; ++i) {
    EXPECT_EQ(StatusOf(v1::WhatIfRequest()).code(), Code::kInvalidArgument);
  }
}

TEST_F(WhatIfQueriesTest, ABatchRepliesAsPlanWouldInOrder) {
  v1::BatchPlanRequest request;
  *request.add_requests() = TinyPlan(kGiB);
  *request.add_requests() = TinyPlan(1);
  request.add_requests()->mutable_source()->set_model("none");
  v1::BatchPlanResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->BatchPlan(&context, request, &response).ok());
  ASSERT_EQ(response.results_size(), 3);
  for (int i = 0; i < 2; ++i) {
    v1::PlanResponse alone;
    ASSERT_TRUE(planner_.Plan(request.requests(i), alone).ok());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
        response.results(i).plan(), alone.plan()));
  }
  const v1::PlanFailure& failure = response.results(2).failure();
  EXPECT_EQ(failure.code(), static_cast<uint32_t>(grpc::StatusCode::NOT_FOUND));
  EXPECT_EQ(failure.reason(), v1::ERROR_REASON_MODEL_NOT_FOUND);
  EXPECT_THAT(failure.message(), HasSubstr("no model"));
}

TEST_F(WhatIfQueriesTest, ABatchHasAtMost256Requests) {
  v1::BatchPlanRequest request;
  for (int i = 0; i < kMaxBatchPlans; ++i) {
    *request.add_requests() = TinyPlan(kGiB);
  }
  v1::BatchPlanResponse response;
  EXPECT_TRUE(BatchPlan(planner_, request, response).ok());
  EXPECT_EQ(response.results_size(), kMaxBatchPlans);
  *request.add_requests() = TinyPlan(kGiB);
  EXPECT_EQ(BatchPlan(planner_, request, response).code(),
            Code::kInvalidArgument);
}

TEST_F(WhatIfQueriesTest, ABatchHasLayersUpToTheirLimitAndNotPastIt) {
  constexpr uint32_t kLayers = kMaxBatchLayers / kMaxBatchPlans;
  v1::BatchPlanRequest request;
  for (int i = 0; i < kMaxBatchPlans; ++i) {
    v1::PlanRequest& one = *request.add_requests();
    *one.mutable_source() = DeepSource(kLayers);
    one.set_budget_bytes(kGiB);
  }
  v1::BatchPlanResponse response;
  ASSERT_TRUE(BatchPlan(planner_, request, response).ok());
  EXPECT_EQ(response.results_size(), kMaxBatchPlans);
  EXPECT_TRUE(response.results(0).plan().fits());
  *request.mutable_requests(9)->mutable_source() = DeepSource(kLayers + 1);
  response.Clear();
  const absl::Status status = BatchPlan(planner_, request, response);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("32769 layers or more, at most 32768"));
  EXPECT_EQ(response.results_size(), 0);
}

TEST(WhatIfMessagesTest, ALongFrontierComesInParts) {
  // Equal points: none beats another, so that all are on the frontier.
  planner::WhatIfAxes axes;
  axes.devices = {{planner::CommittedCpuProfile(), kGiB}};
  axes.n_ctx.assign(WhatIfMessages::kMaxFrontier + 1, 16);
  auto grid = planner::WhatIf::Create(*TinyModels()["tiny"], {}, axes);
  ASSERT_TRUE(grid.ok()) << grid.status();
  WhatIfMessages messages(*std::move(grid));
  std::vector<int> frontiers;
  while (true) {
    const auto message = messages.Next();
    ASSERT_TRUE(message.ok());
    if (!message->has_value()) break;
    if ((*message)->points_size() == 0) {
      frontiers.push_back((*message)->frontier_size());
    }
  }
  EXPECT_THAT(frontiers,
              ::testing::ElementsAre(WhatIfMessages::kMaxFrontier, 1));
}

}  // namespace
}  // namespace plimsoll::services
