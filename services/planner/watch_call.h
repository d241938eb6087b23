// One WatchDevices call.
#ifndef PLIMSOLL_SERVICES_PLANNER_WATCH_CALL_H_
#define PLIMSOLL_SERVICES_PLANNER_WATCH_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/common/call_gate.h"
#include "services/planner/ledger.h"

namespace plimsoll::services {

// While a message is in flight only the newest of the later ones is kept, so a
// reader that is slow costs two messages and misses states in between.
//
// Lifetime: gRPC and the ledger each hold one reference; gRPC's ends in OnDone.
class WatchCall final
    : public grpc::ServerWriteReactor<v1::WatchDevicesResponse>,
      public DeviceListener,
      public std::enable_shared_from_this<WatchCall> {
 public:
  static WatchCall* Start(grpc::CallbackServerContext& context, Ledger& ledger,
                          CallGate& gate);

  void OnDevices(const v1::WatchDevicesResponse& devices) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnWatchEnd(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override;

 private:
  WatchCall(grpc::CallbackServerContext& context, Ledger& ledger);

  absl::Status Begin(grpc::CallbackServerContext& context, CallGate& gate);
  void FinishIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Ledger& ledger_;
  const std::string request_id_;
  absl::Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  v1::WatchDevicesResponse written_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::WatchDevicesResponse> next_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<WatchCall> grpc_reference_;  // released in OnDone
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_WATCH_CALL_H_
