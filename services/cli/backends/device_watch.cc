#include "services/cli/backends/device_watch.h"

#include <optional>
#include <utility>

#include "base/sync/fault.h"
#include "base/sync/steady_mutex.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/wire/broken_connection.h"

namespace plimsoll::cli {
namespace {

// Keeps the newest message; gRPC reads on as soon as there is one.
class Reader final : public grpc::ClientReadReactor<v1::WatchDevicesResponse> {
 public:
  explicit Reader(v1::PlannerService::Stub& stub) {
    stub.async()->WatchDevices(&context_, &request_, this);
    StartRead(&incoming_);
    StartCall();
  }
  // gRPC must be done with this object before the object is destroyed.
  ~Reader() override {
    context_.TryCancel();
    SteadyMutexLock lock(&mu_);
    const auto is_done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return status_.has_value();
    };
    mu_.Await(absl::Condition(&is_done));
  }

  // Returns the newest message that was not taken yet, or nothing after a while
  // without one. Once the stream has ended, `end` is its status.
  std::optional<v1::WatchDevicesResponse> Take(
      std::optional<grpc::Status>& end) {
    SteadyMutexLock lock(&mu_);
    const auto has_news = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return newest_.has_value() || status_.has_value();
    };
    mu_.AwaitFor(absl::Condition(&has_news), kInterruptPoll);
    if (!newest_.has_value()) end = status_;
    return std::exchange(newest_, std::nullopt);
  }

  void OnReadDone(bool ok) noexcept override {
    if (!ok) return;
    if (PLIMSOLL_FAULT("cli.watch")) return break_.Break(context_);
    {
      SteadyMutexLock lock(&mu_);
      newest_ = std::move(incoming_);
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnDone(const grpc::Status& status) noexcept override {
    SteadyMutexLock lock(&mu_);
    status_ = break_.EndOf(status);
  }

 private:
  grpc::ClientContext context_;
  const v1::WatchDevicesRequest request_;
  v1::WatchDevicesResponse incoming_;  // gRPC's
  services::CallBreak break_;          // gRPC's
  SteadyMutex mu_;
  std::optional<v1::WatchDevicesResponse> newest_ ABSL_GUARDED_BY(mu_);
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status WatchDevices(
    const Endpoint& address,
    const std::function<absl::Status(const v1::WatchDevicesResponse&)>& show) {
  const InterruptScope interrupts;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  Reader reader(*stub);
  std::optional<grpc::Status> end;
  bool has_begun = false;
  while (!end.has_value()) {
    const auto devices = reader.Take(end);
    if (Interrupted()) return InterruptedError();
    if (!devices.has_value()) continue;
    has_begun = true;
    absl::Status status = show(*devices);
    if (!status.ok()) return status;
  }
  return has_begun ? StreamStatus(*end, address) : CallStatus(*end, address);
}

}  // namespace plimsoll::cli
