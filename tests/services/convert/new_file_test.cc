// Files that appear when they are whole.
#include "services/convert/new_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "tests/read_file.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;

namespace fs = std::filesystem;

class NewFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("plimsoll_new_file_" + std::to_string(getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Target() const { return (folder_ / "model.gguf").string(); }

  static absl::Status Append(NewFile& file, const std::string& text) {
    return file.Append(std::as_bytes(std::span(text.data(), text.size())));
  }

  std::string Content() const { return ReadFile(Target()); }

  int64_t CountFiles() const {
    return std::distance(fs::directory_iterator(folder_),
                         fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(NewFileTest, AppearsWithAllItsBytes) {
  {
    auto file = NewFile::Create(Target(), 8, /*overwrites=*/false);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(Append(**file, "one").ok());
    ASSERT_TRUE(Append(**file, " two").ok());
    EXPECT_EQ((*file)->size(), 7);
    EXPECT_FALSE(fs::exists(Target()));
    ASSERT_TRUE((*file)->Commit().ok());
  }
  EXPECT_EQ(Content(), "one two");
  EXPECT_EQ(CountFiles(), 1);
}

TEST_F(NewFileTest, LeavesNothingWithoutACommit) {
  {
    auto file = NewFile::Create(Target(), 1 << 20, /*overwrites=*/false);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(Append(**file, "half").ok());
    EXPECT_EQ(CountFiles(), 1);
  }
  EXPECT_EQ(CountFiles(), 0);
}

TEST_F(NewFileTest, ReplacesAnotherOnlyIfToldSo) {
  std::ofstream(Target()) << "mine";
  EXPECT_TRUE(absl::IsAlreadyExists(
      NewFile::Create(Target(), 0, /*overwrites=*/false).status()));
  EXPECT_EQ(Content(), "mine");
  auto file = NewFile::Create(Target(), 0, /*overwrites=*/true);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(Append(**file, "theirs").ok());
  EXPECT_EQ(Content(), "mine");
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(Content(), "theirs");
}

TEST_F(NewFileTest, AFileThatCameMeanwhileStays) {
  auto file = NewFile::Create(Target(), 0, /*overwrites=*/false);
  ASSERT_TRUE(file.ok());
  std::ofstream(Target()) << "mine";
  EXPECT_TRUE(absl::IsAlreadyExists((*file)->Commit()));
  file->reset();
  EXPECT_EQ(Content(), "mine");
  EXPECT_EQ(CountFiles(), 1);
}

TEST_F(NewFileTest, WhereNoFileCanBeIsAnError) {
  EXPECT_TRUE(absl::IsFailedPrecondition(
      NewFile::Create((folder_ / "no" / "such").string(), 0, false).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      NewFile::Create(Target(), int64_t{1} << 60, false).status()));
  EXPECT_EQ(CountFiles(), 0);
}

}  // namespace
}  // namespace plimsoll::services
