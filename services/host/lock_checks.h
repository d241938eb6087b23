// Turns off the deadlock checks of this process's locks.
#ifndef PLIMSOLL_SERVICES_HOST_LOCK_CHECKS_H_
#define PLIMSOLL_SERVICES_HOST_LOCK_CHECKS_H_

namespace plimsoll::services {

// From now on locks do not check for deadlocks, unless this is a debug build.
// In Debian's build of Abseil, whose locks gRPC uses too, every lock notes
// which other locks are held: two locks take some 290 ns instead of 80, the
// notes of a thousand connections take 3.6 MiB that never go back to the
// system, and an order of locks that might end in a deadlock ends the process
// at once. These checks are for tests. Call this function before any thread
// starts.
void DisableLockChecks();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LOCK_CHECKS_H_
