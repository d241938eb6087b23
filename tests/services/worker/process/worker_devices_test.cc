// The devices of a worker, from its command line to their names for a planner.
#include "services/worker/process/worker_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "services/worker/process/worker_flags.h"
#include "tests/worker/device/hooked_device.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An accelerator with a vendor's name.
class Card final : public plimsoll::testing::HookedDevice {
 public:
  explicit Card(std::string id) : HookedDevice({}), id_(std::move(id)) {}
  std::string unique_id() const override { return id_; }

 private:
  const std::string id_;
};

struct Parsed {
  std::optional<int> code;
  DeviceFlags flags;
  worker::Preemption preemption;
  std::string error;
};

Parsed Parse(std::vector<std::string> args) {
  args.insert(args.begin(), "plimsoll-worker");
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  WorkerFlags flags;
  Parsed parsed;
  ::testing::internal::CaptureStderr();
  parsed.code =
      ParseWorkerFlags(static_cast<int>(argv.size()), argv.data(), flags);
  parsed.flags = flags.devices;
  parsed.preemption = flags.options.preemption;
  parsed.error = ::testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(WorkerFlagsTest, OneDeviceIsAsItWas) {
  const Parsed bare = Parse({});
  EXPECT_EQ(bare.code, std::nullopt);
  EXPECT_THAT(bare.flags.names, ElementsAre("cpu"));
  EXPECT_THAT(bare.flags.memory_bytes, IsEmpty());
  const Parsed one = Parse(
      {"--device", "cuda:1", "--device-memory=64MiB", "--device-id", "a,b"});
  EXPECT_EQ(one.code, std::nullopt) << one.error;
  EXPECT_THAT(one.flags.names, ElementsAre("cuda:1"));
  EXPECT_THAT(one.flags.memory_bytes, ElementsAre(64 << 20));
  EXPECT_EQ(one.flags.ids, "a,b");
}

TEST(WorkerFlagsTest, SeveralDevicesAndTheirMemory) {
  const Parsed parsed = Parse({"--device", "cuda:0,cuda:1,cpu",
                               "--device-memory", "12GiB,1GiB,4096", "--lazy"});
  EXPECT_EQ(parsed.code, std::nullopt) << parsed.error;
  EXPECT_THAT(parsed.flags.names, ElementsAre("cuda:0", "cuda:1", "cpu"));
  EXPECT_THAT(parsed.flags.memory_bytes,
              ElementsAre(int64_t{12} << 30, int64_t{1} << 30, 4'096));
}

TEST(WorkerFlagsTest, PromptsHaveAShareUpToTheLimits) {
  EXPECT_EQ(Parse({"--prompt-share", "0.05"}).code, std::nullopt);
  EXPECT_EQ(Parse({"--prompt-share", "0.9"}).code, std::nullopt);
  EXPECT_EQ(Parse({"--prompt-share-beside-others", "0.05"}).code, std::nullopt);
  EXPECT_EQ(Parse({"--prompt-share-beside-others", "0.9"}).code, std::nullopt);
}

TEST(WorkerFlagsTest, PreemptionIsOnOrOff) {
  const auto preemption = [](const std::vector<std::string>& args) {
    const Parsed parsed = Parse(args);
    EXPECT_EQ(parsed.code, std::nullopt) << parsed.error;
    return parsed.preemption;
  };
  EXPECT_EQ(preemption({}), worker::Preemption::kOn);
  EXPECT_EQ(preemption({"--preemption", "on"}), worker::Preemption::kOn);
  EXPECT_EQ(preemption({"--preemption", "off"}), worker::Preemption::kOff);
}

TEST(WorkerFlagsTest, MistakesSayWhat) {
  for (const auto& [args, text] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--device", "cpu,cpu"}, "device 'cpu' is named twice"},
           {{"--device", "cuda:0,"}, "a device has no name"},
           {{"--device-memory", "12,x"}, "x"},
           {{"--device-memory", "9223372036854775808"}, "is too large"},
           {{"--preemption", "never"}, "--preemption"},
           {{"--prompt-share", "0.04"}, "--prompt-share"},
           {{"--prompt-share", "0.91"}, "--prompt-share"},
           {{"--prompt-share-beside-others", "0.04"},
            "--prompt-share-beside-others"},
           {{"--prompt-share-beside-others", "0.91"},
            "--prompt-share-beside-others"}}) {
    const Parsed parsed = Parse(args);
    EXPECT_EQ(parsed.code, 2) << args[1];
    EXPECT_THAT(parsed.error, HasSubstr(text));
  }
}

std::vector<std::string> IdsOf(const std::vector<WorkerDevice>& devices) {
  std::vector<std::string> ids;
  for (const WorkerDevice& device : devices) ids.push_back(device.id);
  return ids;
}

class DescribeDevicesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<WorkerDevice>> Describe(
      const DeviceFlags& flags) const {
    return DescribeDevices(flags, "host", {&one_, &two_, &worker::LocalCpu()});
  }
  std::string ErrorOf(const DeviceFlags& flags) const {
    const absl::Status status = Describe(flags).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  const Card one_{"GPU-1"};
  const Card two_{"GPU-2"};
};

TEST_F(DescribeDevicesTest, ADeviceHasItsOwnNameUnlessItIsGivenOne) {
  EXPECT_THAT(IdsOf(*Describe({})), ElementsAre("GPU-1", "GPU-2", "host/cpu"));
  DeviceFlags flags;
  flags.ids = "left,,main memory";
  EXPECT_THAT(IdsOf(*Describe(flags)),
              ElementsAre("left", "GPU-2", "main memory"));
  EXPECT_EQ(DescribeDevices({}, "", {&worker::LocalCpu()})->front().id, "cpu");
  // With one device a comma is a part of its name.
  flags.ids = "a,b";
  EXPECT_EQ(DescribeDevices(flags, "host", {&worker::LocalCpu()})->front().id,
            "a,b");
}

TEST_F(DescribeDevicesTest, ReadsAndBudgetsEachDevice) {
  DeviceFlags flags;
  flags.memory_bytes = {1, 2, 3};
  const auto devices = Describe(flags);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ((*devices)[1].compute, &two_);
  EXPECT_EQ((*devices)[1].memory_bytes, 2);
  EXPECT_GT((*devices)[1].profile().total_bytes, 0);
}

TEST_F(DescribeDevicesTest, MistakesSayWhatToDo) {
  DeviceFlags flags;
  flags.ids = "a,b";
  EXPECT_THAT(ErrorOf(flags),
              HasSubstr("--device-id has 2 names for 3 devices; "
                        "give one for each"));
  flags.ids = "a,GPU-2,a";
  EXPECT_THAT(ErrorOf(flags), HasSubstr("two devices are called a"));
  flags.ids = ",GPU-1,";
  EXPECT_THAT(ErrorOf(flags), HasSubstr("two devices are called GPU-1"));
  flags.ids = "a,b," + std::string(257, 'c');
  EXPECT_THAT(ErrorOf(flags), HasSubstr("at most 256 bytes"));
  flags.ids = "a,b," + std::string(256, 'c');
  EXPECT_TRUE(Describe(flags).ok());
  flags.memory_bytes = {1, 2};
  EXPECT_THAT(ErrorOf(flags), HasSubstr("has 2 values for 3 devices"));
}

}  // namespace
}  // namespace plimsoll::services
