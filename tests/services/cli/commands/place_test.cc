// `plimsoll place` and the catalogue in `plimsoll devices`, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/cli/backends/local_queries.h"
#include "services/cli/commands/cli.h"
#include "services/cli/terminal/terminal.h"
#include "services/cli/views/place_view.h"
#include "tests/planner/tiny_models.h"
#include "tests/services/cli/run_cli.h"

namespace plimsoll::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;

constexpr char kHeader[] =
    "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
    "source\n";

class PlaceTest : public ::testing::Test {
 protected:
  PlaceTest()
      : model_(Write("tiny.gguf",
                     planner::BuilderOf(planner::TinyModel()).Build())) {}

  static std::string Write(const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static void ExpectNarrow(const std::string& text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_THAT(Columns(line), Le(80)) << line;
    }
  }

  const std::string model_;
};

TEST_F(PlaceTest, ShowsWhatLiesOnEachDevice) {
  const CliResult result =
      RunCli({"place", "--model", model_ + ":3", "--device", "rtx-4090:2",
              "--max-per-device", "2"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("rtx-4090/1"), HasSubstr("rtx-4090/2"),
                    HasSubstr("2  tiny\n"),
                    HasSubstr("PLACED: 3 of 3 replicas on 2 of 2 devices"),
                    HasSubstr("proven: no fewer will do")));
  ExpectNarrow(result.out);
}

TEST_F(PlaceTest, WhatFindsNoPlaceEndsWithThreeAndACertificate) {
  const CliResult result = RunCli(
      {"place", "--model", model_, "--device", "64KiB", "--device", "32KiB"});
  EXPECT_EQ(result.code, kExitDoesNotFit);
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("NOT ALL PLACED: 0 of 1 replica on 0 of 2"),
            HasSubstr("no place: tiny, 1 replica"),
            HasSubstr("2 would be too small even if empty"),
            HasSubstr("64KiB comes closest"), HasSubstr("all replicas want")));
  ExpectNarrow(result.out);
}

TEST_F(PlaceTest, JsonHasThePlacementAndTheCertificateGoesToStandardError) {
  const CliResult result = RunCli(
      {"place", "--model", model_ + ":2:7", "--device", "64KiB", "-o", "json"});
  EXPECT_EQ(result.code, kExitDoesNotFit);
  EXPECT_THAT(result.out, AllOf(HasSubstr("\"n_wanted\": 2"),
                                HasSubstr("\"n_too_small\": 1"),
                                HasSubstr("\"is_optimal\": true")));
  EXPECT_THAT(result.err, HasSubstr("tiny, 2 replicas: of 1 device"));
}

TEST_F(PlaceTest, AModelNamedTwiceIsToldApart) {
  const CliResult result = RunCli({"place", "--model", model_, "--model",
                                   model_ + ":1:3", "--device", "rtx-4090"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("1  tiny\n"), HasSubstr("1  tiny#2\n")));
}

TEST_F(PlaceTest, ReadsAFleetFromAFileOrStandardInput) {
  const std::string fleet =
      "id,device,available_bytes\nn1,rtx-4090,\nn2,rtx-4090,1000\nn3,64KiB,\n";
  const std::string path = Write("fleet.csv", fleet);
  for (const CliResult& result :
       {RunCli({"place", "--model", model_, "--fleet", path}),
        RunCliWithInput({"place", "--model", model_, "--fleet", "-"}, fleet)}) {
    EXPECT_EQ(result.code, kExitOk) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("n1"), HasSubstr("1 of 3 devices"),
                                  HasSubstr("unused: 2 devices")));
  }
  const CliResult bad =
      RunCliWithInput({"place", "--model", model_, "--fleet", "-"},
                      "id,device,available_bytes\nn1,rtx-4090,some\n");
  EXPECT_EQ(bad.code, kExitError);
  EXPECT_THAT(bad.err, HasSubstr("-: line 2, column available_bytes"));
}

TEST_F(PlaceTest, UsersFilesAddDevices) {
  const std::string path =
      Write("own.csv", absl::StrCat(kHeader,
                                    "mine,Mine,gpu,8589934592,driver,1,2020,"
                                    "\n"));
  EXPECT_EQ(RunCli({"place", "--model", model_, "--device", "mine"}).code,
            kExitError);
  EXPECT_EQ(RunCli({"place", "--model", model_, "--device", "mine",
                    "--catalogue", path})
                .code,
            kExitOk);
}

TEST_F(PlaceTest, MistakesAreToldApartFromErrors) {
  struct Line {
    std::vector<std::string> args;
    int code;
    const char* message;
  };
  for (const Line& line : std::vector<Line>{
           {{"--device", "rtx-4090"}, kExitUsage, "there is no model"},
           {{"--model", model_}, kExitUsage, "there is no device"},
           {{"--model", model_ + ":0", "--device", "t4"},
            kExitUsage,
            "replicas must be 1 to 16384"},
           {{"--model", model_ + ":16385", "--device", "t4"},
            kExitUsage,
            "replicas must be 1 to 16384"},
           {{"--model", model_ + ":0:1", "--device", "t4"},
            kExitUsage,
            "from 1 to 16384"},
           {{"--model", model_, "--device", "t4", "--n-ctx", "auto"},
            kExitUsage,
            "--n-ctx N or max"},
           {{"--model", model_, "--device", "t4:0"},
            kExitUsage,
            "from 1 to 4096"},
           {{"--model", model_, "--device", "t4:4096", "--device", "t4"},
            kExitUsage,
            "more than 4096 devices"},
           {{"--model", model_, "--device", "t4", "--device-memory", "1GiB"},
            kExitUsage,
            "--device-memory"},
           {{"--model", model_, "--address", "localhost:1"},
            kExitUsage,
            "--planner"},
           {{"--model", model_, "--planner", "localhost:1", "--catalogue", "x"},
            kExitUsage,
            "its own catalogue"},
           {{"--model", model_, "--device", "rtx"}, kExitError, "did you mean"},
           {{"--model", "no/such.gguf", "--device", "t4"},
            kExitError,
            "no/such.gguf"},
           {{"--model", model_, "--device", "t4", "--catalogue", "no/such.csv"},
            kExitError,
            "no/such.csv"},
           {{"--model", model_, "--planner", "127.0.0.1:1"},
            kExitError,
            "127.0.0.1:1"}}) {
    std::vector<std::string> args = {"place"};
    args.insert(args.end(), line.args.begin(), line.args.end());
    const CliResult result = RunCli(args);
    EXPECT_EQ(result.code, line.code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(line.message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(PlaceTest, TheCatalogueIsListedByMemory) {
  const CliResult result = RunCli({"devices", "--catalogue"});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("NVIDIA GeForce RTX 4090"));
  EXPECT_LT(result.out.find("raspberry-pi-5-4gb"), result.out.find("rtx-4090"));
  EXPECT_LT(result.out.find("rtx-4090"), result.out.find("h200"));
  ExpectNarrow(result.out);
  EXPECT_THAT(RunCli({"devices", "--catalogue", "-o", "json"}).out,
              HasSubstr("\"memory_basis\": \"MEMORY_BASIS_DRIVER\""));
}

TEST_F(PlaceTest, DevicesThatAModelFitsOnComeWithTheirBounds) {
  const std::string path =
      Write("two.csv", absl::StrCat(kHeader,
                                    "speck,Speck,board,1024,driver,1,2020,\n"
                                    "mine,Mine,board,104857600,driver,1,2020,"
                                    "\n"));
  const CliResult result =
      RunCli({"devices", "--fits", model_, "--catalogue", path});
  EXPECT_EQ(result.code, kExitOk) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("rtx-4090"), Not(HasSubstr("speck")),
                    HasSubstr("smallest: Mine"), HasSubstr("ESTIMATED"),
                    HasSubstr("a GiB more holds")));
  ExpectNarrow(result.out);
  EXPECT_THAT(RunCli({"devices", "--fits", model_, "-o", "json"}).out,
              HasSubstr("\"max_sessions\": "));
}

TEST_F(PlaceTest, AModelThatFitsNowhereEndsWithThree) {
  planner::TinyModel huge;
  huge.n_ctx = 1U << 31;
  const std::string path = Write("huge.gguf", planner::BuilderOf(huge).Build());
  const CliResult none =
      RunCli({"devices", "--fits", path, "--n-ctx", "max", "--slots", "4096"});
  EXPECT_EQ(none.code, kExitDoesNotFit);
  EXPECT_THAT(none.err, HasSubstr("fits on no device of the catalogue"));
}

TEST_F(PlaceTest, APlanTakesTheMemoryOfADeviceInTheCatalogue) {
  const CliResult plan =
      RunCli({"plan", model_, "--device", "RTX-4090", "-o", "json"});
  EXPECT_EQ(plan.code, kExitOk) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("\"budget_bytes\": \"25757220864\""));
  EXPECT_THAT(RunCli({"plan", model_, "--device", "rtx-4090"}).out,
              HasSubstr("tiny.gguf on NVIDIA GeForce RTX 4090"));
  // No more than is asked for.
  EXPECT_THAT(RunCli({"plan", model_, "--device", "rtx-4090", "--device-memory",
                      "1GiB", "-o", "json"})
                  .out,
              HasSubstr("\"budget_bytes\": \"1073741824\""));
  const CliResult unknown = RunCli({"plan", model_, "--device", "rtx-40"});
  EXPECT_EQ(unknown.code, kExitError);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean"));
}

TEST(SizeOfDeviceTest, NeedsAUnit) {
  EXPECT_EQ(SizeOfDevice("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(SizeOfDevice("4090"), std::nullopt);
  EXPECT_EQ(SizeOfDevice("rtx-4090"), std::nullopt);
  EXPECT_EQ(SizeOfDevice("h100-sxm"), std::nullopt);
  EXPECT_EQ(SizeOfDevice(""), std::nullopt);
}

TEST(RenderPlacementTest, SaysWhatIsNotProvenAndPrintsNoEscapes) {
  v1::PlaceModelsResponse placement;
  v1::FilledDevice& device = *placement.add_devices();
  device.set_id("gpu\033");
  device.set_available_bytes(100 << 20);
  device.set_used_bytes(50 << 20);
  v1::PlacedModel& model = *device.add_models();
  model.set_name("m\033");
  model.set_n_replicas(2);
  placement.set_n_wanted(2);
  placement.set_n_placed(2);
  placement.set_n_devices_used(1);
  placement.set_min_devices_bound(1);
  placement.set_available_bytes(100 << 20);
  EXPECT_EQ(RenderPlacement(placement, Style()),
            R"(  device      used      free  load          n  model
  gpu?    50.0 MiB  50.0 MiB  [#####.....]  2  m?

  PLACED: 2 of 2 replicas on 1 of 1 device
  bound: at least 1 are needed
)");
  placement.set_n_wanted(4);
  placement.set_max_placed_bound(3);
  EXPECT_THAT(RenderPlacement(placement, Style()),
              HasSubstr("bound: at most 3 could find a place"));
  placement.set_is_optimal(true);
  EXPECT_THAT(RenderPlacement(placement, Style()),
              HasSubstr("proven: no more find a place by priority"));
}

}  // namespace
}  // namespace plimsoll::cli
