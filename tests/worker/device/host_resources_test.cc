// What this machine says of itself makes sense to a planner.
#include "worker/device/host_resources.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/dtype.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/quant/kv_row.h"
#include "planner/layout/device_profile.h"
#include "worker/device/compute_device.h"

namespace plimsoll::worker {
namespace {

TEST(DeviceTest, MemoryFiguresAreConsistent) {
  const int64_t total = TotalMemoryBytes();
  const int64_t available = AvailableMemoryBytes();
  EXPECT_GT(total, int64_t{16} << 20);
  EXPECT_GT(available, 0);
  EXPECT_LE(available, total);
  // The kernel counts pages per thread and adds them up now and then.
  constexpr int64_t kSlack = 1 << 20;
  const int64_t resident = ResidentBytes();
  EXPECT_GT(resident, 0);
  EXPECT_GE(PeakResidentBytes() + kSlack, resident);
  EXPECT_LT(PeakResidentBytes(), total);
}

TEST(DeviceTest, SomeThreadsAreUsable) {
  EXPECT_GE(UsableThreads(), 1);
  EXPECT_LE(UsableThreads(), 256);
}

TEST(DeviceTest, TheLocalProfileIsValidAndRunsEveryPromisedType) {
  const planner::DeviceProfile profile = LocalCpuProfile();
  EXPECT_TRUE(planner::ValidateProfile(profile).ok())
      << planner::ValidateProfile(profile);
  EXPECT_EQ(profile.kind, "cpu");
  for (const DType dtype :
       {DType::kF32,    DType::kF16,    DType::kBF16,  DType::kQ8_0,
        DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1,
        DType::kQ4_K,   DType::kQ5_K,   DType::kQ6_K,  DType::kMxfp4,
        DType::kIq4Nl,  DType::kIq4Xs,  DType::kQ3_K,  DType::kQ2_K,
        DType::kTq2_0,  DType::kIq2Xxs, DType::kIq2Xs, DType::kIq2S,
        DType::kIq3Xxs, DType::kIq3S,   DType::kIq1S,  DType::kIq1M,
        DType::kTq1_0,  DType::kNvfp4}) {
    EXPECT_NE(planner::FindStorageRule(profile, dtype), nullptr)
        << DTypeName(dtype);
  }
  for (const DTypeInfo& info : kDTypes) {
    EXPECT_EQ(planner::HasKvType(profile, info.dtype),
              kernels::IsKvType(info.dtype))
        << info.name;
  }
}

TEST(DeviceTest, DevicesAreOpenedByName) {
  const auto cpu = OpenComputeDevice("cpu");
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_TRUE((*cpu)->is_host());
  EXPECT_EQ((*cpu)->Profile().id, "cpu");
  for (const char* name : {"", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:x"}) {
    EXPECT_EQ(OpenComputeDevice(name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  // A build without CUDA, or a machine without so many devices.
  const absl::Status absent = OpenComputeDevice("cuda:1000").status();
  EXPECT_TRUE(absl::IsUnimplemented(absent) || absl::IsNotFound(absent))
      << absent;
}

TEST(DeviceTest, TheCommittedProfileIsTheActualOne) {
  const planner::DeviceProfile actual = LocalCpuProfile();
  const planner::DeviceProfile committed = planner::CommittedCpuProfile();
  EXPECT_EQ(committed.id, actual.id);
  EXPECT_EQ(committed.kind, actual.kind);
  EXPECT_EQ(committed.alignment, actual.alignment);
  EXPECT_EQ(committed.allocation, actual.allocation);
  EXPECT_EQ(committed.granularity_bytes, actual.granularity_bytes);
  EXPECT_EQ(committed.workspace.activation_block,
            actual.workspace.activation_block);
  EXPECT_EQ(committed.workspace.activation_block_bytes,
            actual.workspace.activation_block_bytes);
  EXPECT_EQ(committed.workspace.kernel_scratch_bytes,
            actual.workspace.kernel_scratch_bytes);
  EXPECT_EQ(committed.workspace.min_logits_rows,
            actual.workspace.min_logits_rows);
  EXPECT_EQ(committed.workspace.max_candidates,
            actual.workspace.max_candidates);
  EXPECT_EQ(committed.runtime_bytes, actual.runtime_bytes);
  ASSERT_EQ(committed.storage.size(), actual.storage.size());
  for (const planner::StorageRule& rule : committed.storage) {
    const auto* other = planner::FindStorageRule(actual, rule.dtype);
    ASSERT_NE(other, nullptr) << DTypeName(rule.dtype);
    EXPECT_EQ(rule.row_multiple, other->row_multiple);
  }
}

TEST(DeviceTest, TheHostBoundsExpertsBesideADeviceAndNothingElse) {
  kernels::ThreadPool pool(1);
  const auto apart =
      OpenAccelerator([&] { return LocalCpu().NewBackend(pool); },
                      [] {
                        return kernels::DeviceMemory{1, 1, 0};
                      });
  ASSERT_TRUE(apart.ok()) << apart.status();
  const auto bound = [&](const planner::LoadOptions& options) {
    return HostBudgetBytes(options, apart->get());
  };
  planner::LoadOptions options;
  EXPECT_EQ(bound(options), std::nullopt);
  options.n_cpu_experts = 1;
  ASSERT_TRUE(bound(options).has_value());
  EXPECT_GT(*bound(options), 0);
  const ComputeDevice* const no_device = nullptr;
  for (const ComputeDevice* none : {&LocalCpu(), no_device})
    EXPECT_EQ(HostBudgetBytes(options, none), std::nullopt);
  options.host_budget_bytes = 100;
  EXPECT_EQ(bound(options), 100);
  options.host_budget_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_LE(*bound(options), TotalMemoryBytes());
}

}  // namespace
}  // namespace plimsoll::worker
