// What was pulled from where, and digests of what the cache has.
#include "services/fetch/pull_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "services/fetch/digest.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::fetch {
namespace {

namespace fs = std::filesystem;
using services::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Status NoCheck() { return absl::OkStatus(); }

class PullRecordTest : public ::testing::Test {
 protected:
  std::string Cache() const {
    return fs::path(folder_.File("")).parent_path().string();
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.File(name)) << text;
  }
  RecordedFile Recorded(const std::string& name, const std::string& text) {
    Write(name, text);
    return *RecordOf(Cache(), name, TextDigest(text));
  }

  TemporaryFolder folder_;
};

TEST_F(PullRecordTest, ARecordIsReadAsItWasWritten) {
  const RecordedFile file = Recorded("m.gguf", "abc");
  EXPECT_EQ(file.bytes, 3);
  ASSERT_TRUE(WriteRecord(Cache(), "hf:o/r", {file}).ok());
  EXPECT_THAT(ReadRecord(Cache(), "hf:o/r"), ElementsAre(file));
  EXPECT_THAT(ReadRecord(Cache(), "hf:o/other"), IsEmpty());
}

TEST_F(PullRecordTest, MostFilesAreReadAndOneMoreIsNot) {
  const RecordedFile file = Recorded("m.gguf", "abc");
  std::vector<RecordedFile> files(kMaxPullFiles, file);
  ASSERT_TRUE(WriteRecord(Cache(), "a", files).ok());
  EXPECT_EQ(ReadRecord(Cache(), "a").size(), kMaxPullFiles);
  files.push_back(file);
  ASSERT_TRUE(WriteRecord(Cache(), "a", files).ok());
  EXPECT_THAT(ReadRecord(Cache(), "a"), IsEmpty());
}

TEST_F(PullRecordTest, ARecordCannotNameFilesElsewhere) {
  RecordedFile file = Recorded("m.gguf", "abc");
  file.name = "../m.gguf";
  ASSERT_TRUE(WriteRecord(Cache(), "a", {file}).ok());
  EXPECT_THAT(ReadRecord(Cache(), "a"), IsEmpty());
}

TEST_F(PullRecordTest, WhatIsNoRecordIsNone) {
  ASSERT_TRUE(WriteRecord(Cache(), "a", {}).ok());
  const std::string path =
      (*fs::directory_iterator(folder_.File(".pulls"))).path();
  for (const char* text :
       {"", "[", "7", "{}", "{\"files\":[7]}", "{\"files\":7}",
        "{\"files\":[{\"name\":\"m.gguf\",\"sha256\":\"x\"}]}"}) {
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_THAT(ReadRecord(Cache(), "a"), IsEmpty()) << text;
  }
}

TEST_F(PullRecordTest, AnUnchangedFileHasItsRecordedDigest) {
  RecordedFile file = Recorded("m.gguf", "abc");
  file.sha256 = std::string(64, 'b');  // no reading would give this
  EXPECT_EQ(*CachedDigest(Cache(), "m.gguf", {file}, NoCheck), file.sha256);
}

TEST_F(PullRecordTest, AChangedFileIsRead) {
  const RecordedFile file = Recorded("m.gguf", "abc");
  Write("m.gguf", "abcd");
  EXPECT_EQ(*CachedDigest(Cache(), "m.gguf", {file}, NoCheck),
            TextDigest("abcd"));
  EXPECT_TRUE(absl::IsNotFound(
      CachedDigest(Cache(), "other.gguf", {file}, NoCheck).status()));
}

}  // namespace
}  // namespace plimsoll::fetch
