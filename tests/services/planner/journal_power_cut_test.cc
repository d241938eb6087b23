// The journal under power cuts: a child process that loses what it had not
// synced, at every write.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/lease/lease_book.h"
#include "services/planner/journal.h"
#include "tests/sanitized.h"
#include "tests/services/planner/faulty_vfs.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using planner::Lease;
using planner::LeaseBook;
using planner::LeaseState;

constexpr int64_t kDeviceBytes = 1'000;
constexpr int kPowerCuts = ::plimsoll::testing::kIsLong ? 1'000 : 250;

// What the child says before and after each call, through a pipe.
struct Report {
  enum Kind : int64_t { kAsked, kGranted, kConfirmed, kReleasing, kDone };
  int64_t kind;
  int64_t lease;  // its number
  int64_t bytes;
  int64_t epoch;
};

absl::Time Now() { return absl::UnixEpoch() + absl::Hours(1); }

void Say(int fd, const Report& report) {
  if (write(fd, &report, sizeof(report)) != sizeof(report)) _exit(1);
}

// Some grants, confirmations and releases, on what an earlier life left.
void Live(const std::string& path, uint64_t seed, int first, int fd) {
  auto journal = Journal::Open(path, Now, testing::kFaultyVfs);
  if (!journal.ok()) _exit(2);
  LeaseBook book((*journal)->image().next_epoch, journal->get());
  planner::LeaseImage image = (*journal)->image();
  image.is_partial = false;  // so that it need not wait
  if (!book.Restore(image, Now()).ok()) _exit(3);
  if (!book.RegisterDevice({"d", kDeviceBytes, 0, std::nullopt}).ok()) _exit(4);
  uint64_t random = seed * 0x9E3779B97F4A7C15u + 1;
  std::vector<std::pair<int64_t, int64_t>> held;  // lease, epoch
  for (int i = first; i < first + 24; ++i) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const auto bytes = static_cast<int64_t>(1 + random % 300);
    Say(fd, {Report::kAsked, i, bytes, 0});
    const auto lease = book.Reserve(
        {absl::StrCat("r", i), absl::StrCat(i), "d", "h", "", bytes}, Now());
    if (lease.ok()) {
      Say(fd, {Report::kGranted, i, bytes, lease->epoch});
      held.emplace_back(i, lease->epoch);
    }
    if (!held.empty() && random % 3 == 0) {
      const auto [number, epoch] = held.back();
      if (!book.Confirm(absl::StrCat(number), epoch, 1, Now()).ok()) _exit(5);
      if ((*journal)->Flush().ok()) {
        Say(fd, {Report::kConfirmed, number, 0, epoch});
      }
    }
    if (held.size() > 2 || (!held.empty() && random % 5 == 0)) {
      const auto [number, epoch] = held.front();
      held.erase(held.begin());
      Say(fd, {Report::kReleasing, number, 0, epoch});
      if (!book.Release(absl::StrCat(number), epoch).ok()) _exit(6);
    }
  }
  Say(fd, {Report::kDone, 0, 0, 0});
}

// What must be in the file.
struct Expected {
  std::map<int64_t, int64_t> asked;  // bytes, by lease
  std::map<int64_t, Report> granted;
  std::map<int64_t, bool> confirmed;
  std::map<int64_t, bool> releasing;
  bool is_done = false;

  void Hear(const Report& report) {
    switch (report.kind) {
      case Report::kAsked:
        asked[report.lease] = report.bytes;
        break;
      case Report::kGranted:
        granted[report.lease] = report;
        break;
      case Report::kConfirmed:
        confirmed[report.lease] = true;
        break;
      case Report::kReleasing:
        releasing[report.lease] = true;
        break;
      default:
        is_done = true;
    }
  }
};

// Runs Live in a child whose power is cut at the `at`-th write.
void RunChild(const std::string& path, uint64_t seed, int first, int64_t at,
              Expected& expected) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(fds[0]);
    testing::SetVfsFaults({.at = at, .is_power_cut = true, .seed = seed + 1});
    Live(path, seed, first, fds[1]);
    _exit(0);
  }
  close(fds[1]);
  Report report = {};
  while (read(fds[0], &report, sizeof(report)) == sizeof(report)) {
    expected.Hear(report);
  }
  close(fds[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
}

void CheckFile(const std::string& path, const Expected& expected) {
  testing::SetVfsFaults({});  // no faults, and no waiting for a disk
  const auto journal = Journal::Open(path, Now, testing::kFaultyVfs);
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE((*journal)->can_write());
  const planner::LeaseImage& image = (*journal)->image();
  std::map<int64_t, Lease> rows;
  int64_t held = 0;
  for (const planner::LeaseRecord& record : image.records) {
    const int64_t number = std::stoll(record.lease.id);
    EXPECT_EQ(record.request_id, absl::StrCat("r", number));
    ASSERT_TRUE(expected.asked.count(number) > 0);
    EXPECT_EQ(record.lease.bytes, expected.asked.at(number));
    EXPECT_LT(record.lease.epoch, image.next_epoch);
    if (record.lease.state != LeaseState::kReleased) held += record.lease.bytes;
    rows[number] = record.lease;
  }
  EXPECT_LE(held, kDeviceBytes) << "bytes are doubled";
  for (const auto& [number, report] : expected.granted) {
    ASSERT_TRUE(rows.count(number) > 0) << "lease " << number << " is lost";
    EXPECT_EQ(rows[number].epoch, report.epoch);
    if (expected.releasing.count(number) > 0) continue;
    EXPECT_NE(rows[number].state, LeaseState::kReleased);
    if (expected.confirmed.count(number) > 0) {
      EXPECT_TRUE(rows[number].was_confirmed);
    }
  }
}

// Every file lives three times, and loses its power twice at most.
TEST(JournalPowerCutTest, NothingIsLostOrDoubledAtAnyPoint) {
  int n_cuts = 0;
  uint64_t seed = 1;
  while (n_cuts < kPowerCuts) {
    ASSERT_LT(seed, 100u);
    for (int64_t at = 1;; ++at) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", write ", at));
      const testing::TemporaryFolder folder;
      const std::string path = folder.File("leases.db");
      Expected expected;
      ASSERT_NO_FATAL_FAILURE(RunChild(path, seed, 0, at, expected));
      const bool was_cut = !expected.is_done;
      n_cuts += was_cut;
      ASSERT_NO_FATAL_FAILURE(CheckFile(path, expected));
      // The next life, cut in turn, on top of it; every fourth time.
      if (at % 4 == 0) {
        ASSERT_NO_FATAL_FAILURE(RunChild(path, seed, 100, at / 2, expected));
        ++n_cuts;
        ASSERT_NO_FATAL_FAILURE(CheckFile(path, expected));
      }
      ASSERT_TRUE(folder.Names(".bad-").empty());
      ASSERT_FALSE(HasFailure());
      if (!was_cut) break;
    }
    ++seed;
  }
  RecordProperty("power_cuts", n_cuts);
}

}  // namespace
}  // namespace plimsoll::services
