// A file by which a worker's next process knows that the one before has ended.
#include "services/worker/models/holder_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/read_file.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using ::plimsoll::testing::ReadFile;

namespace fs = std::filesystem;

ProcessIdentity ProcessOfBoot(const std::string& boot_id, int64_t pid) {
  return {.pid = pid,
          .start_ticks = 100 + pid,
          .boot_id = boot_id,
          .pid_namespace = 7};
}

ProcessIdentity ProcessOf(int64_t pid) { return ProcessOfBoot("boot", pid); }

std::vector<std::string> NamesOf(const HolderHistory& history) {
  std::vector<std::string> names;
  for (const ProcessIdentity& process : history.former) {
    names.push_back(ToString(process));
  }
  return names;
}

class HolderFileTest : public ::testing::Test {
 protected:
  // What process `own` learns, which then ends.
  HolderHistory OpenAs(const std::optional<ProcessIdentity>& own) {
    const auto file = HolderFile::Open(path_, own);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? (*file)->history() : HolderHistory();
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("holder");
};

TEST_F(HolderFileTest, TheNextProcessHasTheSecretAndKnowsWhoHasEnded) {
  const HolderHistory first = OpenAs(ProcessOf(1));
  EXPECT_EQ(first.secret.size(), 32u);
  EXPECT_TRUE(first.former.empty());
  const HolderHistory second = OpenAs(ProcessOf(2));
  EXPECT_EQ(second.secret, first.secret);
  EXPECT_EQ(NamesOf(second), std::vector{ToString(ProcessOf(1))});
  const HolderHistory third = OpenAs(ProcessOf(3));
  EXPECT_EQ(NamesOf(third),
            (std::vector{ToString(ProcessOf(1)), ToString(ProcessOf(2))}));
}

TEST_F(HolderFileTest, NobodyGetsItWhileAProcessHasIt) {
  const auto first = HolderFile::Open(path_, ProcessOf(1));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string text = ReadFile(path_);
  const auto second = HolderFile::Open(path_, ProcessOf(2));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReadFile(path_), text);
}

TEST_F(HolderFileTest, TheKernelSaysWhenAKilledProcessHasEnded) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto file = HolderFile::Open(path_, ProcessOf(1));
    const char is_open = file.ok() ? 1 : 0;
    [[maybe_unused]] const ssize_t n = write(ready[1], &is_open, 1);
    while (true) pause();
  }
  char is_open = 0;
  ASSERT_EQ(read(ready[0], &is_open, 1), 1);
  EXPECT_EQ(is_open, 1);
  // One that is stopped has not ended.
  kill(child, SIGSTOP);
  EXPECT_TRUE(absl::IsAborted(HolderFile::Open(path_, ProcessOf(2)).status()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(NamesOf(OpenAs(ProcessOf(2))), std::vector{ToString(ProcessOf(1))});
  close(ready[0]);
  close(ready[1]);
}

TEST_F(HolderFileTest, ACopyProvesNothing) {
  const std::string first = OpenAs(ProcessOf(1)).secret;
  const auto lives = HolderFile::Open(path_, ProcessOf(2));
  ASSERT_TRUE(lives.ok()) << lives.status();
  const std::string copy = path_ + "-copy";
  fs::copy_file(path_, copy);
  const auto other = HolderFile::Open(copy, ProcessOf(3));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->history().secret, first);
  EXPECT_TRUE((*other)->history().former.empty());
}

TEST_F(HolderFileTest, ARemovedFileTakesItsSecretAlong) {
  const auto lives = HolderFile::Open(path_, ProcessOf(1));
  ASSERT_TRUE(lives.ok()) << lives.status();
  fs::remove(path_);
  const HolderHistory next = OpenAs(ProcessOf(2));
  EXPECT_NE(next.secret, (*lives)->history().secret);
  EXPECT_TRUE(next.former.empty());
}

TEST_F(HolderFileTest, AnotherBootProvesNothing) {
  const std::string first = OpenAs(ProcessOfBoot("before", 1)).secret;
  const HolderHistory second = OpenAs(ProcessOfBoot("after", 1));
  EXPECT_EQ(second.secret, first);
  EXPECT_TRUE(second.former.empty());
}

TEST_F(HolderFileTest, AProcessWithoutANameNeitherProvesNorIsProven) {
  OpenAs(ProcessOf(1));
  EXPECT_TRUE(OpenAs(std::nullopt).former.empty());
  EXPECT_TRUE(OpenAs(ProcessOf(3)).former.empty());
}

TEST_F(HolderFileTest, ItHasTheLastProcesses) {
  constexpr int64_t kProcesses = HolderFile::kMaxFormer + 2;
  for (int64_t pid = 1; pid <= kProcesses; ++pid) OpenAs(ProcessOf(pid));
  const HolderHistory last = OpenAs(ProcessOf(kProcesses + 1));
  ASSERT_EQ(last.former.size(), HolderFile::kMaxFormer);
  EXPECT_EQ(last.former.front().pid, 3);
  EXPECT_EQ(last.former.back().pid, kProcesses);
  EXPECT_LT(fs::file_size(path_), HolderFile::kMaxBytes);
}

TEST_F(HolderFileTest, TheLongestNamesFit) {
  const std::string boot(ProcessIdentity::kMaxBootIdBytes, 'b');
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const ProcessIdentity longest = {.pid = kMost,
                                   .start_ticks = kMost,
                                   .boot_id = boot,
                                   .pid_namespace = kMost};
  for (int64_t i = 0; i <= int64_t{HolderFile::kMaxFormer}; ++i) {
    ProcessIdentity process = longest;
    process.pid -= i;
    OpenAs(process);
  }
  EXPECT_EQ(OpenAs(ProcessOfBoot(boot, 1)).former.size(),
            HolderFile::kMaxFormer);
  EXPECT_LT(fs::file_size(path_), HolderFile::kMaxBytes);
}

TEST_F(HolderFileTest, AProcessThatIsKilledBeforeTheCutLosesNothing) {
  const HolderHistory first = OpenAs(ProcessOf(1));
  std::ofstream(path_, std::ios::app) << "ess boot:7:5:105\nend\n";
  const HolderHistory second = OpenAs(ProcessOf(2));
  EXPECT_EQ(second.secret, first.secret);
  EXPECT_EQ(NamesOf(second), std::vector{ToString(ProcessOf(1))});
}

TEST_F(HolderFileTest, TextThatMakesNoSenseIsWrittenAnew) {
  const std::string secret = OpenAs(ProcessOf(1)).secret;
  const std::string good = ReadFile(path_);
  const std::vector<std::string> texts = {
      "\n",
      "end\n",
      std::string(1 << 20, 'x'),
      good.substr(0, good.size() - 4),  // without its end
      good.substr(0, good.size() - 6),  // within its last process
      absl::StrReplaceAll(good, {{"holder 1", "holder 2"}}),
      absl::StrReplaceAll(good, {{"file ", "file 1"}}),
      absl::StrReplaceAll(good, {{"secret ", "secret x"}}),
      absl::StrReplaceAll(good, {{secret, secret.substr(1) + "g"}}),
      absl::StrReplaceAll(good, {{"boot:7", "boot"}}),
      absl::StrReplaceAll(good, {{"process", "progress"}})};
  for (const std::string& text : texts) {
    std::ofstream(path_) << text;
    const HolderHistory next = OpenAs(ProcessOf(2));
    EXPECT_NE(next.secret, secret) << text.substr(0, 200);
    EXPECT_TRUE(next.former.empty()) << text.substr(0, 200);
    EXPECT_LT(fs::file_size(path_), HolderFile::kMaxBytes);
  }
}

TEST_F(HolderFileTest, OnlyItsOwnerReadsIt) {
  OpenAs(ProcessOf(1));
  ASSERT_EQ(chmod(path_.c_str(), 0664), 0);
  OpenAs(ProcessOf(2));
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(HolderFileTest, WhatIsNoFileIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      HolderFile::Open(folder_.File(""), ProcessOf(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      HolderFile::Open("/dev/null", ProcessOf(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      HolderFile::Open(folder_.File("no/file"), ProcessOf(1)).status()));
  fs::create_symlink(path_, folder_.File("link"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      HolderFile::Open(folder_.File("link"), ProcessOf(1)).status()));
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace plimsoll::services
