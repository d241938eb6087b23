#include "services/planner/planner.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "planner/layout/model_set.h"
#include "services/sources/header_bytes.h"
#include "services/wire/errors.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/planner/deep_source.h"
#include "tests/services/planner/ledger_fixture.h"

namespace plimsoll::services {
namespace {

using Code = absl::StatusCode;

class PlannerTest : public LedgerFixture {
 protected:
  PlannerTest() {
    const std::string file = planner::BuilderOf(planner::TinyModel()).Build();
    Planner::Models models;
    models["tiny"] = std::make_shared<const planner::ModelShape>(
        *planner::ShapeFromGguf(*planner::Parse(file)));
    planner_ = std::make_unique<Planner>(models, ledger_);
  }

  std::unique_ptr<Planner> planner_;
};

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

TEST_F(PlannerTest, ASplitSaysWhatEachDeviceOffersAndWhatIsMissing) {
  ASSERT_TRUE(Reserve("a", kTotal - 1'000).ok());
  v1::PlanSplitRequest request;
  request.mutable_source()->set_model("tiny");
  request.set_purpose("a");
  request.add_devices()->set_device_id("cpu");
  v1::SplitDevice& second = *request.add_devices();
  *second.mutable_profile() = ToProto(planner::CommittedCpuProfile());
  second.set_budget_bytes(2'000);
  v1::PlanSplitResponse response;
  ASSERT_TRUE(planner_->PlanSplit(request, response).ok());
  EXPECT_FALSE(response.fits());
  EXPECT_EQ(response.n_layers_left(), 2u);
  ASSERT_EQ(response.budget_bytes_size(), 2);
  EXPECT_EQ(response.budget_bytes(0), 1'000u);
  EXPECT_EQ(response.budget_bytes(1), 2'000u);
  EXPECT_NE(response.n_ctx_reason(), "");
  request.mutable_devices(1)->set_budget_bytes(2'000 +
                                               response.missing_bytes());
  v1::PlanSplitResponse larger;
  ASSERT_TRUE(planner_->PlanSplit(request, larger).ok());
  EXPECT_TRUE(larger.fits());
  EXPECT_EQ(larger.missing_bytes(), 0u);
}

TEST_F(PlannerTest, ASetHasLayersUpToItsLimitAndNotPastIt) {
  v1::PlanSetRequest request;
  request.set_budget_bytes(1 << 28);
  for (int64_t i = 0; i < planner::kMaxModelsInSet; ++i) {
    *request.add_models()->mutable_source() =
        DeepSource(planner::kMaxLayersInSet / planner::kMaxModelsInSet);
  }
  v1::PlanSetResponse response;
  EXPECT_TRUE(planner_->PlanSet(request, response).ok());
  *request.mutable_models(0)->mutable_source() = DeepSource(257);
  const absl::Status status = planner_->PlanSet(request, response);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("16385 layers or more, at most 16384"),
            absl::string_view::npos)
      << status;
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
