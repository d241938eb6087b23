// The calls that make many plans at once: BatchPlan, and WhatIf as a stream of
// messages.
#ifndef PLIMSOLL_SERVICES_PLANNER_WHAT_IF_QUERIES_H_
#define PLIMSOLL_SERVICES_PLANNER_WHAT_IF_QUERIES_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "planner/fleet/what_if.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/planner/planner.h"
#include "services/server/call.h"
#include "services/server/work_pool.h"

namespace plimsoll::services {

// One BatchPlan has at most this many requests.
inline constexpr int kMaxBatchPlans = 256;
// The plans of one BatchPlan have at most this many layers: 128 for each plan.
inline constexpr int64_t kMaxBatchLayers = int64_t{128} * kMaxBatchPlans;
// This many WhatIf calls run at once: each holds memory in proportion to its
// grid.
inline constexpr int kMaxWhatIfCalls = 8;

// Answers each request of a BatchPlan as Plan would.
// Errors: kInvalidArgument beyond kMaxBatchPlans and kMaxBatchLayers, before
// any plan is made; those of `stop`.
absl::Status BatchPlan(Planner& planner, const v1::BatchPlanRequest& request,
                       v1::BatchPlanResponse& response,
                       StopCheck stop = NeverStop);

// Makes the grid of `request` for a model and devices that the caller has
// found.
// Errors: kInvalidArgument naming the field; those of planner::WhatIf::Create.
absl::StatusOr<planner::WhatIf> ToWhatIf(
    const v1::WhatIfRequest& request, planner::ModelShape shape,
    std::vector<planner::WhatIfAxes::Device> devices,
    StopCheck stop = NeverStop);

// Makes the messages of one WhatIf, one at a time.
class WhatIfMessages {
 public:
  // One message has at most this many points, and frontier indices.
  static constexpr int64_t kMaxPoints = 512;
  static constexpr size_t kMaxFrontier = 1 << 16;

  explicit WhatIfMessages(planner::WhatIf grid) : grid_(std::move(grid)) {}

  // Returns the next message, or nothing at the end.
  // Errors: those of WhatIf::Next and WhatIf::Frontier.
  absl::StatusOr<std::optional<v1::WhatIfResponse>> Next(
      StopCheck stop = NeverStop);

 private:
  planner::WhatIf grid_;
  bool is_first_ = true;
  // Made when all points are sent; `n_sent_` of its indices were sent.
  std::optional<std::vector<int64_t>> frontier_;
  size_t n_sent_ = 0;
};

// Counts the running WhatIf calls, and outlives them. Thread-safe.
class WhatIfCalls {
 public:
  bool Enter() {
    if (running_.fetch_add(1) < kMaxWhatIfCalls) return true;
    Exit();
    return false;
  }
  void Exit() { running_.fetch_sub(1); }

 private:
  std::atomic<int> running_ = 0;
};

// What answers WhatIf calls. All of it outlives the server.
struct WhatIfRoom {
  PoolRoom pool;
  Planner& planner;
  WhatIfCalls& calls;
};

// Starts a WhatIf call. Its messages are computed on the pool. The call is
// cancelled if the client takes no message for the reader timeout.
grpc::ServerWriteReactor<v1::WhatIfResponse>* StartWhatIf(
    grpc::CallbackServerContext& context, const WhatIfRoom& room,
    const v1::WhatIfRequest& request);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_WHAT_IF_QUERIES_H_
