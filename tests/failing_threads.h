// Makes the system refuse threads, in the program that this is linked into.
#ifndef PLIMSOLL_TESTS_FAILING_THREADS_H_
#define PLIMSOLL_TESTS_FAILING_THREADS_H_

namespace plimsoll::testing {

// The next `n` threads start and those after them do not; with a negative
// number all do, which is so at the beginning.
void AllowThreads(int n);

}  // namespace plimsoll::testing

#endif  // PLIMSOLL_TESTS_FAILING_THREADS_H_
