// Engines where the system refuses a thread: the load says so, and the next one
// is as good as ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/failing_threads.h"
#include "tests/worker/engine/engine_fixture.h"
#include "worker/device/compute_device.h"
#include "worker/device/read_ahead.h"

namespace plimsoll {
namespace {

using testing::AllowThreads;

constexpr int kMostThreads = 16;  // more than any load below makes

// Calls `load` with no thread allowed, then one, then two, until it is OK.
// Returns how many threads that took.
template <typename Load>
int ThreadsNeeded(const Load& load) {
  for (int n = 0; n < kMostThreads; ++n) {
    AllowThreads(n);
    const absl::Status status = load();
    AllowThreads(-1);
    if (status.ok()) return n;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << n << ": " << status;
    EXPECT_NE(status.message().find("pids.max"), std::string::npos) << status;
  }
  return kMostThreads;
}

TEST(ThreadStartTest, ALoadSaysWhichThreadItLacks) {
  const testing::TemporaryFile file(
      testing::RandomModelBytes(testing::FindRandomModel("llama_f32")));
  testing::EngineSetup setup;
  setup.n_threads = 3;
  const int n = ThreadsNeeded(
      [&] { return testing::LoadEngine(file.path(), setup).status(); });
  EXPECT_EQ(n, 3);  // two workers of the pool and the step thread
}

TEST(ThreadStartTest, ALoadOfSeveralPartsSaysItToo) {
  const testing::TemporaryFile file(
      testing::RandomModelBytes(testing::FindRandomModel("llama_f32")));
  testing::EngineSetup setup;
  setup.n_threads = 1;
  setup.devices = {&worker::LocalCpu()};
  setup.cuts = {1};
  setup.piece_rows = 8;
  const int n = ThreadsNeeded(
      [&] { return testing::LoadEngine(file.path(), setup).status(); });
  EXPECT_LT(n, kMostThreads);
}

TEST(ThreadStartTest, AFileIsReadWithoutAThreadWhereThereIsNone) {
  const auto bytes =
      testing::RandomModelBytes(testing::FindRandomModel("llama_f32"));
  const testing::TemporaryFile on_disk(bytes);
  const auto file = worker::ModelFile::Open(on_disk.path());
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<worker::ReadAhead::Piece> pieces;
  for (int64_t i = 0; i < 50; ++i) {
    pieces.push_back({.offset = i * 37, .bytes = 1 + i * i % 997});
  }
  AllowThreads(0);
  worker::ReadAhead reader(**file, pieces, /*has_thread=*/true);
  AllowThreads(-1);
  for (const worker::ReadAhead::Piece& piece : pieces) {
    const auto read = reader.Next();
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(static_cast<int64_t>(read->size()), piece.bytes);
    EXPECT_TRUE(
        std::equal(read->begin(), read->end(), bytes.begin() + piece.offset));
  }
}

}  // namespace
}  // namespace plimsoll
