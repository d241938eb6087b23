// Cancels a call whose client does not read the messages that are sent to it.
#ifndef PLIMSOLL_SERVICES_SERVER_READER_ALARM_H_
#define PLIMSOLL_SERVICES_SERVER_READER_ALARM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <memory>

#include "absl/time/time.h"

namespace plimsoll::services {

// Not thread-safe: its call's lock guards it. The alarm may be stopped or
// destroyed while it fires.
class ReaderAlarm {
 public:
  // `context` must live until Stop().
  ReaderAlarm(grpc::CallbackServerContext& context, absl::Duration timeout)
      : context_(context), timeout_(timeout) {}
  ~ReaderAlarm() { Stop(); }
  ReaderAlarm(const ReaderAlarm&) = delete;
  ReaderAlarm& operator=(const ReaderAlarm&) = delete;

  // Cancels the call (OnCancel follows) unless Stop() comes within the timeout.
  // Does nothing if it runs already.
  void Start();
  // Afterwards the alarm does not cancel the call, but it may have done so
  // before.
  void Stop();

 private:
  struct Target;

  grpc::CallbackServerContext& context_;
  const absl::Duration timeout_;
  // Shared with gRPC's timer thread, which may be late.
  std::shared_ptr<Target> target_;
  std::unique_ptr<grpc::Alarm> alarm_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_READER_ALARM_H_
