// The last line of a process that ends by abort().
#ifndef PLIMSOLL_SERVICES_HOST_CRASH_ABORT_MESSAGE_H_
#define PLIMSOLL_SERVICES_HOST_CRASH_ABORT_MESSAGE_H_

namespace plimsoll::services {

// From now on, abort() writes a line on stderr before the process ends by
// SIGABRT. gRPC calls abort() without a message if it gets no memory. Call it
// first in main().
void SayWhatAborts();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_CRASH_ABORT_MESSAGE_H_
