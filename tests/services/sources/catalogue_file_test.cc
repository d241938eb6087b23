#include "services/sources/catalogue_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "planner/fleet/csv.h"

namespace plimsoll::services {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kHeader[] =
    "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
    "source\n";

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(CatalogueFileTest, TheInstalledOneIsFoundFromTheBinary) {
  const auto catalogue = LoadCatalogue("");
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  EXPECT_NE(catalogue->Find("rtx-4090"), nullptr);
}

TEST(CatalogueFileTest, TheUsersFileAddsAndOverrides) {
  const std::string path =
      WriteFile("mine.csv", std::string(kHeader) +
                                "RTX-4090,Mine,gpu,1,driver,1,2020,\n"
                                "other,Other,cpu,1,driver,1,2020,\n");
  const auto catalogue = LoadCatalogue(path);
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  EXPECT_EQ(catalogue->Find("rtx-4090")->title, "Mine");
  EXPECT_NE(catalogue->Find("other"), nullptr);
  EXPECT_NE(catalogue->Find("h100-sxm"), nullptr);
}

TEST(CatalogueFileTest, ErrorsNameTheFileTheLineAndTheColumn) {
  const std::string bad =
      WriteFile("bad.csv", std::string(kHeader) + "a,A,gpu,x,driver,1,2020,\n");
  const absl::Status status = LoadCatalogue(bad).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("bad.csv: line 2, column memory_bytes"));
  EXPECT_EQ(LoadCatalogue("no/such.csv").status().code(), Code::kNotFound);
  EXPECT_EQ(ReadCatalogue(::testing::TempDir()).status().code(),
            Code::kInvalidArgument);
}

TEST(CatalogueFileTest, AFileOfTheLargestSizeIsReadAndALargerOneRefused) {
  std::string text = kHeader;
  text.resize(static_cast<size_t>(planner::CsvRow::kMaxTextBytes), '\n');
  EXPECT_TRUE(ReadCatalogue(WriteFile("largest.csv", text)).ok());
  EXPECT_THAT(std::string(ReadCatalogue(WriteFile("larger.csv", text + "\n"))
                              .status()
                              .message()),
              HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace plimsoll::services
