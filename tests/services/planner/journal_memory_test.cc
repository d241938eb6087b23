// A grant that gets no memory while it is written: the journal goes on.
#include <gtest/gtest.h>

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
  record.lease.epoch = epoch;
  return record;
}

TEST(JournalMemoryTest, AWriteThatGetsNoMemoryEndsItsTransaction) {
  const testing::TemporaryFolder folder;
  auto opened =
      Journal::Open(folder.File("leases.db"), [] { return absl::UnixEpoch(); });
  ASSERT_TRUE(opened.ok());
  Journal& journal = **opened;
  int64_t epoch = 1;
  const int64_t n_failed = plimsoll::testing::FailEachAllocation(
      [&] { EXPECT_TRUE(journal.Write(Record(epoch), epoch + 1).ok()); },
      [&](bool) {
        ++epoch;
        EXPECT_TRUE(journal.Write(Record(epoch), epoch + 1).ok());
        EXPECT_TRUE(journal.can_write());
        ++epoch;
      });
  EXPECT_GE(n_failed, 2);
}

}  // namespace
}  // namespace plimsoll::services
