#include "services/host/device_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/layout/layer_split.h"

namespace plimsoll::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ParseDevicesTest, KeepsTheOrder) {
  EXPECT_THAT(*ParseDevices("cpu"), ElementsAre("cpu"));
  EXPECT_THAT(*ParseDevices("cuda:1,cuda:0,cpu"),
              ElementsAre("cuda:1", "cuda:0", "cpu"));
}

TEST(ParseDevicesTest, ADeviceThatIsThereTwiceIsNamed) {
  for (const char* text : {"cpu,cpu", "cuda:0,cpu,cuda:0"}) {
    EXPECT_THAT(ErrorOf(ParseDevices(text).status()),
                HasSubstr("is named twice; a device takes consecutive layers"))
        << text;
  }
}

TEST(ParseDevicesTest, AnEmptyNameIsAMistake) {
  for (const char* text : {"", "cpu,", ",cpu", "cuda:0,,cpu"}) {
    EXPECT_THAT(ErrorOf(ParseDevices(text).status()),
                HasSubstr("a device has no name"))
        << text;
  }
}

TEST(ParseDevicesTest, AsManyAsAModelMayLieOnAndNotMore) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < planner::kMaxSplitDevices; ++i) {
    names.push_back(absl::StrCat("cuda:", i));
  }
  EXPECT_EQ(ParseDevices(absl::StrJoin(names, ","))->size(), names.size());
  names.push_back("cpu");
  EXPECT_THAT(ErrorOf(ParseDevices(absl::StrJoin(names, ",")).status()),
              HasSubstr("at most 64"));
}

TEST(MemoryOfEachTest, OneValueIsEachDevicesOwn) {
  EXPECT_THAT(*MemoryOfEach({}, 2), ElementsAre(std::nullopt, std::nullopt));
  EXPECT_THAT(*MemoryOfEach({7}, 2), ElementsAre(7, 7));
  EXPECT_THAT(*MemoryOfEach({7, 9}, 2), ElementsAre(7, 9));
}

TEST(MemoryOfEachTest, OtherwiseThereAreAsManyAsDevices) {
  EXPECT_THAT(ErrorOf(MemoryOfEach({1, 2, 3}, 2).status()),
              HasSubstr("has 3 values for 2 devices; give one for each"));
  EXPECT_THAT(ErrorOf(MemoryOfEach({1, 2}, 3).status()),
              HasSubstr("has 2 values for 3 devices"));
  EXPECT_THAT(ErrorOf(MemoryOfEach({1, 2}, 1).status()),
              HasSubstr("has 2 values for 1 device;"));
}

TEST(OpenDevicesTest, AnUnknownOneIsNamed) {
  EXPECT_EQ(OpenDevices({"cpu"}, worker::Precision::kDefault)->size(), 1u);
  EXPECT_THAT(
      ErrorOf(
          OpenDevices({"cpu", "gpu"}, worker::Precision::kDefault).status()),
      HasSubstr("--device gpu: device \"gpu\" is neither cpu nor "
                "cuda:N"));
}

class NamedDevice final : public worker::ComputeDevice {
 public:
  explicit NamedDevice(std::string id) : id_(std::move(id)) {}
  absl::StatusOr<std::unique_ptr<kernels::Backend>> NewBackend(
      kernels::ThreadPool&) const override {
    return absl::UnimplementedError("not for computing");
  }
  planner::DeviceProfile Profile() const override {
    return worker::LocalCpu().Profile();
  }
  bool is_host() const override { return false; }
  std::string unique_id() const override { return id_; }

 private:
  const std::string id_;
};

TEST(OpenDevicesTest, TwoNamesOfOneDeviceAreAMistake) {
  const NamedDevice one("GPU-1");
  const NamedDevice same("GPU-1");
  const NamedDevice other("GPU-2");
  EXPECT_TRUE(CheckDistinct({"cuda:0", "cuda:1"}, {&one, &other}).ok());
  EXPECT_THAT(
      ErrorOf(CheckDistinct({"cuda:0", "cuda:00"}, {&one, &same})),
      HasSubstr("cuda:0 and cuda:00 are one device, GPU-1; name it once"));
  // A CPU has no name of its own.
  EXPECT_TRUE(
      CheckDistinct({"a", "b"}, {&worker::LocalCpu(), &worker::LocalCpu()})
          .ok());
}

}  // namespace
}  // namespace plimsoll::services
