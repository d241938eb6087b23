// The journal and its mark: a journal that is not the one that was last used,
// or whose log is lost, may lack leases that are held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "services/planner/journal.h"
#include "services/planner/use_mark.h"
#include "tests/read_file.h"
#include "tests/services/planner/faulty_vfs.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using planner::JournalFound;
using ::plimsoll::testing::ReadFile;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using testing::kFaultyVfs;
using testing::SetVfsFaults;
using ::testing::StartsWith;

// The file stays the same one, if it is there.
void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class JournalMarkTest : public ::testing::Test {
 protected:
  JournalMarkTest() { SetVfsFaults({}); }

  std::unique_ptr<Journal> Open() {
    auto journal = Journal::Open(
        path_, [] { return absl::UnixEpoch() + absl::Hours(100); }, kFaultyVfs);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  // Grants a lease of this epoch, and of the id "lease EPOCH".
  static void Grant(Journal& journal, int64_t epoch) {
    planner::Lease lease;
    lease.id = "lease " + std::to_string(epoch);
    lease.device_id = "d";
    lease.holder = "h";
    lease.bytes = 100;
    lease.epoch = epoch;
    EXPECT_TRUE(journal.Write({lease, lease.id}, epoch + 1).ok());
  }
  // Ends it as kill -9 does: what is on the disk stays as it is.
  void Crash(std::unique_ptr<Journal> journal) {
    std::map<std::string, std::string> files;
    for (const char* suffix : {"", "-wal", ".mark"}) {
      files[path_ + suffix] = ReadFile(path_ + suffix);
    }
    journal.reset();
    for (const auto& [path, bytes] : files) WriteFile(path, bytes);
  }
  std::string About() { return AboutOfMark(MarkPath(path_)); }
  void ExpectWhole(size_t n_leases) {
    const auto journal = Open();
    EXPECT_FALSE(journal->image().is_partial);
    EXPECT_EQ(journal->history().found, JournalFound::kWhole);
    EXPECT_EQ(journal->image().records.size(), n_leases);
  }
  // Whatever starts come between, it is partial until a planner has recovered.
  void ExpectPartial(const std::string& why) {
    for (int start = 0; start < 3; ++start) {
      auto journal = Open();
      EXPECT_TRUE(journal->image().is_partial) << why << ", start " << start;
      EXPECT_EQ(journal->history().found, JournalFound::kPartial) << why;
      EXPECT_TRUE(journal->history().has_mark) << why;
      EXPECT_TRUE(journal->can_write()) << why;
      if (start == 1) Crash(std::move(journal));
    }
    EXPECT_TRUE(Open()->MarkWhole(1'000).ok());
    EXPECT_FALSE(Open()->image().is_partial) << why;
    EXPECT_GE(Open()->image().next_epoch, 1'000) << why;
  }

  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("leases.db");
};

TEST_F(JournalMarkTest, TheMarkSaysWhetherItIsInUse) {
  auto journal = Open();
  EXPECT_FALSE(Exists(MarkPath(path_))) << "nothing was granted";
  Grant(*journal, 7);
  const std::string used = About();
  EXPECT_THAT(used, StartsWith("journal "));
  EXPECT_THAT(used, EndsWith(" open"));
  journal.reset();
  EXPECT_THAT(About(), EndsWith(" closed"));
  journal = Open();
  EXPECT_THAT(About(), EndsWith(" open"));
  EXPECT_NE(About(), used) << "another run has another name";
}

TEST_F(JournalMarkTest, AJournalThatWasClosedIsWholeWithoutALog) {
  Grant(*Open(), 7);
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
  for (int start = 0; start < 3; ++start) ExpectWhole(1);
}

TEST_F(JournalMarkTest, ACrashLosesNothingThatIsInTheLog) {
  auto journal = Open();
  Grant(*journal, 7);
  Crash(std::move(journal));
  EXPECT_THAT(About(), EndsWith(" open"));
  ExpectWhole(1);
  journal = Open();
  Grant(*journal, 8);
  Crash(std::move(journal));
  Crash(Open());
  ExpectWhole(2);
}

TEST_F(JournalMarkTest, ALostLogIsSeen) {
  Grant(*Open(), 7);
  auto journal = Open();
  Grant(*journal, 8);
  Crash(std::move(journal));
  std::filesystem::remove(path_ + "-wal");
  ExpectPartial("no log");
}

TEST_F(JournalMarkTest, AnEmptyLogIsALostOne) {
  Grant(*Open(), 7);
  auto journal = Open();
  Grant(*journal, 8);
  Crash(std::move(journal));
  WriteFile(path_ + "-wal", "");
  ExpectPartial("an empty log");
}

TEST_F(JournalMarkTest, AnOlderCopyInTheSameFileIsSeen) {
  Grant(*Open(), 7);
  const std::string older = ReadFile(path_);
  Grant(*Open(), 8);
  WriteFile(path_, older);
  ExpectPartial("after a clean end");
  auto journal = Open();
  Grant(*journal, 2'000);
  Crash(std::move(journal));
  std::filesystem::remove(path_ + "-wal");
  WriteFile(path_, older);
  ExpectPartial("after a crash");
}

TEST_F(JournalMarkTest, AnotherFileIsAnotherJournal) {
  Grant(*Open(), 7);
  const std::string copy = folder_.File("copy.db");
  std::filesystem::copy_file(path_, copy);
  std::filesystem::rename(copy, path_);
  ExpectPartial("even of the same bytes, it may have been used elsewhere");
}

TEST_F(JournalMarkTest, AMarkThatSaysNothingProvesNothing) {
  for (const std::string about : {"", "journal", "journal 1 2 closed"}) {
    SCOPED_TRACE(about);
    Grant(*Open(), 2'000);
    ASSERT_TRUE(WriteMark(MarkPath(path_), about).ok());
    EXPECT_EQ(About(), about);
    ExpectPartial("what the mark says was replaced");
  }
  // One that was cut off while it was written.
  Grant(*Open(), 3'000);
  const std::string mark = ReadFile(MarkPath(path_));
  WriteFile(MarkPath(path_), mark.substr(0, mark.size() - 1));
  EXPECT_THAT(About(), IsEmpty());
  ExpectPartial("what the mark says was cut off");
}

TEST_F(JournalMarkTest, AJournalWhoseSyncFailedIsNotClosed) {
  Grant(*Open(), 7);
  auto journal = Open();
  SetVfsFaults({.at = 1, .sync_code = SQLITE_IOERR_FSYNC});
  EXPECT_TRUE(absl::IsUnavailable(journal->MarkWhole(9)));
  journal.reset();
  SetVfsFaults({});
  EXPECT_THAT(About(), EndsWith(" open"));
}

}  // namespace
}  // namespace plimsoll::services
