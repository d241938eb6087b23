// A stream that gets no memory while it is added: nothing of it stays.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/failing_new.h"
#include "worker/engine/stream_book.h"

namespace plimsoll::worker {
namespace {

using plimsoll::testing::FailEachAllocation;

// Names that are longer than a string's own room, so that copies take memory.
const std::string kTenant(40, 't');
const std::string kPeer(40, 'p');

class StreamMemoryTest : public ::testing::Test {
 protected:
  absl::Status Add(const std::string& tenant) {
    GenerateOptions request;
    request.claim = {.tenant = tenant, .peer = kPeer};
    SequenceStart start = {.roll = {}, .history = TokenHistory(0)};
    start.history.Append(7);
    start.n_prompt = 1;
    return book_.Add(
        {.options = std::move(request), .sink = nullptr, .time = {}},
        std::move(start));
  }

  // The streams that get a slot now.
  std::vector<int64_t> Admitted() {
    std::vector<int64_t> ids;
    book_.scheduler().Admit([&](int64_t id, int64_t) {
      ids.push_back(id);
      return Admission{.n_computed = 0, .limit = Scheduler::kNoLimit};
    });
    return ids;
  }

  // Ends all streams.
  void End() {
    std::vector<int64_t> ids;
    for (const auto& [id, sequence] : book_.sequences()) ids.push_back(id);
    for (const int64_t id : ids) {
      book_.scheduler().Remove(id);
      book_.Take(id);
    }
  }

  StreamBook book_{{.n_slots = 1,
                    .n_rows = 8,
                    .max_queued = 2,
                    .max_sessions = 1,
                    .n_ctx = 1'024}};
};

TEST_F(StreamMemoryTest, WithoutMemoryAStreamIsNeitherKeptNorScheduled) {
  const int64_t n_failed = FailEachAllocation(
      [&] { EXPECT_TRUE(Add(kTenant).ok()); },
      [&](bool has_failed) {
        EXPECT_EQ(book_.sequences().size(), has_failed ? 0u : 1u);
        EXPECT_EQ(book_.scheduler().waiting(), has_failed ? 0 : 1);
        EXPECT_EQ(Admitted().size(), has_failed ? 0u : 1u);
      });
  // The stream, its places in both books, and the parties of its claim.
  EXPECT_GE(n_failed, 8);
}

TEST_F(StreamMemoryTest, TheNextStreamIsServedAsIfNothingHadBeen) {
  FailEachAllocation([&] { EXPECT_TRUE(Add(kTenant).ok()); },
                     [&](bool has_failed) {
                       if (!has_failed) End();
                       ASSERT_TRUE(Add("other").ok());
                       EXPECT_EQ(Admitted().size(), 1u);
                       EXPECT_EQ(book_.scheduler().NextStep().size(), 1u);
                       End();
                     });
}

TEST_F(StreamMemoryTest, WhoGivesWayToAStreamWithoutMemoryIsTold) {
  ASSERT_TRUE(Add("first").ok());
  ASSERT_TRUE(Add("first").ok());
  FailEachAllocation([&] { EXPECT_TRUE(Add(kTenant).ok()); },
                     [&](bool) {
                       // A stream that the scheduler does not know has been
                       // told its end.
                       std::vector<Sequence*> sequences;
                       book_.List(sequences);
                       int64_t n_alive = 0;
                       for (Sequence* sequence : sequences) {
                         if (!sequence->end()) ++n_alive;
                       }
                       EXPECT_EQ(book_.scheduler().waiting(), n_alive);
                       End();
                       ASSERT_TRUE(Add("first").ok());
                       ASSERT_TRUE(Add("first").ok());
                     });
}

TEST_F(StreamMemoryTest, ASequenceThatIsNotResumedDoesNotRun) {
  Scheduler& scheduler = book_.scheduler();
  ASSERT_TRUE(scheduler.Add(1, 2, {kTenant, Priority::kNormal, kPeer}).ok());
  ASSERT_EQ(Admitted().size(), 1u);
  scheduler.RemoveKeepingSlot(1);
  FailEachAllocation(
      [&] {
        scheduler.Resume({.id = 2,
                          .slot = 0,
                          .n_computed = 2,
                          .n_prompt = 3,
                          .limit = Scheduler::kNoLimit,
                          .claim = {kTenant, Priority::kNormal, kPeer}});
      },
      [&](bool has_failed) {
        EXPECT_EQ(scheduler.running(), has_failed ? 0 : 1);
        EXPECT_EQ(scheduler.SlotOf(2).has_value(), !has_failed);
      });
  EXPECT_EQ(scheduler.NextStep().size(), 1u);
}

}  // namespace
}  // namespace plimsoll::worker
