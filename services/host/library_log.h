// Puts messages of libraries into the log of this process.
#ifndef PLIMSOLL_SERVICES_HOST_LIBRARY_LOG_H_
#define PLIMSOLL_SERVICES_HOST_LIBRARY_LOG_H_

namespace plimsoll::services {

// From now on the errors of gRPC and of Protocol Buffers are lines of the log.
// Without this call the libraries write all of them to standard error and wait
// until they are read, and each broken message of a client causes one.
void TakeLibraryLogs();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_LIBRARY_LOG_H_
