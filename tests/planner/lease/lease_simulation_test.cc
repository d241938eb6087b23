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

TEST(LeaseSimulationTest, NoByteIsGrantedTwice) {
  uint64_t first = 1;
  uint64_t step = 1;
  uint64_t last =
      FromEnvironment("PLIMSOLL_HISTORIES", PLIMSOLL_DEFAULT_HISTORIES);
  unsigned shard = 0;
  unsigned n_shards = 1;
  const char* const shards = std::getenv("PLIMSOLL_SHARD");
  if (shards != nullptr) {
    ASSERT_EQ(std::sscanf(shards, "%u/%u", &shard, &n_shards), 2);
    ASSERT_LT(shard, n_shards);
    first += shard;
    step = n_shards;
  }
  if (const uint64_t seed = FromEnvironment("PLIMSOLL_SEED", 0); seed > 0) {
    first = last = seed;
  }
  int64_t n_granted = 0, n_adopted = 0, n_proven = 0, n_restarts = 0;
  int64_t n_protected = 0, n_believed = 0, n_misread = 0, n_returned = 0;
  int64_t n_judged = 0, n_histories = 0;
  for (uint64_t seed = first; seed <= last; seed += step) {
    LeaseSimulation simulation(seed);
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

}  // namespace
}  // namespace plimsoll::planner
