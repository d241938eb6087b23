// A WatchCall answers one WatchDevices call.
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
#include "services/planner/device_feed.h"
#include "services/server/call.h"
#include "services/server/reader_alarm.h"

namespace plimsoll::services {

// While a message is in flight, no changes are kept. The next message has
// everything that changed meanwhile, so a slow reader costs nothing and misses
// intermediate states. The call of a reader that reads nothing is cancelled.
//
// gRPC and the feed each hold one reference to it; gRPC's ends in OnDone.
class WatchCall final
    : public grpc::ServerWriteReactor<v1::WatchDevicesResponse>,
      public DeviceListener,
      public std::enable_shared_from_this<WatchCall> {
 public:
  static WatchCall* Start(grpc::CallbackServerContext& context,
                          const v1::WatchDevicesRequest& request,
                          DeviceFeed& feed, const CallLimits& limits);

  void OnNews() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnWatchEnd(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

  void OnWriteDone(bool ok) noexcept override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() noexcept override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() noexcept override;

 private:
  WatchCall(grpc::CallbackServerContext& context,
            const v1::WatchDevicesRequest& request, DeviceFeed& feed,
            absl::Duration reader_timeout);

  absl::Status Begin(grpc::CallbackServerContext& context, CallGate& gate);
  void WriteIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  grpc::CallbackServerContext& context_;  // until Finish
  DeviceFeed& feed_;
  const bool only_changes_;
  const std::string request_id_;
  absl::Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool has_news_ ABSL_GUARDED_BY(mu_) = false;
  // The message in flight, with its version. Other watchers may share it.
  DeviceFeed::News written_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<WatchCall> grpc_reference_;  // OnDone releases it
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_WATCH_CALL_H_
