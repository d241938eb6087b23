// What the journal's tables keep of a lease, and journals of other versions.
#include "services/planner/journal_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/planner/journal.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

using planner::Lease;
using planner::LeaseState;

class JournalRowsTest : public ::testing::Test {
 protected:
  static Lease LeaseOf(const std::string& id, int64_t epoch) {
    return {.id = id,
            .device_id = "d",
            .holder = "h",
            .secret_hash = "hash of " + id,
            .bytes = 100,
            .epoch = epoch};
  }
  std::unique_ptr<Journal> Open() {
    auto journal = Journal::Open(path_, [] { return absl::UnixEpoch(); });
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }
  // Makes a journal with one lease, "a" of epoch 7.
  void MakeOne() { ASSERT_TRUE(Open()->Write({LeaseOf("a", 7), "r"}, 8).ok()); }
  void RunSql(const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  int64_t CountSecrets() {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    auto rows =
        std::make_unique<Statement>(db, "SELECT count(*) FROM lease_secret");
    EXPECT_EQ(rows->Step(), SQLITE_ROW);
    const int64_t count = rows->Int(0);
    rows.reset();
    sqlite3_close(db);
    return count;
  }
  // The hashes of the leases that are read, in order of their epochs.
  std::vector<std::string> Hashes() {
    const auto journal = Open();
    EXPECT_FALSE(journal->image().is_partial);
    std::vector<std::string> hashes;
    for (const planner::LeaseRecord& record : journal->image().records) {
      hashes.push_back(record.lease.secret_hash);
    }
    return hashes;
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("leases.db");
};

using Texts = std::vector<std::string>;

TEST_F(JournalRowsTest, TheHashOfASecretComesBack) {
  MakeOne();
  EXPECT_EQ(Hashes(), Texts{"hash of a"});
}

// The file that an earlier version left.
TEST_F(JournalRowsTest, AJournalOfAnEarlierVersionHasNoSecrets) {
  MakeOne();
  RunSql("DROP TABLE lease_secret; DROP INDEX lease_released");
  EXPECT_EQ(Hashes(), Texts{""});
  ASSERT_TRUE(Open()->Write({LeaseOf("b", 9), "s"}, 10).ok());
  EXPECT_EQ(Hashes(), (Texts{"", "hash of b"}));
}

// It writes its eleven columns, as its version did, and knows no secrets.
TEST_F(JournalRowsTest, AnEarlierVersionCanTakeAJournalBack) {
  MakeOne();
  RunSql(
      "INSERT INTO lease VALUES('b','d',100,0,'h','','p',8,'RESERVED','s',1);"
      "UPDATE lease SET state='CONFIRMED' WHERE id='a'");
  EXPECT_EQ(Hashes(), (Texts{"hash of a", ""}));
}

TEST_F(JournalRowsTest, NoSecretOutlivesItsLease) {
  {
    const auto journal = Open();
    Lease lease = LeaseOf("a", 7);
    ASSERT_TRUE(journal->Write({lease, "r"}, 8).ok());
    ASSERT_TRUE(journal->Write({LeaseOf("b", 8), "s"}, 9).ok());
    lease.state = LeaseState::kReleased;
    journal->Note(lease);
    ASSERT_TRUE(journal->Flush().ok());
  }
  EXPECT_EQ(CountSecrets(), 1);
  RunSql("UPDATE lease SET state='RELEASED'");  // by an earlier version
  Open();
  EXPECT_EQ(CountSecrets(), 0);
}

TEST_F(JournalRowsTest, AnUnknownStateIsNoLease) {
  MakeOne();
  RunSql("UPDATE lease SET state='LOST'");
  EXPECT_TRUE(Open()->image().is_partial);
  EXPECT_FALSE(folder_.Names(".bad-").empty());
}

}  // namespace
}  // namespace plimsoll::services
