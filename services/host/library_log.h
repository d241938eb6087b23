// What libraries have to say goes into the log of this process.
#ifndef PLIMSOLL_SERVICES_HOST_LIBRARY_LOG_H_
#define PLIMSOLL_SERVICES_HOST_LIBRARY_LOG_H_

namespace plimsoll::services {

// From now on the errors of gRPC and of Protocol Buffers are lines of the log.
// By themselves they write to standard error, however many there are, and wait
// for who reads it; and a client causes them with each message that is broken.
void TakeLibraryLogs();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LIBRARY_LOG_H_
