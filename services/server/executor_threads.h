// Starts all threads of gRPC's executor at the beginning.
#ifndef PLIMSOLL_SERVICES_SERVER_EXECUTOR_THREADS_H_
#define PLIMSOLL_SERVICES_SERVER_EXECUTOR_THREADS_H_

namespace plimsoll::services {

inline constexpr int kExecutorThreadsPerCore = 2;

// gRPC's executor finishes calls. It starts threads when it has much work, and
// gRPC 1.51 counts a thread as started even if the system refused it. Work in
// the queue of such a thread never runs, so neither the call nor the server
// ends. This function starts all of them at once, two for each core, while
// CheckThreads reports room. It returns when the threads run, or after a few
// attempts. It ends the process if the system refused gRPC a thread after all.
void StartExecutorThreads();

// Threads of the executor that this process has.
int ExecutorThreads();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_EXECUTOR_THREADS_H_
