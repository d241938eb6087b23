// A change of the book for which there is no memory is not half made.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "planner/lease/lease_book.h"
#include "tests/failing_new.h"

namespace plimsoll::planner {
namespace {

using ::plimsoll::testing::AllocationsLeft;
using ::plimsoll::testing::FailAllocation;

constexpr int kAllDone = 3;

// Makes changes of every kind, of which the n-th allocation fails. Exits with
// kAllDone if they make fewer.
void ChangeABook(int64_t n) {
  LeaseBook book;
  const absl::Time now = absl::UnixEpoch();
  const BookedDevice device = {.id = "the id of a device that is long",
                               .total_bytes = 1'000,
                               .measured_free_bytes = 1'000};
  const LeaseBook::ReserveRequest request = {
      .request_id = "the id of a request that is long",
      .lease_id = "the id of a lease that is long",
      .device_id = device.id,
      .holder = "the name of a holder that is long",
      .purpose = "the name of a model that is long",
      .bytes = 100,
      .process = "the name of a process that is long"};
  FailAllocation(n);
  book.RegisterDevice(device).IgnoreError();
  const absl::StatusOr<Lease> lease = book.Reserve(request, now);
  if (lease.ok()) {
    book.Confirm(lease->id, lease->epoch, 90, now).IgnoreError();
    book.Release(lease->id, lease->epoch, /*shortfall_bytes=*/10).IgnoreError();
  }
  const bool is_done = AllocationsLeft() > 0;
  FailAllocation(0);
  std::_Exit(is_done ? kAllDone : EXIT_FAILURE);
}

TEST(LeaseBookMemoryDeathTest, AChangeThatGetsNoMemoryEndsTheProcess) {
  constexpr int kMostAllocations = 200;
  int n = 0;
  for (bool is_last = false; !is_last && n < kMostAllocations;) {
    ++n;
    const auto has_ended_well = [&is_last](int status) {
      is_last = WIFEXITED(status) && WEXITSTATUS(status) == kAllDone;
      return is_last || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    };
    EXPECT_EXIT(ChangeABook(n), has_ended_well, "") << n;
  }
  EXPECT_GT(n, 16);
  EXPECT_LT(n, kMostAllocations);
}

}  // namespace
}  // namespace plimsoll::planner
