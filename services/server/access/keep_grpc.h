// Keeps gRPC's library initialised as long as the process runs.
#ifndef PLIMSOLL_SERVICES_SERVER_ACCESS_KEEP_GRPC_H_
#define PLIMSOLL_SERVICES_SERVER_ACCESS_KEEP_GRPC_H_

namespace plimsoll::services {

// Keeps gRPC from shutting down before the process ends. Its shutdown waits for
// every thread that it started, and also for one that the system refused, so it
// might never return (timer_manager.cc of gRPC 1.51).
void KeepGrpc();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_ACCESS_KEEP_GRPC_H_
