// The flags of plimsoll-worker.
#ifndef PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_FLAGS_H_
#define PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_FLAGS_H_

#include <optional>

#include "services/server/server.h"
#include "services/worker/models/options.h"

namespace plimsoll::services {

// Parses the command line. Returns the exit code if the process is to end now.
std::optional<int> ParseWorkerFlags(int argc, char** argv,
                                    ServerOptions& server,
                                    WorkerOptions& options,
                                    DeviceFlags& devices);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_PROCESS_WORKER_FLAGS_H_
