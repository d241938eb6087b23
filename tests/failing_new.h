// An operator new that can fail. It replaces that of the whole test program.
#ifndef PLIMSOLL_TESTS_FAILING_NEW_H_
#define PLIMSOLL_TESTS_FAILING_NEW_H_

#include <cstdint>
#include <new>

namespace plimsoll::testing {

// The n-th operator new of this thread from now on throws std::bad_alloc; with
// 0 none does.
void FailAllocation(int64_t n);
// How many are still to come until that one; 0 once it has failed.
int64_t AllocationsLeft();

// Calls `attempt()` and then `check(has_failed)`, first with its first
// allocation failing, then with its second one, until none has failed. Returns
// how many have.
template <typename Attempt, typename Check>
int64_t FailEachAllocation(const Attempt& attempt, const Check& check) {
  for (int64_t n = 1;; ++n) {
    FailAllocation(n);
    try {
      attempt();
    } catch (const std::bad_alloc&) {
    }
    const bool has_failed = AllocationsLeft() == 0;
    FailAllocation(0);
    check(has_failed);
    if (!has_failed) return n - 1;
  }
}

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_FAILING_NEW_H_
