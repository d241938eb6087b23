#include "services/server/executor_threads.h"

#include <gtest/gtest.h>

#include <thread>

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/server/call_gate.h"
#include "services/server/server.h"

namespace plimsoll::services {
namespace {

// From then on gRPC's executor starts no thread, so that the system can refuse
// none.
TEST(ExecutorThreadsTest, AServerHasThemAll) {
  CallGate gate;
  v1::PlannerService::CallbackService service;
  const auto server = Server::Start({}, {&service}, gate);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto n_cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_GE(ExecutorThreads(), kExecutorThreadsPerCore * n_cores);
}

}  // namespace
}  // namespace plimsoll::services
