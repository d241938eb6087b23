#include "services/cli/chat/history_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace plimsoll::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HistoryFileTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> Lines() {
    const auto lines = HistoryFile(path_).Read();
    EXPECT_TRUE(lines.ok()) << lines.status();
    return lines.value_or(std::vector<std::string>());
  }
  uint32_t ModeOf(const std::string& path) {
    struct stat now = {};
    EXPECT_EQ(stat(path.c_str(), &now), 0);
    return now.st_mode & 0777;
  }

  const std::string folder_ = ::testing::TempDir() + "/history_file_test";
  const std::string path_ = folder_ + "/state/plimsoll/chat_history";
};

TEST_F(HistoryFileTest, KeepsLinesForTheirOwnerAlone) {
  EXPECT_THAT(Lines(), IsEmpty());
  HistoryFile file(path_);
  for (const char* line : {"one", "two", "two", "", "one"}) {
    ASSERT_TRUE(file.Append(line).ok());
  }
  EXPECT_THAT(Lines(), ElementsAre("one", "two", "one"));
  EXPECT_EQ(ModeOf(path_), 0600u);
  EXPECT_EQ(ModeOf(folder_ + "/state/plimsoll"), 0700u);
  // The next chat knows the last line, too.
  HistoryFile next(path_);
  ASSERT_TRUE(next.Read().ok());
  ASSERT_TRUE(next.Append("one").ok());
  EXPECT_EQ(Lines().size(), 3u);
}

TEST_F(HistoryFileTest, TakesAModeThatIsTooWideBack) {
  HistoryFile file(path_);
  ASSERT_TRUE(file.Append("one").ok());
  chmod(path_.c_str(), 0644);
  ASSERT_TRUE(file.Append("two").ok());
  EXPECT_EQ(ModeOf(path_), 0600u);
}

TEST_F(HistoryFileTest, TwoChatsShareIt) {
  HistoryFile one(path_);
  HistoryFile other(path_);
  ASSERT_TRUE(one.Append("a").ok());
  ASSERT_TRUE(other.Append("b").ok());
  ASSERT_TRUE(one.Append("c").ok());
  EXPECT_THAT(Lines(), ElementsAre("a", "b", "c"));
}

TEST_F(HistoryFileTest, KeepsTheNewestLinesAndNoMore) {
  HistoryFile file(path_);
  for (size_t i = 0; i < HistoryFile::kMaxLines; ++i) {
    ASSERT_TRUE(file.Append(std::to_string(i)).ok());
  }
  EXPECT_EQ(Lines().size(), HistoryFile::kMaxLines);
  ASSERT_TRUE(file.Append("newest").ok());
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), HistoryFile::kMaxLines);
  EXPECT_EQ(lines.front(), "1");
  EXPECT_EQ(lines.back(), "newest");
  std::ifstream left(path_);
  std::string first;
  std::getline(left, first);
  EXPECT_EQ(first, "1") << "the file is cut";
  EXPECT_EQ(ModeOf(path_), 0600u);
}

TEST_F(HistoryFileTest, ALineHasALimit) {
  HistoryFile file(path_);
  ASSERT_TRUE(file.Append(std::string(HistoryFile::kMaxLineBytes, 'a')).ok());
  ASSERT_TRUE(
      file.Append(std::string(HistoryFile::kMaxLineBytes + 1, 'b')).ok());
  ASSERT_TRUE(file.Append("two\nlines").ok());
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(HistoryFileTest, SaysWhyNothingIsKept) {
  fs::create_directories(folder_);
  std::ofstream(folder_ + "/state") << "a file";
  EXPECT_EQ(HistoryFile(path_).Append("one").code(),
            absl::StatusCode::kUnavailable);
}

TEST(HistoryPathTest, IsInTheStateFolder) {
  const char* old_state = std::getenv("XDG_STATE_HOME");
  const std::string kept = old_state == nullptr ? "" : old_state;
  setenv("XDG_STATE_HOME", "/var/state", 1);
  EXPECT_EQ(HistoryPath(), "/var/state/plimsoll/chat_history");
  setenv("XDG_STATE_HOME", "relative", 1);
  const char* home = std::getenv("HOME");
  if (home != nullptr) {
    EXPECT_EQ(HistoryPath(),
              std::string(home) + "/.local/state/plimsoll/chat_history");
  }
  if (old_state == nullptr) {
    unsetenv("XDG_STATE_HOME");
  } else {
    setenv("XDG_STATE_HOME", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace plimsoll::cli
