#include "services/host/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/json.h"
#include "services/host/background.h"
#include "services/host/log_repeats.h"
#include "services/host/request_scope.h"

namespace plimsoll::services {
namespace {

constexpr char kDropped[] = "lines of this log were dropped";

// A log whose lines go through a pipe to the test.
class LogTest : public ::testing::Test {
 protected:
  LogTest() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~LogTest() override {
    log_.reset();
    for (const int end : ends_) close(end);
  }

  void Start() { StartWith({}); }
  void StartWith(const LogSettings& settings) {
    auto log = LogThread::Start(settings, ends_[1]);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  // Ends the log and returns all lines that nobody has read, but for what they
  // say of lines that tests before this one dropped.
  std::vector<std::string> End() {
    log_.reset();
    std::vector<std::string> lines = ReadThere();
    std::erase_if(lines, [](const std::string& line) {
      return line.find(kDropped) != std::string::npos;
    });
    return lines;
  }

  // Leaves no room in the pipe. Returns how many bytes that took.
  size_t Fill() {
    const std::string filling(4'096, 'x');
    size_t n_bytes = 0;
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    for (const size_t size : {filling.size(), size_t{1}}) {
      ssize_t n;
      while ((n = write(ends_[1], filling.data(), size)) > 0) {
        n_bytes += static_cast<size_t>(n);
      }
    }
    fcntl(ends_[1], F_SETFL, 0);
    return n_bytes;
  }

  // Reads what is in the pipe now.
  std::vector<std::string> ReadThere() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string all;
    std::array<char, 65'536> buffer;
    ssize_t n;
    while ((n = read(ends_[0], buffer.data(), buffer.size())) > 0) {
      all.append(buffer.data(), static_cast<size_t>(n));
    }
    return absl::StrSplit(all, '\n', absl::SkipEmpty());
  }

  std::array<int, 2> ends_ = {-1, -1};
  std::unique_ptr<LogThread> log_;
};

TEST_F(LogTest, WhatWaitsIsWrittenAtTheEnd) {
  Start();
  for (int i = 0; i < 100; ++i) Log(LogLevel::kInfo, "m", {{"i", i}});
  const std::vector<std::string> lines = End();
  ASSERT_EQ(lines.size(), 100u);
  EXPECT_TRUE(lines.front().ends_with(" INFO m i=0")) << lines.front();
  EXPECT_TRUE(lines.back().ends_with(" INFO m i=99")) << lines.back();
}

TEST_F(LogTest, WhatWaitsIsWrittenWhenItIsFlushed) {
  Start();
  for (int i = 0; i < 100; ++i) Log(LogLevel::kInfo, "m", {{"i", i}});
  FlushLog();
  EXPECT_EQ(ReadThere().size(), 100u);
}

TEST_F(LogTest, AFlushWaitsForAReaderThatIsBehind) {
  const size_t n_bytes = Fill();
  Start();
  Log(LogLevel::kInfo, "m");
  Background reader([this, n_bytes] {
    std::string filling(n_bytes, ' ');
    size_t n_read = 0;
    while (n_read < n_bytes) {
      const ssize_t n =
          read(ends_[0], filling.data() + n_read, n_bytes - n_read);
      ASSERT_GT(n, 0);
      n_read += static_cast<size_t>(n);
    }
  });
  FlushLog();
  reader.Join();
  const std::vector<std::string> lines = ReadThere();
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines.back().ends_with(" INFO m")) << lines.back();
}

TEST_F(LogTest, AFlushDoesNotWaitForAReaderThatReadsNothing) {
  Start();
  const std::string line(LogThread::kMaxBytes / 4, 'x');
  Log(LogLevel::kInfo, line);  // more than a pipe has room for
  const absl::Time begin = absl::Now();
  FlushLog();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
}

TEST_F(LogTest, LessImportantLinesAreNotWritten) {
  StartWith({.least = LogLevel::kWarning});
  Log(LogLevel::kInfo, "an info");
  Log(LogLevel::kWarning, "a warning");
  Log(LogLevel::kError, "an error");
  const std::vector<std::string> lines = End();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].ends_with("WARNING a warning"));
  EXPECT_TRUE(lines[1].ends_with("ERROR an error"));
}

TEST_F(LogTest, LinesOfAThreadNameTheRequestThatItWorksFor) {
  Start();
  Log(LogLevel::kInfo, "before");
  {
    const RequestScope scope("one");
    Log(LogLevel::kInfo, "of it", {{"i", 1}});
    Log(LogLevel::kInfo, "of another", {{"request_id", std::string("two")}});
    {
      const RequestScope inner("three");
      Log(LogLevel::kInfo, "within");
    }
    Log(LogLevel::kInfo, "again");
    Background([] { Log(LogLevel::kInfo, "elsewhere"); });
  }
  Log(LogLevel::kInfo, "after");
  const std::vector<std::string> lines = End();
  ASSERT_EQ(lines.size(), 7u);
  const std::array<const char*, 7> ends = {" INFO before",
                                           " INFO of it i=1 request_id=one",
                                           " INFO of another request_id=two",
                                           " INFO within request_id=three",
                                           " INFO again request_id=one",
                                           " INFO elsewhere",
                                           " INFO after"};
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_TRUE(lines[i].ends_with(ends[i])) << lines[i];
  }
}

TEST_F(LogTest, LinesAreJsonIfTheyAreToBe) {
  StartWith({.format = LogFormat::kJson});
  Log(LogLevel::kInfo, "m", {{"bytes", 5}});
  const std::vector<std::string> lines = End();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["bytes"], 5);
}

TEST_F(LogTest, RepeatedWarningsAreHiddenAndInfosAreNot) {
  Start();
  constexpr int kMany = 3 * LogRepeats::kMaxShown;
  for (int i = 0; i < kMany; ++i) {
    Log(LogLevel::kInfo, "repeated info");
    Log(LogLevel::kWarning, "repeated warning", {{"i", i}});
  }
  EXPECT_EQ(End().size(), size_t{kMany + LogRepeats::kMaxShown});
}

TEST_F(LogTest, NobodyWaitsForAReaderThatReadsNothing) {
  Start();
  const int64_t before = DroppedLogLines();
  const std::string kilobyte(1'000, 'x');
  // Fills the pipe, then what may wait.
  const absl::Time begin = absl::Now();
  while (DroppedLogLines() == before) {
    Log(LogLevel::kInfo, "long", {{"f", kilobyte}});
    ASSERT_LT(absl::Now() - begin, absl::Minutes(1));
  }
  Log(LogLevel::kInfo, "lost");
  // Reads until there is room again. A line then says how many are missing.
  std::vector<std::string> lines;
  const auto has_told = [&lines] {
    return !lines.empty() &&
           lines.back().find("after a pause") != std::string::npos;
  };
  while (!has_told()) {
    for (std::string& line : ReadThere()) lines.push_back(std::move(line));
    Log(LogLevel::kInfo, "after a pause");
    absl::SleepFor(absl::Milliseconds(1));
    ASSERT_LT(absl::Now() - begin, absl::Minutes(1));
  }
  const std::string all = absl::StrJoin(lines, "\n");
  EXPECT_NE(all.find(kDropped), std::string::npos);
}

TEST_F(LogTest, LinesBeyondThoseThatMayWaitAreDroppedAndCounted) {
  Fill();
  Start();
  const int64_t before = DroppedLogLines();
  constexpr int kBeyond = 10;
  constexpr int kAll = LogThread::kMaxLines + kBeyond;
  for (int i = 0; i < kAll; ++i) Log(LogLevel::kInfo, "m");
  EXPECT_GE(DroppedLogLines(), before + kBeyond);
  // Each of the others is written once there is room, unless its turn came and
  // went before that.
  int64_t n_read = 0;
  const absl::Time begin = absl::Now();
  while (n_read + DroppedLogLines() < before + kAll) {
    const std::vector<std::string> lines = ReadThere();
    n_read += std::count_if(
        lines.begin(), lines.end(),
        [](const std::string& line) { return line.ends_with(" INFO m"); });
    absl::SleepFor(absl::Milliseconds(1));
    ASSERT_LT(absl::Now() - begin, absl::Minutes(1));
  }
  EXPECT_GT(n_read, LogThread::kMaxLines / 2);
}

TEST_F(LogTest, AnEndDoesNotWaitForEachLineThatWaits) {
  Fill();
  Start();
  const int64_t before = DroppedLogLines();
  for (int i = 0; i < LogThread::kMaxLines; ++i) Log(LogLevel::kInfo, "m");
  const absl::Time begin = absl::Now();
  log_.reset();
  EXPECT_LT(absl::Now() - begin, 10 * LogThread::kPatience);
  EXPECT_EQ(DroppedLogLines(), before + LogThread::kMaxLines);
}

TEST_F(LogTest, AnEndDoesNotWaitForAReaderThatReadsNothing) {
  Start();
  const int64_t before = DroppedLogLines();
  const std::string kilobyte(1'000, 'x');
  for (int i = 0; i < 500; ++i) Log(LogLevel::kInfo, "m", {{"f", kilobyte}});
  const absl::Time begin = absl::Now();
  log_.reset();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
  EXPECT_GT(DroppedLogLines(), before);
}

TEST_F(LogTest, AReaderThatIsGoneEndsNothing) {
  Start();
  const int64_t before = DroppedLogLines();
  close(ends_[0]);
  ends_[0] = -1;
  Log(LogLevel::kInfo, "m");
  log_.reset();
  EXPECT_EQ(DroppedLogLines(), before + 1);
}

TEST_F(LogTest, NoLineIsLostBesideAnEnd) {
  Start();
  constexpr int kEach = 300;
  const auto work = [] {
    for (int i = 0; i < kEach; ++i) Log(LogLevel::kInfo, "m");
  };
  ::testing::internal::CaptureStderr();
  std::vector<std::string> lines;
  {
    const Background one(work);
    const Background other(work);
    lines = End();
  }
  const std::string at_once = ::testing::internal::GetCapturedStderr();
  const auto n_at_once = std::count(at_once.begin(), at_once.end(), '\n');
  EXPECT_EQ(lines.size() + static_cast<size_t>(n_at_once), size_t{2 * kEach});
}

TEST_F(LogTest, ALogMayBeginAgain) {
  Start();
  Log(LogLevel::kInfo, "first");
  EXPECT_EQ(End().size(), 1u);
  Start();
  Log(LogLevel::kInfo, "second");
  EXPECT_EQ(End().size(), 1u);
}

}  // namespace
}  // namespace plimsoll::services
