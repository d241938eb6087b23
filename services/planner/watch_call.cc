#include "services/planner/watch_call.h"

#include <utility>

#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "services/server/call.h"

namespace plimsoll::services {

WatchCall::WatchCall(grpc::CallbackServerContext& context,
                     const v1::WatchDevicesRequest& request, DeviceFeed& feed,
                     absl::Duration reader_timeout)
    : context_(context),
      feed_(feed),
      only_changes_(request.only_changes()),
      request_id_(TakeRequestId(context)),
      slow_reader_(context, reader_timeout) {}

WatchCall* WatchCall::Start(grpc::CallbackServerContext& context,
                            const v1::WatchDevicesRequest& request,
                            DeviceFeed& feed, const CallLimits& limits) {
  auto call = std::shared_ptr<WatchCall>(
      new WatchCall(context, request, feed, limits.reader_timeout));
  call->grpc_reference_ = call;
  if (const absl::Status status = call->Begin(context, limits.gate);
      !status.ok()) {
    call->OnWatchEnd(status);
  }
  return call.get();
}

absl::Status WatchCall::Begin(grpc::CallbackServerContext& context,
                              CallGate& gate) {
  // The pass is given back at once: a watch without end must not delay a drain.
  // The feed ends the watch.
  RETURN_IF_ERROR(BeginCall(context, gate).status());
  return feed_.Start(shared_from_this());
}

void WatchCall::OnNews() {
  absl::MutexLock lock(&mu_);
  has_news_ = true;
  WriteIfIdle();
}

void WatchCall::WriteIfIdle() {
  if (end_.has_value() || is_writing_ || !has_news_) return;
  has_news_ = false;
  DeviceFeed::News news = feed_.Take(written_.version, only_changes_);
  if (news.message == nullptr) return;
  if (written_.message == nullptr) SendRequestId(context_, request_id_);
  written_ = std::move(news);
  is_writing_ = true;
  slow_reader_.Start();
  StartWrite(written_.message.get());
}

void WatchCall::OnWatchEnd(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!end_.has_value()) end_ = status;
  FinishIfIdle();
}

void WatchCall::OnWriteDone(bool ok) noexcept {
  absl::MutexLock lock(&mu_);
  slow_reader_.Stop();
  is_writing_ = false;
  if (PLIMSOLL_FAULT("watch.write")) ok = false;
  if (!ok && !end_.has_value()) {
    end_ = absl::CancelledError("the client is gone");
  }
  WriteIfIdle();
  FinishIfIdle();
}

void WatchCall::OnCancel() noexcept {
  OnWatchEnd(absl::CancelledError("the client is gone"));
}

void WatchCall::FinishIfIdle() {
  if (is_finished_ || is_writing_ || !end_.has_value()) return;
  is_finished_ = true;
  slow_reader_.Start();
  Finish(EndOfCall(*end_, request_id_));
}

void WatchCall::OnDone() noexcept {
  feed_.Stop(shared_from_this());
  {
    absl::MutexLock lock(&mu_);
    slow_reader_.Stop();
  }
  grpc_reference_.reset();
}

}  // namespace plimsoll::services
