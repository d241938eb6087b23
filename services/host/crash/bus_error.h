// The end of a process that cannot read a page of a mapped file.
#ifndef PLIMSOLL_SERVICES_HOST_CRASH_BUS_ERROR_H_
#define PLIMSOLL_SERVICES_HOST_CRASH_BUS_ERROR_H_

namespace plimsoll::services {

// The exit status: EX_IOERR of sysexits.h.
inline constexpr int kBusErrorStatus = 74;

// From now on, a read of a page that a mapped file no longer has, or that its
// disk cannot read, ends the process with kBusErrorStatus and a line on stderr
// with the reason. Nothing else can be done: the weights are gone, and tokens
// must not be computed with other weights. Call it before a model is mapped,
// from any thread, any number of times.
void EndOnBusError();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CRASH_BUS_ERROR_H_
