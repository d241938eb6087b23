// Diagnoses of GPUs from readings of machines with and without them.
#include "services/cli/doctor/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/fake_tree.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

planner::DeviceProfile SomeGpu(const std::string& id) {
  planner::DeviceProfile device = planner::CommittedGpuProfile();
  device.id = id;
  device.name = "Some GPU";
  device.total_bytes = int64_t{80} << 30;
  device.free_bytes = int64_t{79} << 30;
  return device;
}

TEST(GpuCheckTest, NoGpuIsOk) {
  for (const bool has_kernels : {false, true}) {
    GpuReadings gpus{.has_kernels = has_kernels};
    if (has_kernels) gpus.failure = absl::NotFoundError("no CUDA device 0");
    const Diagnosis found = CheckGpus(gpus);
    EXPECT_EQ(found.health, Health::kOk);
    EXPECT_THAT(found.found, HasSubstr("no GPU"));
    EXPECT_THAT(found.fix, IsEmpty());
  }
}

TEST(GpuCheckTest, ABuildWithoutKernelsSaysThatAGpuIsNotUsed) {
  const Diagnosis found =
      CheckGpus({.has_kernels = false, .device_file = "/dev/nvidiactl"});
  EXPECT_EQ(found.health, Health::kOk);
  EXPECT_THAT(found.found,
              AllOf(HasSubstr("/dev/nvidiactl"), HasSubstr("no CUDA kernels")));
}

TEST(GpuCheckTest, EveryDeviceHasItsMemory) {
  const Diagnosis found =
      CheckGpus({.has_kernels = true,
                 .device_file = "/dev/nvidiactl",
                 .driver = "580.95",
                 .devices = {SomeGpu("cuda:0"), SomeGpu("cuda:1")}});
  EXPECT_EQ(found.health, Health::kOk);
  EXPECT_EQ(found.found,
            "cuda:0 is Some GPU with 79.0 GiB of 80.0 GiB free; cuda:1 is Some "
            "GPU with 79.0 GiB of 80.0 GiB free; driver 580.95");
}

TEST(GpuCheckTest, ADriverThatFailsIsAWarning) {
  const Diagnosis found =
      CheckGpus({.has_kernels = true,
                 .device_file = "/dev/nvidiactl",
                 .failure = absl::NotFoundError("no CUDA device 0 of 0")});
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_EQ(found.found, "cuda:0 cannot be opened: no CUDA device 0 of 0");
  EXPECT_THAT(found.fix, AllOf(HasSubstr("nvidia-smi"),
                               HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(GpuCheckTest, AnOldDriverIsToBeUpdated) {
  const Diagnosis found = CheckGpus(
      {.has_kernels = true,
       .failure = absl::FailedPreconditionError("driver is insufficient")});
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.fix, HasSubstr("update NVIDIA's driver"));
}

TEST(GpuCheckTest, TheDeviceThatFailsIsNamedBesideThoseThatDoNot) {
  const Diagnosis found =
      CheckGpus({.has_kernels = true,
                 .device_file = "/dev/nvidiactl",
                 .devices = {SomeGpu("cuda:0")},
                 .failure = absl::UnavailableError("it is lost")});
  EXPECT_EQ(found.health, Health::kWarning);
  EXPECT_THAT(found.found,
              AllOf(HasSubstr("cuda:0 is Some GPU"),
                    HasSubstr("cuda:1 cannot be opened: it is lost")));
}

TEST(GpuReadingsTest, FilesOfADriverAreFound) {
  const testing::FakeTree tree;
  GpuReadings gpus = ReadGpus(tree.root());
  EXPECT_THAT(gpus.device_file, IsEmpty());
  EXPECT_THAT(gpus.driver, IsEmpty());
  tree.Write("/dev/nvidiactl", "");
  tree.Write("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue "
             "Sep 23 10:11:16 UTC 2025\nGCC version:  gcc version 12.2.0");
  gpus = ReadGpus(tree.root());
  EXPECT_EQ(gpus.device_file, "/dev/nvidiactl");
  EXPECT_EQ(gpus.driver, "580.95.05");
}

}  // namespace
}  // namespace plimsoll::cli
