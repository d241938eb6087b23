// The journal: what comes back from it, and what becomes of bad files and
// disks.
#include "services/planner/journal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "planner/lease/lease_book.h"
#include "tests/read_file.h"
#include "tests/services/planner/faulty_vfs.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using planner::Lease;
using planner::LeaseBook;
using planner::LeaseState;
using ::plimsoll::testing::ReadFile;
using testing::kFaultyVfs;
using testing::SetVfsFaults;

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() { SetVfsFaults({}); }

  std::unique_ptr<Journal> Open() {
    auto journal = Journal::Open(
        path_, [this] { return now_; }, kFaultyVfs);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  static Lease LeaseOf(const std::string& id, int64_t epoch) {
    Lease lease;
    lease.id = id;
    lease.device_id = "d";
    lease.holder = "h";
    lease.purpose = "a model";
    lease.process = "p";
    lease.bytes = 100;
    lease.epoch = epoch;
    return lease;
  }
  void RunSql(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  // Makes a journal with one lease, "a" of epoch 7.
  void MakeOne() {
    const auto journal = Open();
    ASSERT_TRUE(journal->Write({LeaseOf("a", 7), "r"}, 8).ok());
  }
  void WriteFile(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // The file is kept under another name, and an empty journal is in its place.
  void ExpectSetAside() {
    const auto journal = Open();
    EXPECT_TRUE(journal->image().is_partial);
    EXPECT_TRUE(journal->image().records.empty());
    EXPECT_FALSE(folder_.Names(".bad-").empty());
    EXPECT_TRUE(journal->can_write());
    EXPECT_TRUE(journal->Write({LeaseOf("b", 9), "s"}, 10).ok());
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(100);
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("leases.db");
};

TEST_F(JournalTest, ANewOneIsPartialUntilTheFirstGrant) {
  EXPECT_TRUE(Open()->image().is_partial);
  EXPECT_TRUE(Open()->image().is_partial);
  MakeOne();
  EXPECT_FALSE(Open()->image().is_partial);
  EXPECT_TRUE(folder_.Names(".bad-").empty());
}

TEST_F(JournalTest, EveryFieldComesBack) {
  Lease lease = LeaseOf("a", 7);
  lease.purpose = std::string("nul \0 and \xff", 11);
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Write({lease, "request"}, 12).ok());
    lease.was_confirmed = true;
    lease.measured_bytes = 90;
    journal->Note(lease);
    ASSERT_TRUE(journal->Flush().ok());
  }
  const auto journal = Open();
  const planner::LeaseImage& image = journal->image();
  EXPECT_EQ(image.next_epoch, 12);
  ASSERT_EQ(image.records.size(), 1u);
  const Lease& back = image.records[0].lease;
  EXPECT_EQ(image.records[0].request_id, "request");
  EXPECT_EQ(back.id, "a");
  EXPECT_EQ(back.device_id, "d");
  EXPECT_EQ(back.holder, "h");
  EXPECT_EQ(back.purpose, lease.purpose);
  EXPECT_EQ(back.process, "p");
  EXPECT_EQ(back.bytes, 100);
  EXPECT_EQ(back.measured_bytes, 90);
  EXPECT_EQ(back.epoch, 7);
  EXPECT_TRUE(back.was_confirmed);
  EXPECT_LE(back.granted, now_);
}

TEST_F(JournalTest, WhatWasNotedIsWrittenWithTheNextGrant) {
  auto journal = Open();
  Lease lease = LeaseOf("a", 7);
  ASSERT_TRUE(journal->Write({lease, "r"}, 8).ok());
  lease.state = LeaseState::kReleased;
  journal->Note(lease);
  ASSERT_TRUE(journal->Write({LeaseOf("b", 8), "s"}, 9).ok());
  journal.reset();
  const auto again = Open();
  ASSERT_EQ(again->image().records.size(), 2u);
  EXPECT_EQ(again->image().records[0].lease.state, LeaseState::kReleased);
}

TEST_F(JournalTest, ReleasedLeasesAreKeptForAWhile) {
  auto journal = Open();
  Lease lease = LeaseOf("a", 7);
  lease.state = LeaseState::kReleased;
  journal->Note(lease);
  const int64_t last = 7 + Journal::kKeptEpochs;
  ASSERT_TRUE(journal->Write({LeaseOf("b", last - 1), "s"}, last).ok());
  journal.reset();
  journal = Open();
  EXPECT_EQ(journal->image().records.size(), 2u);
  ASSERT_TRUE(journal->Write({LeaseOf("c", last), "t"}, last + 1).ok());
  journal.reset();
  ASSERT_EQ(Open()->image().records.size(), 2u);
  EXPECT_EQ(Open()->image().records[0].lease.id, "b");
}

TEST_F(JournalTest, AnIdThatIsUsedAgainIsANewLease) {
  auto journal = Open();
  Lease lease = LeaseOf("a", 7);
  lease.state = LeaseState::kReleased;
  journal->Note(lease);
  ASSERT_TRUE(journal->Write({LeaseOf("a", 8), "second"}, 9).ok());
  journal.reset();
  const auto again = Open();
  ASSERT_EQ(again->image().records.size(), 1u);
  EXPECT_EQ(again->image().records[0].lease.epoch, 8);
  EXPECT_EQ(again->image().records[0].request_id, "second");
}

TEST_F(JournalTest, TwoPlannersDoNotShareOne) {
  const auto journal = Open();
  const auto second = Journal::Open(path_, [this] { return now_; });
  EXPECT_TRUE(absl::IsAborted(second.status()));
}

// Only if a lock was lost can another planner have written its name.
TEST_F(JournalTest, ATakenOverJournalIsWrittenNoMore) {
  const auto journal = Open();
  ASSERT_TRUE(journal->Write({LeaseOf("a", 1), "r"}, 2).ok());
  journal->CheckOwner();
  EXPECT_FALSE(journal->is_taken_over());
  RunSql("UPDATE meta SET boot_nonce='another'");
  EXPECT_FALSE(journal->Write({LeaseOf("b", 2), "s"}, 3).ok());
  EXPECT_TRUE(journal->is_taken_over());
  EXPECT_FALSE(journal->can_write());
  // A second write is refused too.
  EXPECT_FALSE(journal->Write({LeaseOf("b", 2), "s"}, 3).ok());
}

// A planner that has lost its lock may write until another name is in the file.
TEST_F(JournalTest, WhatWasWrittenWhileItIsReadIsKnown) {
  MakeOne();
  int n_looks = 0;
  const auto journal = Journal::Open(path_, [&] {
    // The second look at the clock comes when all rows are read.
    if (++n_looks == 2) RunSql("UPDATE lease SET bytes=77");
    return now_;
  });
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_EQ((*journal)->image().records.size(), 1u);
  EXPECT_EQ((*journal)->image().records[0].lease.bytes, 77);
  EXPECT_FALSE((*journal)->image().is_partial);
  EXPECT_TRUE((*journal)->Write({LeaseOf("b", 9), "s"}, 10).ok());
}

TEST_F(JournalTest, ATakenOverJournalIsNoticedWithoutAWrite) {
  const auto journal = Open();
  RunSql("UPDATE meta SET boot_nonce='another'");
  journal->CheckOwner();
  EXPECT_TRUE(journal->is_taken_over());
  EXPECT_FALSE(journal->can_write());
}

// What this planner wrote itself, or failed to write, is no other planner's.
TEST_F(JournalTest, AFullDiskIsNoTakeover) {
  const auto journal = Open();
  SetVfsFaults({.at = 1, .write_code = SQLITE_FULL});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(journal->Write({LeaseOf("a", 1), "r"}, 2).ok());
    journal->CheckOwner();
  }
  EXPECT_FALSE(journal->is_taken_over());
  SetVfsFaults({});
  EXPECT_TRUE(journal->Write({LeaseOf("a", 1), "r"}, 2).ok());
}

TEST_F(JournalTest, ItIsTheFileThatIsLockedAndNotItsName) {
  MakeOne();
  const std::string other = folder_.File("other");
  std::filesystem::create_directory(other);
  std::filesystem::create_symlink("../leases.db", other + "/link.db");
  const auto journal = Open();
  const auto linked =
      Journal::Open(other + "/link.db", [this] { return now_; });
  EXPECT_TRUE(absl::IsAborted(linked.status())) << linked.status();
  std::filesystem::rename(path_, folder_.File("moved.db"));
  const auto moved =
      Journal::Open(folder_.File("moved.db"), [this] { return now_; });
  EXPECT_TRUE(absl::IsAborted(moved.status())) << moved.status();
}

TEST_F(JournalTest, ALinkLeadsToTheSameJournal) {
  MakeOne();
  const std::string link = folder_.File("link.db");
  std::filesystem::create_symlink("leases.db", link);
  const auto journal = Journal::Open(link, [this] { return now_; });
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ((*journal)->image().records.size(), 1u);
}

TEST_F(JournalTest, ALinkMayBeThereBeforeTheJournal) {
  const std::string link = folder_.File("link.db");
  std::filesystem::create_symlink(path_, link);
  {
    const auto journal = Journal::Open(link, [this] { return now_; });
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_TRUE((*journal)->can_write());
    const auto second = Journal::Open(path_, [this] { return now_; });
    EXPECT_TRUE(absl::IsAborted(second.status()));
  }
  const std::string circle = folder_.File("circle.db");
  std::filesystem::create_symlink("circle.db", circle);
  const auto none = Journal::Open(circle, [this] { return now_; });
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE((*none)->can_write());
}

TEST_F(JournalTest, AFileOfTwoNamesIsRefused) {
  MakeOne();
  std::filesystem::create_hard_link(path_, folder_.File("hard.db"));
  for (const std::string& name :
       {std::string("leases.db"), std::string("hard.db")}) {
    const auto journal =
        Journal::Open(folder_.File(name), [this] { return now_; });
    EXPECT_TRUE(absl::IsFailedPrecondition(journal.status())) << name;
  }
  std::filesystem::remove(folder_.File("hard.db"));
  EXPECT_EQ(Open()->image().records.size(), 1u);
}

TEST_F(JournalTest, TheFirstGrantLeavesAMarkThatOutlivesTheFile) {
  EXPECT_FALSE(Open()->history().has_mark);
  // Nothing was granted, so nothing is marked.
  EXPECT_TRUE(folder_.Names(".mark").empty());
  MakeOne();
  EXPECT_EQ(folder_.Names(".mark").size(), 1u);
  std::filesystem::remove(path_);
  EXPECT_TRUE(Open()->history().has_mark);
}

TEST_F(JournalTest, WithoutItsMarkNothingIsGranted) {
  const auto journal = Open();
  std::filesystem::create_directory(path_ + ".mark");
  EXPECT_TRUE(absl::IsUnavailable(journal->Write({LeaseOf("a", 1), "r"}, 2)));
  EXPECT_FALSE(journal->can_write());
  std::filesystem::remove(path_ + ".mark");
  EXPECT_TRUE(journal->Write({LeaseOf("a", 2), "r"}, 3).ok());
}

TEST_F(JournalTest, WhatIsFoundInItsPlaceIsTold) {
  using Found = planner::JournalFound;
  EXPECT_EQ(Open()->history().found, Found::kNew);
  EXPECT_EQ(Open()->history().found, Found::kPartial);
  WriteFile("");
  EXPECT_EQ(Open()->history().found, Found::kPartial) << "it was emptied";
  ASSERT_TRUE(Open()->MarkWhole(7).ok());
  EXPECT_EQ(Open()->history().found, Found::kWhole);
  EXPECT_EQ(Open()->image().next_epoch, 7);
  SetVfsFaults({.at = 1, .write_code = SQLITE_IOERR});
  EXPECT_EQ(Open()->history().found, Found::kUnusable);
  SetVfsFaults({});
  WriteFile(std::string(10'000, 'x'));
  EXPECT_EQ(Open()->history().found, Found::kBad);
  std::filesystem::remove(path_);
  EXPECT_EQ(Open()->history().found, Found::kBad) << "one lies beside it";
}

TEST_F(JournalTest, WhatIsSetAsideIsNeverWrittenOver) {
  for (size_t n = 1; n <= 3; ++n) {
    WriteFile(std::string(10'000, 'x'));
    Open();
    EXPECT_EQ(folder_.Names("leases.db.bad-").size(), n);
  }
}

TEST_F(JournalTest, EpochsPastTheLimitAreNotWritten) {
  {
    const auto journal = Open();
    constexpr int64_t kLast = LeaseBook::kMaxEpoch;
    ASSERT_TRUE(journal->Write({LeaseOf("a", kLast - 1), "r"}, kLast).ok());
    EXPECT_TRUE(absl::IsUnavailable(
        journal->Write({LeaseOf("b", kLast), "s"}, kLast + 1)));
  }
  EXPECT_EQ(Open()->image().records.size(), 1u);
  EXPECT_TRUE(folder_.Names(".bad-").empty());
}

// Whatever clients do, the rows stay few enough to be read.
TEST_F(JournalTest, ReleasedLeasesOfOneEpochDoNotFillIt) {
  MakeOne();
  RunSql(absl::StrCat(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<",
      Journal::kMaxRows - 1,
      ") INSERT INTO lease SELECT 'l'||i,'d',1,0,'h','','',9,'RELEASED','',0 "
      "FROM n"));
  {
    const auto journal = Open();
    ASSERT_TRUE(journal->Write({LeaseOf("b", 9), "s"}, 10).ok());
  }
  const auto journal = Open();
  const auto& records = journal->image().records;
  EXPECT_LE(std::ssize(records), Journal::kMaxRows);
  EXPECT_TRUE(folder_.Names(".bad-").empty());
  int n_live = 0;
  for (const auto& record : records) {
    if (record.lease.state != LeaseState::kReleased) ++n_live;
  }
  EXPECT_EQ(n_live, 2);
}

// Every grant deletes leases that were released long ago, which must not read
// the rows of all others. A file of an earlier version has no index.
TEST_F(JournalTest, AGrantDoesNotReadEveryRow) {
  const auto uses_index = [this] {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    std::string plan;
    const auto take = [](void* text, int n, char** values, char**) {
      static_cast<std::string*>(text)->append(values[n - 1]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db,
                           "EXPLAIN QUERY PLAN DELETE FROM lease WHERE "
                           "state='RELEASED' AND epoch<5",
                           take, &plan, nullptr),
              SQLITE_OK);
    sqlite3_close(db);
    return absl::StrContains(plan, "lease_released");
  };
  MakeOne();
  EXPECT_TRUE(uses_index());
  RunSql("DROP INDEX lease_released");
  EXPECT_FALSE(uses_index());
  EXPECT_EQ(Open()->image().records.size(), 1u);
  EXPECT_TRUE(uses_index());
}

TEST_F(JournalTest, NotesUpToTheLimitAndNotPastIt) {
  const auto journal = Open();
  SetVfsFaults({.at = 1, .write_code = SQLITE_FULL});
  for (size_t i = 0; i < Journal::kMaxNoted; ++i) {
    journal->Note(LeaseOf(absl::StrCat(i), 1));
  }
  SetVfsFaults({});
  EXPECT_TRUE(journal->Flush().ok());
  EXPECT_TRUE(journal->can_write());
  for (size_t i = 0; i <= Journal::kMaxNoted; ++i) {
    journal->Note(LeaseOf(absl::StrCat(i), 1));
  }
  EXPECT_FALSE(journal->can_write());
}

TEST_F(JournalTest, GarbageIsSetAside) {
  WriteFile(std::string(10'000, 'x'));
  ExpectSetAside();
}

TEST_F(JournalTest, AnEmptyFileIsANewJournal) {
  WriteFile("");
  EXPECT_TRUE(Open()->image().is_partial);
  EXPECT_TRUE(folder_.Names(".bad-").empty());
}

TEST_F(JournalTest, ATruncatedFileIsSetAside) {
  MakeOne();
  const std::string bytes = ReadFile(path_);
  WriteFile(bytes.substr(0, bytes.size() - 4'096));
  ExpectSetAside();
}

TEST_F(JournalTest, AnotherProgramsDatabaseIsSetAside) {
  RunSql("CREATE TABLE bookmarks(url TEXT)");
  ExpectSetAside();
}

TEST_F(JournalTest, ANewerSchemaIsSetAside) {
  MakeOne();
  RunSql("UPDATE meta SET schema=2");
  ExpectSetAside();
}

TEST_F(JournalTest, SenselessRowsAreSetAside) {
  for (const char* sql :
       {"UPDATE lease SET bytes=0", "UPDATE lease SET bytes=-5",
        "UPDATE lease SET measured_bytes=101", "UPDATE lease SET epoch=0",
        "UPDATE lease SET state='LOST'", "UPDATE lease SET id=''",
        "UPDATE lease SET holder=hex(zeroblob(200))", "DELETE FROM meta",
        "UPDATE meta SET next_epoch=0",
        "UPDATE meta SET next_epoch=9223372036854775807"}) {
    SCOPED_TRACE(sql);
    std::filesystem::remove(path_);
    for (const std::string& name : folder_.Names(".bad-")) {
      std::filesystem::remove(folder_.File(name));
    }
    MakeOne();
    RunSql(sql);
    ExpectSetAside();
  }
}

TEST_F(JournalTest, RowsUpToTheirLimitAndNotPastIt) {
  MakeOne();
  RunSql(absl::StrCat(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<",
      Journal::kMaxRows - 1,
      ") INSERT INTO lease SELECT 'l'||i,'d',1,0,'h','','',i,'RELEASED','',0 "
      "FROM n"));
  EXPECT_EQ(Open()->image().records.size(),
            static_cast<size_t>(Journal::kMaxRows));
  RunSql("INSERT INTO lease VALUES('x','d',1,0,'h','','',1,'RELEASED','',0)");
  ExpectSetAside();
}

TEST_F(JournalTest, WithoutAFolderItHasFailedAndSaysSo) {
  const auto journal =
      Journal::Open(folder_.File("missing/leases.db"), [this] { return now_; });
  ASSERT_TRUE(journal.ok());
  EXPECT_TRUE((*journal)->image().is_partial);
  EXPECT_FALSE((*journal)->can_write());
  EXPECT_TRUE(
      absl::IsUnavailable((*journal)->Write({LeaseOf("a", 1), "r"}, 2)));
}

TEST_F(JournalTest, AReadOnlyFileIsLeftAlone) {
  MakeOne();
  SetVfsFaults({.at = 1, .write_code = SQLITE_READONLY});
  const auto journal = Open();
  EXPECT_TRUE(journal->image().is_partial);
  EXPECT_FALSE(journal->can_write());
  EXPECT_TRUE(folder_.Names(".bad-").empty());
}

TEST_F(JournalTest, AFullDiskRefusesGrantsUntilThereIsRoom) {
  auto journal = Open();
  ASSERT_TRUE(journal->Write({LeaseOf("a", 1), "r"}, 2).ok());
  Lease released = LeaseOf("a", 1);
  released.state = LeaseState::kReleased;
  journal->Note(released);
  SetVfsFaults({.at = 1, .write_code = SQLITE_FULL});
  EXPECT_TRUE(absl::IsUnavailable(journal->Write({LeaseOf("b", 2), "s"}, 3)));
  EXPECT_FALSE(journal->can_write());
  EXPECT_TRUE(absl::IsUnavailable(journal->Flush()));
  SetVfsFaults({});
  EXPECT_TRUE(journal->Write({LeaseOf("c", 3), "t"}, 4).ok());
  EXPECT_TRUE(journal->can_write());
  journal.reset();
  journal = Open();
  ASSERT_EQ(journal->image().records.size(), 2u);
  EXPECT_EQ(journal->image().records[0].lease.state, LeaseState::kReleased);
  EXPECT_EQ(journal->image().records[1].lease.id, "c");
}

TEST_F(JournalTest, AFullDiskAtTheStartHidesNothing) {
  MakeOne();
  SetVfsFaults({.at = 1, .write_code = SQLITE_FULL});
  const auto journal = Open();
  EXPECT_FALSE(journal->can_write());
  EXPECT_FALSE(journal->image().is_partial);
  EXPECT_EQ(journal->image().records.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(journal->Flush()));
  SetVfsFaults({});
  EXPECT_TRUE(journal->Flush().ok());
  EXPECT_TRUE(journal->can_write());
}

TEST_F(JournalTest, WhatCouldNotBeOpenedIsTriedAgain) {
  const std::string folder = folder_.File("later");
  const std::string path = folder + "/leases.db";
  auto opened = Journal::Open(path, [this] { return now_; });
  ASSERT_TRUE(opened.ok());
  Journal& journal = **opened;
  EXPECT_FALSE(journal.Resume());
  journal.Note(LeaseOf("a", 1));
  EXPECT_TRUE(absl::IsUnavailable(journal.Flush()));
  std::filesystem::create_directory(folder);
  EXPECT_TRUE(journal.Resume());
  EXPECT_FALSE(journal.Resume()) << "once only";
  EXPECT_TRUE(journal.can_write());
  EXPECT_TRUE(journal.Write({LeaseOf("b", 2), "r"}, 3).ok());
  opened->reset();
  const auto again = Journal::Open(path, [this] { return now_; });
  EXPECT_EQ((*again)->image().records.size(), 2u);
}

TEST_F(JournalTest, AFailedSyncStopsWritingUntilTheNextStart) {
  auto journal = Open();
  ASSERT_TRUE(journal->Write({LeaseOf("a", 1), "r"}, 2).ok());
  SetVfsFaults({.at = 1, .sync_code = SQLITE_IOERR_FSYNC});
  EXPECT_TRUE(absl::IsUnavailable(journal->Write({LeaseOf("b", 2), "s"}, 3)));
  SetVfsFaults({});
  EXPECT_TRUE(absl::IsUnavailable(journal->Write({LeaseOf("c", 3), "t"}, 4)));
  EXPECT_TRUE(journal->Flush().ok());
  journal.reset();
  journal = Open();
  ASSERT_FALSE(journal->image().records.empty());
  EXPECT_EQ(journal->image().records[0].lease.id, "a");
  EXPECT_TRUE(journal->Write({LeaseOf("d", 9), "u"}, 10).ok());
}

// Whichever call fails first, a lease that was granted comes back, and the
// book goes on renewing and releasing.
TEST_F(JournalTest, AnyFailingCallRefusesTheGrantAndNothingElse) {
  int n_refused = 0;
  for (int64_t at = 1; at <= 24; ++at) {
    std::filesystem::remove(path_);
    SetVfsFaults({});
    auto journal = Open();
    LeaseBook book(1, journal.get());
    ASSERT_TRUE(book.RegisterDevice({"d", 1'000, 0, std::nullopt}).ok());
    const auto a = book.Reserve({"r", "a", "d", "h", "", 100}, now_);
    ASSERT_TRUE(a.ok());
    SetVfsFaults({.at = at,
                  .write_code = SQLITE_IOERR_WRITE,
                  .sync_code = SQLITE_IOERR_FSYNC});
    std::vector<std::string> granted = {"a"};
    for (const char* id : {"b", "c", "e"}) {
      const auto lease = book.Reserve({id, id, "d", "h", "", 100}, now_);
      if (lease.ok()) granted.push_back(id);
      if (!lease.ok()) ++n_refused;
      EXPECT_TRUE(lease.ok() || absl::IsUnavailable(lease.status()));
    }
    EXPECT_EQ(*book.HeldBytes("d"), 100 * std::ssize(granted));
    EXPECT_TRUE(book.Renew("a", a->epoch, now_).ok());
    journal.reset();
    SetVfsFaults({});
    const auto again = Open();
    for (const std::string& id : granted) {
      bool is_there = false;
      for (const auto& record : again->image().records) {
        is_there |= record.lease.id == id;
      }
      EXPECT_TRUE(is_there) << id << " at " << at;
    }
    EXPECT_TRUE(folder_.Names(".bad-").empty());
  }
  EXPECT_GT(n_refused, 10);
}

}  // namespace
}  // namespace plimsoll::services
