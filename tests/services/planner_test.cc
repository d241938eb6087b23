#include "services/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "services/common/errors.h"
#include "services/common/header_bytes.h"
#include "services/common/to_proto.h"
#include "tests/planner/tiny_models.h"

namespace plimsoll::services {
namespace {

using ::testing::Contains;
using ::testing::Pair;
using Code = absl::StatusCode;

constexpr int64_t kTotal = 1 << 30;

class PlannerTest : public ::testing::Test {
 protected:
  PlannerTest() {
    const std::string file = planner::BuilderOf(planner::TinyModel()).Build();
    Planner::Models models;
    models["tiny"] = *planner::ShapeFromGguf(*planner::Parse(file));
    planner_ = std::make_unique<Planner>(models, [this] { return now_; });
    Register(kTotal);
  }

  void Register(int64_t free_bytes) {
    planner::DeviceProfile profile = planner::CommittedCpuProfile();
    profile.id = "cpu";
    profile.total_bytes = kTotal;
    profile.free_bytes = free_bytes;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(profile);
    v1::RegisterDeviceResponse response;
    ASSERT_TRUE(planner_->RegisterDevice(request, response).ok());
  }

  absl::StatusOr<v1::Lease> Reserve(const std::string& id, int64_t bytes) {
    v1::ReserveRequest request;
    request.set_request_id(id);
    request.set_device_id("cpu");
    request.set_holder("worker");
    request.set_bytes(ToUint64(bytes));
    v1::ReserveResponse response;
    const absl::Status status = planner_->Reserve(request, response);
    if (!status.ok()) return status;
    return response.lease();
  }

  uint64_t Available() {
    v1::ListDevicesResponse response;
    EXPECT_TRUE(planner_->ListDevices(response).ok());
    return response.devices(0).available_bytes();
  }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<Planner> planner_;
};

TEST_F(PlannerTest, ARepeatedRequestGetsTheFirstReply) {
  const auto first = Reserve("r1", 100);
  const auto second = Reserve("r1", 100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->id(), second->id());
  EXPECT_EQ(Available(), ToUint64(kTotal - 100));
}

TEST_F(PlannerTest, LeaseIdsAreLongAndDiffer) {
  const auto a = Reserve("a", 1);
  const auto b = Reserve("b", 1);
  EXPECT_EQ(a->id().size(), 32u);
  EXPECT_NE(a->id(), b->id());
}

TEST_F(PlannerTest, ARefusalHasItsNumbers) {
  ASSERT_TRUE(Reserve("a", kTotal - 10).ok());
  const absl::Status refusal = Reserve("b", 11).status();
  const ErrorDetails details = DetailsOf(refusal);
  EXPECT_EQ(refusal.code(), Code::kResourceExhausted);
  EXPECT_EQ(details.reason, v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED);
  EXPECT_THAT(details.metadata, Contains(Pair("wanted_bytes", "11")));
  EXPECT_THAT(details.metadata, Contains(Pair("available_bytes", "10")));
  EXPECT_TRUE(details.retry_after.has_value());
}

TEST_F(PlannerTest, ExpiryFreesNothing) {
  ASSERT_TRUE(Reserve("a", kTotal).ok());
  now_ += absl::Hours(1);
  v1::ListLeasesResponse leases;
  ASSERT_TRUE(planner_->ListLeases({}, leases).ok());
  ASSERT_EQ(leases.leases_size(), 1);
  EXPECT_EQ(leases.leases(0).state(), v1::LEASE_STATE_SUSPECT);
  EXPECT_EQ(Reserve("b", 1).status().code(), Code::kResourceExhausted);
}

TEST_F(PlannerTest, AReleaseFreesAll) {
  const auto lease = Reserve("a", kTotal);
  v1::ReleaseRequest request;
  request.set_lease_id(lease->id());
  request.set_epoch(lease->epoch());
  v1::ReleaseResponse response;
  EXPECT_TRUE(planner_->Release(request, response).ok());
  EXPECT_TRUE(planner_->Release(request, response).ok());
  EXPECT_TRUE(Reserve("b", kTotal).ok());
}

TEST_F(PlannerTest, AConfirmedLeaseIsTakenBackAfterItExpired) {
  const auto lease = Reserve("a", 100);
  v1::ConfirmRequest confirm;
  confirm.set_lease_id(lease->id());
  confirm.set_epoch(lease->epoch());
  confirm.set_measured_bytes(90);
  confirm.set_device_free_bytes(ToUint64(kTotal - 90));
  v1::ConfirmResponse confirmed;
  ASSERT_TRUE(planner_->Confirm(confirm, confirmed).ok());
  EXPECT_EQ(confirmed.lease().state(), v1::LEASE_STATE_CONFIRMED);
  now_ += absl::Hours(1);
  v1::RenewRequest renew;
  renew.set_lease_id(lease->id());
  renew.set_epoch(lease->epoch());
  v1::RenewResponse renewed;
  ASSERT_TRUE(planner_->Renew(renew, renewed).ok());
  EXPECT_EQ(renewed.lease().id(), lease->id());
  EXPECT_EQ(renewed.lease().state(), v1::LEASE_STATE_CONFIRMED);
}

TEST_F(PlannerTest, ADeadReservationIsLost) {
  const auto lease = Reserve("a", 100);
  now_ += absl::Hours(1);
  v1::ConfirmRequest confirm;
  confirm.set_lease_id(lease->id());
  confirm.set_epoch(lease->epoch());
  v1::ConfirmResponse response;
  const absl::Status status = planner_->Confirm(confirm, response);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_LEASE_LOST);
}

TEST_F(PlannerTest, AnUnknownLeaseIsNotFound) {
  v1::RenewRequest renew;
  renew.set_lease_id("nobody's");
  v1::RenewResponse response;
  const absl::Status status = planner_->Renew(renew, response);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_LEASE_NOT_FOUND);
}

TEST_F(PlannerTest, MemoryTakenByStrangersIsRespected) {
  Register(1'000);
  EXPECT_EQ(Reserve("a", 1'001).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Reserve("b", 1'000).ok());
}

TEST_F(PlannerTest, AnUnknownDeviceIsNotFound) {
  v1::ReserveRequest request;
  request.set_request_id("a");
  request.set_device_id("gpu");
  request.set_holder("worker");
  request.set_bytes(1);
  v1::ReserveResponse response;
  const absl::Status status = planner_->Reserve(request, response);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_DEVICE_NOT_FOUND);
}

TEST_F(PlannerTest, APlanOnADeviceSeesWhatALeaseLeft) {
  ASSERT_TRUE(Reserve("a", kTotal - 1'000).ok());
  v1::PlanRequest request;
  request.mutable_source()->set_model("tiny");
  request.set_device_id("cpu");
  v1::PlanResponse response;
  ASSERT_TRUE(planner_->Plan(request, response).ok());
  EXPECT_EQ(response.plan().budget_bytes(), 1'000u);
  EXPECT_FALSE(response.plan().fits());
  request.set_budget_bytes(500);
  ASSERT_TRUE(planner_->Plan(request, response).ok());
  EXPECT_EQ(response.plan().budget_bytes(), 500u);
}

TEST_F(PlannerTest, APlanWithoutADeviceNeedsABudget) {
  v1::PlanRequest request;
  request.mutable_source()->set_model("tiny");
  v1::PlanResponse response;
  EXPECT_EQ(planner_->Plan(request, response).code(), Code::kInvalidArgument);
  request.set_budget_bytes(1 << 28);
  ASSERT_TRUE(planner_->Plan(request, response).ok());
  EXPECT_TRUE(response.plan().fits());
}

TEST_F(PlannerTest, ANamedModelAndItsHeaderAreDescribedAlike) {
  const std::string file = planner::BuilderOf(planner::TinyModel()).Build();
  const auto header = planner::Parse(file);
  v1::DescribeModelRequest named;
  named.mutable_source()->set_model("tiny");
  v1::DescribeModelRequest given;
  given.mutable_source()->mutable_header()->set_gguf(
      HeaderBytes(*header, planner::ShapeFromGguf(*header)->vocab));
  given.mutable_source()->mutable_header()->set_file_bytes(file.size());
  v1::DescribeModelResponse a;
  v1::DescribeModelResponse b;
  ASSERT_TRUE(planner_->DescribeModel(named, a).ok());
  const absl::Status status = planner_->DescribeModel(given, b);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
  EXPECT_EQ(a.n_layers(), 2u);
}

TEST_F(PlannerTest, AModelThatNobodyConfiguredIsNotFound) {
  v1::DescribeModelRequest request;
  request.mutable_source()->set_model("../secret");
  v1::DescribeModelResponse response;
  const absl::Status status = planner_->DescribeModel(request, response);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(DetailsOf(status).reason, v1::ERROR_REASON_MODEL_NOT_FOUND);
  EXPECT_EQ(planner_->DescribeModel({}, response).code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace plimsoll::services
