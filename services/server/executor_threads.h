// All threads of gRPC's executor, from the beginning.
#ifndef PLIMSOLL_SERVICES_SERVER_EXECUTOR_THREADS_H_
#define PLIMSOLL_SERVICES_SERVER_EXECUTOR_THREADS_H_

namespace plimsoll::services {

inline constexpr int kExecutorThreadsPerCore = 2;

// gRPC's executor finishes calls. It starts threads when it has much to do, and
// gRPC 1.51 counts one as started that the system refused: what is queued for
// it never runs, so that a call does not end, nor does the server. This has all
// of them started at once, two for each core, while CheckThreads says that
// there is room. It returns when they run, or after a few attempts.
void StartExecutorThreads();

// Threads of the executor that this process has.
int ExecutorThreads();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_EXECUTOR_THREADS_H_
