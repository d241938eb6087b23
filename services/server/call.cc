#include "services/server/call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "services/host/random_id.h"

namespace plimsoll::services {
namespace {

constexpr char kRequestIdKey[] = "x-request-id";

bool IsGoodId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return absl::ascii_isgraph(static_cast<unsigned char>(c));
         });
}

// A unary call that is answered from the pool.
//
// Lifetime: gRPC's, until OnDone, which follows Finish: until then the work is
// queued or runs.
class PooledCall final : public grpc::ServerUnaryReactor {
 public:
  PooledCall(grpc::CallbackServerContext& context, WorkPool& pool,
             std::function<absl::Status(StopCheck)> answer)
      : pool_(pool),
        request_id_(TakeRequestId(context)),
        stop_(NewCallStop(context)),
        answer_(std::move(answer)) {}

  void Start(const grpc::CallbackServerContext& context, CallGate& gate,
             WorkCost cost, size_t request_bytes) {
    auto pass = BeginCall(context, gate);
    if (!pass.ok()) return End(pass.status());
    pass_ = *std::move(pass);
    const absl::Status queued =
        pool_.Submit({.peer = PeerHost(context),
                      .cost = cost,
                      .stop = stop_,
                      .work =
                          [this](const absl::Status& admitted) {
                            End(admitted.ok() ? Answer() : admitted);
                          },
                      .request_bytes = request_bytes});
    if (!queued.ok()) End(queued);
  }

  // Also at the deadline.
  void OnCancel() override { pool_.Cancel(*stop_); }
  void OnDone() override { delete this; }

 private:
  absl::Status Answer() {
    return answer_([this] { return stop_->Check(); });
  }
  void End(const absl::Status& status) { Finish(ToGrpc(status, request_id_)); }

  WorkPool& pool_;
  const std::string request_id_;
  const std::shared_ptr<CallStop> stop_;
  const std::function<absl::Status(StopCheck)> answer_;
  CallGate::Pass pass_;
};

}  // namespace

std::string TakeRequestId(grpc::CallbackServerContext& context) {
  std::string id;
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find(kRequestIdKey);
      found != metadata.end()) {
    id.assign(found->second.data(), found->second.size());
  }
  if (!IsGoodId(id)) id = RandomId();
  context.AddInitialMetadata(kRequestIdKey, id);
  return id;
}

absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return absl::FromChrono(deadline - std::chrono::system_clock::now());
}

absl::StatusOr<CallGate::Pass> BeginCall(
    const grpc::CallbackServerContext& context, CallGate& gate) {
  if (TimeLeft(context) <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError("the call's deadline has passed");
  }
  return gate.Enter();
}

std::shared_ptr<CallStop> NewCallStop(
    const grpc::CallbackServerContext& context) {
  return std::make_shared<CallStop>(
      absl::Now() + std::min(TimeLeft(context), kUnaryDeadline));
}

std::string PeerHost(const grpc::CallbackServerContext& context) {
  std::string peer = context.peer();
  if (absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:")) {
    peer.resize(peer.rfind(':'));
  }
  return peer;
}

grpc::ServerUnaryReactor* AnswerOnPool(
    grpc::CallbackServerContext* context, CallGate& gate, WorkPool& pool,
    WorkCost cost, size_t request_bytes,
    std::function<absl::Status(StopCheck)> answer) {
  auto* call = new PooledCall(*context, pool, std::move(answer));
  call->Start(*context, gate, cost, request_bytes);
  return call;
}

}  // namespace plimsoll::services
