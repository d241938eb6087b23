// Whether instructions run here: a system may announce some that then trap.
#ifndef PLIMSOLL_KERNELS_CPU_TRAP_PROBE_H_
#define PLIMSOLL_KERNELS_CPU_TRAP_PROBE_H_

namespace plimsoll::kernels {

// Runs `instructions` on this thread and returns whether none of them trapped;
// the rest of them is left out then, so they must hold nothing that has to be
// given back. Signal handlers and this thread's signal mask are afterwards as
// they were. Thread-safe: calls wait for each other, and a trap of another
// thread meanwhile goes to the handler that there was.
bool RunsWithoutTrap(void (*instructions)());

}  // namespace plimsoll::kernels

#endif  // PLIMSOLL_KERNELS_CPU_TRAP_PROBE_H_
