// A grant that gets no memory while it is written: the journal goes on.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "services/planner/journal.h"
#include "tests/failing_new.h"
#include "tests/services/temporary_folder.h"

namespace plimsoll::services {
namespace {

planner::LeaseRecord Record(int64_t epoch) {
  planner::LeaseRecord record;
  record.lease.id =
      "a name that needs memory of its own " + std::to_string(epoch);
  record.lease.device_id = "d";
  record.lease.bytes = 100;
  record.lease.holder = "a holder";
  record.lease.purpose = "a purpose";
  record.lease.epoch = epoch;
  record.lease.secret_hash = "a hash " + std::to_string(epoch);
  return record;
}

std::unique_ptr<Journal> Open(const std::string& path) {
  auto opened = Journal::Open(path, [] { return absl::UnixEpoch(); });
  return opened.ok() ? *std::move(opened) : nullptr;
}

TEST(JournalMemoryTest, AWriteThatGetsNoMemoryEndsItsTransaction) {
  const testing::TemporaryFolder folder;
  const auto journal = Open(folder.File("leases.db"));
  ASSERT_NE(journal, nullptr);
  int64_t epoch = 1;
  const int64_t n_failed = plimsoll::testing::FailEachAllocation(
      [&] { EXPECT_TRUE(journal->Write(Record(epoch), epoch + 1).ok()); },
      [&](bool) {
        ++epoch;
        EXPECT_TRUE(journal->Write(Record(epoch), epoch + 1).ok());
        EXPECT_TRUE(journal->can_write());
        ++epoch;
      });
  EXPECT_GE(n_failed, 2);
}

// SQLite's memory, whose n-th request from now on fails; with 0 none does.
int64_t n_left = 0;
sqlite3_mem_methods usual_memory;

bool Fails() { return n_left > 0 && --n_left == 0; }
void* Allocate(int bytes) {
  return Fails() ? nullptr : usual_memory.xMalloc(bytes);
}
void* Reallocate(void* block, int bytes) {
  return Fails() ? nullptr : usual_memory.xRealloc(block, bytes);
}

// SQLite takes its memory from the functions above. No journal may be open at
// the beginning and at the end.
class JournalOfFailingMemoryTest : public ::testing::Test {
 protected:
  JournalOfFailingMemoryTest() {
    sqlite3_shutdown();
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &usual_memory);
    sqlite3_mem_methods methods = usual_memory;
    methods.xMalloc = Allocate;
    methods.xRealloc = Reallocate;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
  }
  ~JournalOfFailingMemoryTest() override {
    sqlite3_shutdown();
    sqlite3_config(SQLITE_CONFIG_MALLOC, &usual_memory);
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.File("leases.db");
};

TEST_F(JournalOfFailingMemoryTest, AWriteFailsAndTheNextOneIsWhole) {
  auto journal = Open(path_);
  ASSERT_NE(journal, nullptr);
  int64_t epoch = 1;
  int64_t n_failed = 0;
  for (bool has_failed = true; has_failed; ++epoch) {
    n_left = n_failed + 1;
    // SQLite does without some of its requests.
    journal->Write(Record(epoch), epoch + 1).IgnoreError();
    has_failed = n_left == 0;
    n_left = 0;
    n_failed += has_failed ? 1 : 0;
    ++epoch;
    const absl::Status next = journal->Write(Record(epoch), epoch + 1);
    ASSERT_TRUE(next.ok()) << next << ": request " << n_failed;
    ASSERT_TRUE(journal->can_write());
  }
  EXPECT_GE(n_failed, 20);
  journal.reset();
  journal = Open(path_);
  ASSERT_NE(journal, nullptr);
  EXPECT_FALSE(journal->image().is_partial);
  for (const planner::LeaseRecord& record : journal->image().records) {
    const planner::LeaseRecord expected = Record(record.lease.epoch);
    EXPECT_EQ(record.lease.id, expected.lease.id);
    EXPECT_EQ(record.lease.secret_hash, expected.lease.secret_hash);
  }
}

}  // namespace
}  // namespace plimsoll::services
