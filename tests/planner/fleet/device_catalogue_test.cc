#include "planner/fleet/device_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "planner/fleet/placement.h"

namespace plimsoll::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHeader[] =
    "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
    "source\n";

DeviceCatalogue Parsed(absl::string_view lines) {
  auto catalogue = DeviceCatalogue::Parse(absl::StrCat(kHeader, lines));
  EXPECT_TRUE(catalogue.ok()) << catalogue.status();
  return catalogue.ok() ? *std::move(catalogue) : DeviceCatalogue();
}

std::string CatalogueError(absl::string_view lines) {
  const auto catalogue = DeviceCatalogue::Parse(absl::StrCat(kHeader, lines));
  EXPECT_EQ(catalogue.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(catalogue.status().message());
}

std::vector<std::string> Names(const DeviceCatalogue& catalogue) {
  std::vector<std::string> names;
  for (const auto& device : catalogue.devices()) names.push_back(device.name);
  return names;
}

TEST(DeviceCatalogueTest, ReadsEveryColumn) {
  const DeviceCatalogue catalogue =
      Parsed("x-1,Maker X 1,board,4096,nominal,100,2020,a page, and a test\n");
  ASSERT_EQ(catalogue.devices().size(), 1u);
  const CatalogueDevice& device = catalogue.devices()[0];
  EXPECT_EQ(device.name, "x-1");
  EXPECT_EQ(device.title, "Maker X 1");
  EXPECT_EQ(device.kind, "board");
  EXPECT_EQ(device.memory_bytes, 4'096);
  EXPECT_EQ(device.memory_basis, MemoryBasis::kNominal);
  EXPECT_EQ(device.bandwidth_bytes_per_s, 100);
  EXPECT_EQ(device.year, 2020);
  EXPECT_EQ(device.source, "a page, and a test");
  EXPECT_STREQ(MemoryBasisName(MemoryBasis::kNominal), "nominal");
  EXPECT_STREQ(MemoryBasisName(MemoryBasis::kDriver), "driver");
}

TEST(DeviceCatalogueTest, IsSortedByMemoryThenBandwidthThenName) {
  EXPECT_THAT(Names(Parsed("d,D,gpu,2,driver,1,2020,\n"
                           "c,C,gpu,1,driver,9,2020,\n"
                           "b,B,gpu,1,driver,3,2020,\n"
                           "a,A,gpu,1,driver,3,2020,\n")),
              ElementsAre("a", "b", "c", "d"));
}

TEST(DeviceCatalogueTest, ErrorsNameLineAndColumn) {
  EXPECT_EQ(CatalogueError("x,X,tpu,1,driver,1,2020,"),
            "line 2, column kind: 'tpu' is not one of gpu, unified, board, "
            "cpu");
  EXPECT_EQ(CatalogueError("x,X,gpu,24GB,driver,1,2020,"),
            "line 2, column memory_bytes: '24GB' is not a whole number from 1 "
            "to 281474976710656");
  EXPECT_EQ(CatalogueError("x,X,gpu,1,guess,1,2020,"),
            "line 2, column memory_basis: 'guess' is not driver or nominal");
  EXPECT_THAT(CatalogueError("x,X,gpu,1,driver,0,2020,"),
              HasSubstr("column bandwidth_bytes_per_s"));
  EXPECT_THAT(CatalogueError("x,X,gpu,1,driver,1,20,"),
              HasSubstr("column year"));
  EXPECT_THAT(CatalogueError("x y,X,gpu,1,driver,1,2020,"),
              HasSubstr("column name"));
  EXPECT_EQ(
      CatalogueError("x,X,gpu,1,driver,1,2020,\nX,X,gpu,1,driver,1,2020,"),
      "line 3, column name: X is there twice");
}

TEST(DeviceCatalogueTest, WorksAtEachLimitAndRefusesOneMore) {
  const auto line = [](int64_t memory, int64_t bandwidth, int64_t year) {
    return absl::StrCat("x,X,gpu,", memory, ",driver,", bandwidth, ",", year,
                        ",");
  };
  using D = CatalogueDevice;
  Parsed(line(D::kMaxMemoryBytes, D::kMaxBandwidth, D::kMaxYear));
  Parsed(line(1, 1, D::kMinYear));
  EXPECT_THAT(CatalogueError(line(D::kMaxMemoryBytes + 1, 1, 2020)),
              HasSubstr("memory_bytes"));
  EXPECT_THAT(CatalogueError(line(1, D::kMaxBandwidth + 1, 2020)),
              HasSubstr("bandwidth"));
  EXPECT_THAT(CatalogueError(line(1, 1, D::kMaxYear + 1)), HasSubstr("year"));
  EXPECT_THAT(CatalogueError(line(1, 1, D::kMinYear - 1)), HasSubstr("year"));

  std::string lines;
  for (int64_t i = 0; i < DeviceCatalogue::kMaxDevices; ++i) {
    absl::StrAppend(&lines, "d", i, ",D,gpu,1,driver,1,2020,\n");
  }
  EXPECT_EQ(Parsed(lines).devices().size(), 4'096u);
  EXPECT_THAT(CatalogueError(lines + "x,X,gpu,1,driver,1,2020,"),
              HasSubstr("more than 4096 rows"));
}

TEST(DeviceCatalogueTest, AnotherCatalogueAddsAndReplacesByName) {
  DeviceCatalogue catalogue =
      Parsed("a,A,gpu,1,driver,1,2020,\nb,B,gpu,2,driver,1,2020,\n");
  catalogue.Merge(
      Parsed("A,Mine,gpu,5,driver,1,2020,\nc,C,gpu,3,driver,1,2020,\n"));
  EXPECT_THAT(Names(catalogue), ElementsAre("b", "c", "A"));
  EXPECT_EQ(catalogue.Find("a")->title, "Mine");
}

TEST(DeviceCatalogueTest, NamesAreFoundInAnyCaseAndCloseOnesAreSuggested) {
  const DeviceCatalogue catalogue = Parsed(
      "rtx-4070,A,gpu,1,driver,1,2020,\nrtx-4090,B,gpu,2,driver,1,2020,"
      "\n");
  EXPECT_EQ(catalogue.Get("RTX-4090")->title, "B");
  EXPECT_EQ(catalogue.Find("rtx"), nullptr);
  const absl::Status close = catalogue.Get("rtx").status();
  EXPECT_EQ(close.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(close.message(),
            "no device 'rtx' is in the catalogue; did you mean rtx-4070, "
            "rtx-4090");
  EXPECT_EQ(catalogue.Get("rtx-4090-ti").status().message(),
            "no device 'rtx-4090-ti' is in the catalogue; did you mean "
            "rtx-4090");
  EXPECT_EQ(catalogue.Get("mi300x").status().message(),
            "no device 'mi300x' is in the catalogue");
}

TEST(DeviceCatalogueTest, AProfileHasTheWholeMemoryAndIsValid) {
  const DeviceCatalogue catalogue =
      Parsed("x,Maker X,gpu,4096,driver,1,2020,\n");
  const DeviceProfile profile = ProfileOf(catalogue.devices()[0]);
  EXPECT_TRUE(ValidateProfile(profile).ok());
  EXPECT_EQ(profile.id, "x");
  EXPECT_EQ(profile.name, "Maker X");
  EXPECT_EQ(profile.total_bytes, 4'096);
  EXPECT_EQ(profile.free_bytes, 4'096);
}

TEST(DeviceCatalogueTest, AProfileHasTheRulesOfItsKind) {
  const DeviceCatalogue catalogue = Parsed(
      "a,A,gpu,1,driver,1,2020,\nb,B,board,2,driver,1,2020,\n"
      "c,C,cpu,3,driver,1,2020,\nd,D,unified,4,driver,1,2020,\n");
  for (const CatalogueDevice& device : catalogue.devices()) {
    const DeviceProfile profile = ProfileOf(device);
    const bool is_gpu = device.kind == "gpu";
    EXPECT_EQ(FindStorageRule(profile, DType::kQ4_0)->row_multiple == 1,
              is_gpu);
    EXPECT_EQ(profile.runtime_bytes, is_gpu
                                         ? CommittedGpuProfile().runtime_bytes
                                         : CommittedCpuProfile().runtime_bytes);
  }
}

TEST(ParseFleetTest, ReadsIdsDevicesAndWhatIsAvailable) {
  const auto fleet =
      ParseFleet("id,device,available_bytes\nn1/0,a,100\nn1/1,b,\nn2/0,a,0\n");
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  ASSERT_EQ(fleet->size(), 3u);
  EXPECT_EQ((*fleet)[0].id, "n1/0");
  EXPECT_EQ((*fleet)[0].device, "a");
  EXPECT_EQ((*fleet)[0].available_bytes, 100);
  EXPECT_EQ((*fleet)[1].available_bytes, std::nullopt);
  EXPECT_EQ((*fleet)[2].available_bytes, 0);
}

TEST(ParseFleetTest, ErrorsNameLineAndColumn) {
  const auto error = [](absl::string_view lines) {
    const auto fleet =
        ParseFleet(absl::StrCat("id,device,available_bytes\n", lines));
    EXPECT_EQ(fleet.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(fleet.status().message());
  };
  EXPECT_EQ(error("a,x,1\na,y,1"), "line 3, column id: a is there twice");
  EXPECT_THAT(error("a b,x,"), HasSubstr("line 2, column id"));
  EXPECT_THAT(error("a,x y,"), HasSubstr("line 2, column device"));
  EXPECT_THAT(error("a,x,-1"), HasSubstr("line 2, column available_bytes"));
}

TEST(ParseFleetTest, WorksAtTheLimitAndRefusesOneMore) {
  std::string text = "id,device,available_bytes\n";
  for (int64_t i = 0; i < PlacementProblem::kMaxDevices; ++i) {
    absl::StrAppend(&text, "d", i, ",x,\n");
  }
  EXPECT_EQ(ParseFleet(text)->size(), 4'096u);
  EXPECT_THAT(std::string(ParseFleet(text + "e,x,\n").status().message()),
              HasSubstr("more than 4096 rows"));
}

}  // namespace
}  // namespace plimsoll::planner
