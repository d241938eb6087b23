#include "services/planner/watch_call.h"

#include <utility>

#include "base/status_macros.h"
#include "services/common/call.h"

namespace plimsoll::services {

WatchCall::WatchCall(grpc::CallbackServerContext& context, Ledger& ledger)
    : ledger_(ledger), request_id_(TakeRequestId(context)) {}

WatchCall* WatchCall::Start(grpc::CallbackServerContext& context,
                            Ledger& ledger, CallGate& gate) {
  auto call = std::shared_ptr<WatchCall>(new WatchCall(context, ledger));
  call->grpc_reference_ = call;
  if (const absl::Status status = call->Begin(context, gate); !status.ok()) {
    call->OnWatchEnd(status);
  }
  return call.get();
}

absl::Status WatchCall::Begin(grpc::CallbackServerContext& context,
                              CallGate& gate) {
  // The pass is given back at once: a watch without end must not hold up a
  // drain, and the ledger ends it.
  RETURN_IF_ERROR(BeginCall(context, gate).status());
  return ledger_.StartListening(shared_from_this());
}

void WatchCall::OnDevices(const v1::WatchDevicesResponse& devices) {
  absl::MutexLock lock(&mu_);
  if (end_.has_value()) return;
  if (is_writing_) {
    next_ = devices;
    return;
  }
  is_writing_ = true;
  written_ = devices;
  StartWrite(&written_);
}

void WatchCall::OnWatchEnd(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value()) end_ = status;
  FinishIfIdle();
}

void WatchCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  is_writing_ = false;
  if (!ok && !end_.has_value()) {
    end_ = absl::CancelledError("the client is gone");
  }
  if (!end_.has_value() && next_.has_value()) {
    is_writing_ = true;
    written_ = *std::exchange(next_, std::nullopt);
    StartWrite(&written_);
  }
  FinishIfIdle();
}

void WatchCall::OnCancel() {
  OnWatchEnd(absl::CancelledError("the client is gone"));
}

void WatchCall::FinishIfIdle() {
  if (is_finished_ || is_writing_ || !end_.has_value()) return;
  is_finished_ = true;
  Finish(ToGrpc(*end_, request_id_));
}

void WatchCall::OnDone() {
  ledger_.StopListening(shared_from_this());
  grpc_reference_.reset();
}

}  // namespace plimsoll::services
