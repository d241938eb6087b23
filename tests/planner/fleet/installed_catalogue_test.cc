// data/devices.csv: what it must know of every device, and the two devices that
// this project began with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "planner/fleet/device_catalogue.h"
#include "planner/layout/memory_plan.h"
#include "tests/planner/known_models.h"
#include "tests/read_file.h"

namespace plimsoll::planner {
namespace {

using ::plimsoll::testing::ReadFile;
using ::testing::AnyOf;
using ::testing::Ge;
using ::testing::HasSubstr;

// Devices that people ask for, of every maker and generation.
constexpr const char* kAskedFor[] = {
    "rtx-2060",
    "rtx-2080-ti",
    "rtx-3050-8gb",
    "rtx-3080-12gb",
    "rtx-4060-ti-8gb",
    "rtx-4080-super",
    "rtx-5050",
    "rtx-5090",
    "rtx-2060-laptop",
    "rtx-3060-laptop",
    "rtx-3080-laptop-16gb",
    "rtx-3080-max-q",
    "rtx-4090-laptop",
    "rtx-5090-laptop",
    "quadro-rtx-6000-laptop",
    "rtx-a2000-laptop-8gb",
    "rtx-pro-5000-laptop",
    "t600",
    "quadro-gv100",
    "quadro-rtx-8000",
    "rtx-a4000",
    "rtx-6000-ada",
    "rtx-pro-6000",
    "t4",
    "p100-12gb",
    "v100-pcie-32gb",
    "v100-32gb",
    "a10",
    "a30",
    "a40",
    "a800-pcie-40gb",
    "a100-sxm-80gb",
    "l4",
    "l2",
    "l40",
    "l40s",
    "h100-sxm",
    "h20",
    "h200",
    "gh200-96gb",
    "gh200-144gb",
    "b100",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "jetson-nano-4gb",
    "jetson-nano-2gb",
    "jetson-tx2-nx",
    "jetson-tx2-8gb",
    "jetson-agx-xavier-32gb",
    "jetson-agx-xavier-64gb",
    "jetson-agx-orin-industrial",
    "jetson-agx-orin-64gb",
    "jetson-agx-thor",
    "dgx-spark",
    "ryzen-ai-max-385-32gb",
    "ryzen-ai-max-390-64gb",
    "ryzen-ai-max-395-128gb",
    "m1-8gb",
    "m2-ultra-192gb",
    "m3-max-128gb",
    "m3-max-36gb",
    "m3-ultra-96gb",
    "m4-pro-24gb",
    "m4-max-36gb",
    "m4-max-128gb",
    "m5-16gb",
    "arc-a370m",
    "arc-a770-8gb",
    "arc-a770-16gb",
    "arc-b580",
    "arc-pro-b60",
    "rx-6300",
    "rx-6750-gre-12gb",
    "rx-6800-xt",
    "rx-7900-xtx",
    "rx-7600s",
    "rx-9070-xt",
    "mi100",
    "mi300x",
    "mi355x",
};

// Gemma 3 270M with weights in F32, 1.07 GB.
ModelShape Gemma270mInF32() {
  HeaderNumbers numbers("gemma3");
  numbers.Int("context_length", 32'768)
      .Int("embedding_length", 640)
      .Int("block_count", 18)
      .Int("feed_forward_length", 2'048)
      .Int("attention.head_count", 4)
      .Int("attention.head_count_kv", 1)
      .Int("attention.key_length", 256)
      .Int("attention.value_length", 256)
      .Int("attention.sliding_window", 512)
      .Int("vocab_size", 262'144);
  return ShapeWith(numbers, DType::kF32, DType::kF32, true);
}

class InstalledCatalogueTest : public ::testing::Test {
 protected:
  InstalledCatalogueTest() {
    auto catalogue = DeviceCatalogue::Parse(ReadFile("data/devices.csv"));
    EXPECT_TRUE(catalogue.ok()) << catalogue.status();
    if (catalogue.ok()) catalogue_ = *std::move(catalogue);
  }

  // The plan with the longest context that all of the device's memory holds.
  MemoryPlan PlanOn(const std::string& device, const ModelShape& shape,
                    const PlanOptions& options) {
    const auto found = catalogue_.Get(device);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {};
    const DeviceProfile profile = ProfileOf(*found);
    auto plan = Layout(shape, options, profile, profile.free_bytes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *std::move(plan) : MemoryPlan{};
  }

  DeviceCatalogue catalogue_;
};

TEST_F(InstalledCatalogueTest, HasManyDevicesOfEveryKind) {
  EXPECT_THAT(catalogue_.devices().size(), Ge(400u));
  std::map<std::string, int> kinds;
  for (const CatalogueDevice& device : catalogue_.devices()) {
    ++kinds[device.kind];
    EXPECT_EQ(device.name, absl::AsciiStrToLower(device.name));
    // Nobody has built a memory that is read whole more than 100 times or less
    // than once in a minute.
    const int64_t reads_per_minute =
        60 * device.bandwidth_bytes_per_s / device.memory_bytes;
    EXPECT_GE(reads_per_minute, 1) << device.name;
    EXPECT_LE(reads_per_minute, 6'000) << device.name;
  }
  EXPECT_EQ(kinds.size(), 4u);
}

TEST_F(InstalledCatalogueTest, EveryDeviceNamesTheSourceOfItsFigures) {
  for (const CatalogueDevice& device : catalogue_.devices()) {
    EXPECT_FALSE(device.source.empty()) << device.name;
    if (device.memory_basis != MemoryBasis::kDriver) continue;
    // Such a figure was printed somewhere; the row says by what.
    EXPECT_THAT(device.source,
                AnyOf(HasSubstr("nvidia-smi "), HasSubstr("as read on")))
        << device.name;
  }
}

TEST_F(InstalledCatalogueTest, AFigureOfNvidiaSmiIsTheOneThatTheSourceQuotes) {
  const std::string label = "nvidia-smi ";
  for (const CatalogueDevice& device : catalogue_.devices()) {
    const size_t at = device.source.find(label);
    if (at == std::string::npos) continue;
    const std::string total =
        absl::StrCat((device.memory_bytes + (1 << 20) - 1) >> 20, "MiB");
    EXPECT_EQ(device.source.substr(at + label.size()), total) << device.name;
  }
}

TEST_F(InstalledCatalogueTest, NominalMemoryIsWholeGibibytes) {
  for (const CatalogueDevice& device : catalogue_.devices()) {
    if (device.memory_basis != MemoryBasis::kNominal) continue;
    EXPECT_EQ(device.memory_bytes % (int64_t{1} << 30), 0) << device.name;
  }
}

TEST_F(InstalledCatalogueTest, KnowsTheDevicesThatPeopleAskFor) {
  for (const char* name : kAskedFor) {
    EXPECT_NE(catalogue_.Find(name), nullptr) << name;
  }
}

TEST_F(InstalledCatalogueTest, KnowsAnRtx4090AndARaspberryPi5) {
  const auto* rtx = catalogue_.Find("rtx-4090");
  ASSERT_NE(rtx, nullptr);
  EXPECT_EQ(rtx->memory_bytes, int64_t{24'564} << 20);
  EXPECT_EQ(rtx->bandwidth_bytes_per_s, 1'008'000'000'000);
  const auto* board = catalogue_.Find("raspberry-pi-5-8gb");
  ASSERT_NE(board, nullptr);
  EXPECT_EQ(board->kind, "board");
}

// The rate of the memory as it is sold times its width: a table of clocks had
// other figures for these.
TEST_F(InstalledCatalogueTest, BandwidthIsThatOfTheMemoryAsItIsSold) {
  const std::map<std::string, int64_t> gigabits_per_s = {
      {"rx-9060", 18 * 128},         {"rx-9060-xt-8gb", 20 * 128},
      {"rx-9060-xt-16gb", 20 * 128}, {"rx-9070", 20 * 256},
      {"rx-9070-xt", 20 * 256},      {"ai-pro-r9700", 20 * 256}};
  for (const auto& [name, gigabits] : gigabits_per_s) {
    const auto* device = catalogue_.Find(name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_EQ(device->bandwidth_bytes_per_s, gigabits * 1'000'000'000 / 8)
        << name;
  }
  const auto* slow = catalogue_.Find("rx-7400");
  ASSERT_NE(slow, nullptr);
  EXPECT_EQ(slow->bandwidth_bytes_per_s, 172'800'000'000);
}

// The desktop card on which a dense reserve gave 30,840 tokens and a better one
// 123,361.
TEST_F(InstalledCatalogueTest, TheFirstCardHoldsTheWholeContext) {
  const auto* card = catalogue_.Find("rtx-4070-ti");
  ASSERT_NE(card, nullptr);
  EXPECT_EQ(card->memory_bytes, 12'878'086'144);
  EXPECT_EQ(card->memory_basis, MemoryBasis::kDriver);
  PlanOptions options;
  options.k_type = options.v_type = DType::kQ8_0;
  const MemoryPlan plan = PlanOn("rtx-4070-ti", Gemma4(), options);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.n_ctx, 262'144);
}

// The board of 1.9 GB on which the keys and values of a model of 1.06 GB did
// not fit.
TEST_F(InstalledCatalogueTest, TheFirstBoardHoldsItsModel) {
  const auto* board = catalogue_.Find("sl2610");
  ASSERT_NE(board, nullptr);
  EXPECT_EQ(board->kind, "board");
  EXPECT_EQ(board->memory_bytes, 1'900'000'000);
  const ModelShape shape = Gemma270mInF32();
  int64_t weight_bytes = 0;
  for (const auto& tensor : shape.weights) weight_bytes += tensor.file_bytes;
  EXPECT_THAT(weight_bytes, Ge(1'060'000'000));
  const MemoryPlan plan = PlanOn("sl2610", shape, PlanOptions());
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.n_ctx, shape.n_ctx_train);
}

}  // namespace
}  // namespace plimsoll::planner
