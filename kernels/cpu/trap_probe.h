// Tests whether instructions run: a system may announce some that then trap.
#ifndef PLIMSOLL_KERNELS_CPU_TRAP_PROBE_H_
#define PLIMSOLL_KERNELS_CPU_TRAP_PROBE_H_

namespace plimsoll::kernels {

// Runs `instructions` on this thread and returns whether none of them trapped.
// After a trap the rest of `instructions` is skipped, so the function must hold
// nothing that has to be given back. Signal handlers and this thread's signal
// mask are as before when it returns. Thread-safe: calls wait for each other,
// and a trap of another thread meanwhile goes to the handler that was there
// before.
bool RunsWithoutTrap(void (*instructions)());

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_TRAP_PROBE_H_
