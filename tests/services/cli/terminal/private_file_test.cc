#include "services/cli/terminal/private_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/read_file.h"

namespace plimsoll::cli {
namespace {

using ::plimsoll::testing::ReadFile;

namespace fs = std::filesystem;

TEST(PrivateFileTest, WritesAWholeFileForItsOwnerAlone) {
  const std::string path = ::testing::TempDir() + "/private_file_test";
  std::ofstream(path) << "something longer that was there before";
  chmod(path.c_str(), 0644);
  ASSERT_TRUE(WritePrivateFile(path, "new").ok());
  EXPECT_EQ(ReadFile(path), "new");
  struct stat now = {};
  ASSERT_EQ(stat(path.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777, 0600u);
  fs::remove(path);
}

TEST(PrivateFileTest, LeavesNothingBehindWhereItFails) {
  const std::string folder = ::testing::TempDir() + "/private_file_folder";
  fs::create_directories(folder + "/is_a_folder/full");
  const absl::Status status = WritePrivateFile(folder + "/is_a_folder", "text");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("is_a_folder: "));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  EXPECT_FALSE(WritePrivateFile(folder + "/none/file", "text").ok());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace plimsoll::cli
