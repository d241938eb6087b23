// Histories of a planner and its workers under every kind of trouble.
//
//   PLIMSOLL_HISTORIES=N  how many (default: PLIMSOLL_DEFAULT_HISTORIES)
//   PLIMSOLL_SHARD=I/N    the I-th of N parts of them, from 0
//   PLIMSOLL_SEED=S       only the history of this seed
//
// It finds these mistakes of the lease book, or of it and the simple book that
// it is compared to, at these seeds first (docs/development.md):
//
//   a reading frees leases of a process that lives or spoke lately: 1, in both
//   1; and if what a reading frees is not checked either: 68
//   --first is always believed: 91
//   --first is believed although there is a mark: 222
//   --first is believed although a journal was bad: 1066
//   --first is believed although the journal is partial: 7616
//   any epoch that a holder presents is taken: 16, in both 27
//   an old reading is judged by what was allocated after it: 25, in both
//
// With faults (the second test), it finds these:
//
//   a lease is granted that the journal refused: 1, in both 1
//   a lease is taken in that the journal refused: 17, in both 28
//   a refusal by the disk is remembered for its request: 2, in both 2
//   a device that failed gets leases: 1, in both 3
//   who said that a device failed makes it healthy again: 15, in both 123
//   who holds leases there makes it healthy again: 9, in both 9
//   a device that shrank keeps its size: 1, in both 12
//   a device that grew keeps its size: 1, in both 1
//   its first reading is judged by its old size: 3, in both 12
//   the leases of a device that failed are freed at once: 1, in both 12
#include "tests/planner/lease/lease_simulation.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace plimsoll::planner {
namespace {

#ifndef PLIMSOLL_DEFAULT_HISTORIES
#define PLIMSOLL_DEFAULT_HISTORIES 10'000
#endif

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Seeds {
  uint64_t first = 1;
  uint64_t last = 0;
  uint64_t step = 1;
};

// Returns the seeds of this run; `last` is 0 if the environment makes no sense.
Seeds SeedsOfRun() {
  Seeds seeds;
  const uint64_t n =
      FromEnvironment("PLIMSOLL_HISTORIES", PLIMSOLL_DEFAULT_HISTORIES);
  unsigned shard = 0;
  unsigned n_shards = 1;
  const char* const shards = std::getenv("PLIMSOLL_SHARD");
  if (shards != nullptr &&
      (std::sscanf(shards, "%u/%u", &shard, &n_shards) != 2 ||
       shard >= n_shards)) {
    return seeds;
  }
  seeds = {1 + shard, n, n_shards};
  if (const uint64_t seed = FromEnvironment("PLIMSOLL_SEED", 0); seed > 0) {
    seeds.first = seeds.last = seed;
  }
  return seeds;
}

TEST(LeaseSimulationTest, NoByteIsGrantedTwice) {
  const auto [first, last, step] = SeedsOfRun();
  ASSERT_GT(last, 0u);
  int64_t n_granted = 0, n_adopted = 0, n_proven = 0, n_restarts = 0;
  int64_t n_protected = 0, n_believed = 0, n_misread = 0, n_returned = 0;
  int64_t n_judged = 0, n_histories = 0;
  for (uint64_t seed = first; seed <= last; seed += step) {
    LeaseSimulation simulation(seed, /*has_faults=*/false);
    const std::string failure = simulation.Run();
    ASSERT_TRUE(failure.empty())
        << failure << "; replay it with PLIMSOLL_SEED=" << seed;
    ++n_histories;
    n_granted += simulation.n_granted;
    n_adopted += simulation.n_adopted;
    n_proven += simulation.n_proven;
    n_restarts += simulation.n_restarts;
    n_protected += simulation.n_protected;
    n_believed += simulation.n_believed;
    n_misread += simulation.n_misread;
    n_returned += simulation.n_returned;
    n_judged += simulation.n_judged;
  }
  std::printf(
      "%lld histories of %d operations, seeds %llu to %llu: %lld grants, "
      "%lld adoptions, %lld proofs by a reading, %lld restarts, "
      "%lld leases kept by a living process, %lld starts without a journal "
      "that granted at once, %lld leases of silent holders that a reading "
      "freed because they were swapped out, %lld leases taken in late, %lld "
      "that an old reading proved gone\n",
      static_cast<long long>(n_histories), LeaseSimulation::kOperations,
      static_cast<unsigned long long>(first),
      static_cast<unsigned long long>(last), static_cast<long long>(n_granted),
      static_cast<long long>(n_adopted), static_cast<long long>(n_proven),
      static_cast<long long>(n_restarts), static_cast<long long>(n_protected),
      static_cast<long long>(n_believed), static_cast<long long>(n_misread),
      static_cast<long long>(n_returned), static_cast<long long>(n_judged));
  if (n_histories < 1'000) return;
  // Everything that the histories are there for does come about.
  EXPECT_GT(n_granted, 4 * n_histories);
  EXPECT_GT(n_adopted, n_histories / 100);
  EXPECT_GT(n_proven, n_histories / 100);
  EXPECT_GT(n_restarts, n_histories);
  EXPECT_GT(n_protected, n_histories / 100);
  EXPECT_GT(n_believed, n_histories / 100);
  EXPECT_GT(n_misread, n_histories / 1'000);
  EXPECT_GT(n_returned, n_histories / 1'000);
  EXPECT_GE(n_judged, n_histories / 5'000);
}

TEST(LeaseSimulationTest, NoByteIsGrantedTwiceWhileDisksAndDevicesFail) {
  const auto [first, last, step] = SeedsOfRun();
  ASSERT_GT(last, 0u);
  int64_t n_granted = 0, n_unwritten = 0, n_ghosts = 0, n_failed = 0;
  int64_t n_resized = 0, n_emptied = 0, n_histories = 0;
  for (uint64_t seed = first; seed <= last; seed += step) {
    LeaseSimulation simulation(seed, /*has_faults=*/true);
    const std::string failure = simulation.Run();
    ASSERT_TRUE(failure.empty())
        << failure << "; replay it with PLIMSOLL_SEED=" << seed;
    ++n_histories;
    n_granted += simulation.n_granted;
    n_unwritten += simulation.n_unwritten;
    n_ghosts += simulation.n_ghosts;
    n_failed += simulation.n_failed;
    n_resized += simulation.n_resized;
    n_emptied += simulation.n_emptied;
  }
  std::printf(
      "%lld histories with faults: %lld grants, %lld that a disk refused, %lld "
      "of them in the journal all the same, %lld devices that failed under a "
      "worker, %lld that came back with another size, %lld of which all bytes "
      "came back\n",
      static_cast<long long>(n_histories), static_cast<long long>(n_granted),
      static_cast<long long>(n_unwritten), static_cast<long long>(n_ghosts),
      static_cast<long long>(n_failed), static_cast<long long>(n_resized),
      static_cast<long long>(n_emptied));
  if (n_histories < 1'000) return;
  EXPECT_GT(n_granted, n_histories);
  EXPECT_GT(n_unwritten, n_histories / 10);
  EXPECT_GT(n_ghosts, n_histories / 100);
  EXPECT_GT(n_failed, n_histories / 10);
  EXPECT_GT(n_resized, n_histories / 10);
  EXPECT_GT(n_emptied, n_histories);
}

}  // namespace
}  // namespace plimsoll::planner
