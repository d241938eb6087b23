// A worker whose models' experts lie in host memory while all else is on a
// device with memory of its own: plans, with a planner and without one, what
// clients are told, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/services/worker/worker_fixture.h"
#include "tests/worker/device/hooked_device.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::FarDevice;
using ::plimsoll::testing::FindRandomModel;
using ::testing::HasSubstr;

constexpr uint32_t kExpertContext = 256;

// A model whose layers' experts take more than an arena is rounded up to.
plimsoll::testing::RandomModel WideExperts() {
  plimsoll::testing::RandomModel model = FindRandomModel("qwen3moe_q4_0");
  model.dim = 256;
  model.head_dim = 64;
  model.n_experts = 32;
  model.expert_ffn_dim = 512;
  return model;
}

class ExpertsWorkerTest : public ::testing::Test {
 protected:
  // A worker on `device` whose --cpu-experts is `n_layers`.
  std::unique_ptr<TestWorker> Start(const worker::ComputeDevice& device,
                                    std::optional<int64_t> n_layers,
                                    TestPlanner* planner) {
    return std::make_unique<TestWorker>(TestWorkerSetup{
        .planner = planner,
        .model = WideExperts(),
        .change = [&](WorkerOptions& options) {
          options.devices = {DeviceOf(device, "test/far", memory_)};
          options.load.n_cpu_experts = n_layers;
        }});
  }

  static v1::GetMemoryResponse MemoryOf(TestWorker& worker) {
    grpc::ClientContext context;
    v1::GetMemoryRequest request;
    request.set_model("a");
    v1::GetMemoryResponse memory;
    EXPECT_TRUE(worker.models->GetMemory(&context, request, &memory).ok());
    return memory;
  }

  const FarDevice device_;
  std::optional<int64_t> memory_;
};

TEST_F(ExpertsWorkerTest, ClientsAreToldWhatIsOnTheHost) {
  const auto worker =
      Start(device_, planner::LoadOptions::kMaxCpuExperts, /*planner=*/nullptr);
  ASSERT_TRUE(worker->LoadWithContext("a", kExpertContext).ok());
  const v1::GetMemoryResponse memory = MemoryOf(*worker);
  EXPECT_EQ(memory.plan().options().n_cpu_experts(), 3u);
  EXPECT_THAT(memory.plan().cpu_experts_reason(), HasSubstr("3 of 3 layers"));
  EXPECT_GT(memory.measured().host_planned_bytes(), 0u);
  EXPECT_EQ(memory.measured().host_planned_bytes(),
            memory.measured().host_allocated_bytes());
  EXPECT_GE(memory.plan().host_bytes(),
            memory.measured().host_allocated_bytes());
  // The host bounds what it takes.
  EXPECT_TRUE(memory.plan().options().has_host_budget_bytes());
}

TEST_F(ExpertsWorkerTest, APlannerChoosesAsTheWorkerDoes) {
  const auto whole = Start(device_, 0, /*planner=*/nullptr);
  ASSERT_TRUE(whole->LoadWithContext("a", kExpertContext).ok());
  const v1::MemoryPlan all = MemoryOf(*whole).plan();
  EXPECT_FALSE(all.options().has_n_cpu_experts());
  EXPECT_EQ(all.cpu_experts_reason(), "");
  memory_ = static_cast<int64_t>(all.total_bytes()) - 1;
  const auto alone = Start(device_, std::nullopt, /*planner=*/nullptr);
  ASSERT_TRUE(alone->LoadWithContext("a", kExpertContext).ok());
  const v1::MemoryPlan own = MemoryOf(*alone).plan();
  EXPECT_EQ(own.options().n_cpu_experts(), 1u);
  EXPECT_THAT(own.cpu_experts_reason(),
              HasSubstr("the experts of 1 of 3 layers are in host memory: "));
  EXPECT_LE(own.total_bytes(), static_cast<uint64_t>(*memory_));
  TestPlanner planner;
  const auto planned = Start(device_, std::nullopt, &planner);
  const grpc::Status status = planned->LoadWithContext("a", kExpertContext);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::MemoryPlan theirs = MemoryOf(*planned).plan();
  EXPECT_EQ(theirs.options().n_cpu_experts(), 1u);
  EXPECT_EQ(theirs.total_bytes(), own.total_bytes());
  EXPECT_EQ(theirs.cpu_experts_reason(), own.cpu_experts_reason());
  ASSERT_EQ(planner.Leases().size(), 1u);
  EXPECT_EQ(planner.Leases()[0].bytes(), own.total_bytes());
}

TEST_F(ExpertsWorkerTest, OnTheCpuTheFlagIsRefused) {
  const auto worker =
      Start(worker::LocalCpu(), std::nullopt, /*planner=*/nullptr);
  const grpc::Status status = worker->LoadWithContext("a", kExpertContext);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("the device is the CPU"));
}

}  // namespace
}  // namespace plimsoll::services
