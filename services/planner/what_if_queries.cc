#include "services/planner/what_if_queries.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "services/planner/request_shapes.h"
#include "services/server/call.h"
#include "services/server/peer.h"
#include "services/server/reader_alarm.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

absl::StatusOr<DType> TypeOr(v1::ElementType type, DType absent,
                             absl::string_view field) {
  if (type == v1::ELEMENT_TYPE_UNSPECIFIED) return absent;
  return FromProto(type, field);
}

v1::WhatIfPoint ToProto(const planner::WhatIfPoint& point) {
  v1::WhatIfPoint message;
  message.set_device(ToUint32(point.device));
  if (point.weights.has_value()) {
    message.set_weight_type(services::ToProto(*point.weights));
  }
  message.set_k_type(services::ToProto(point.kv.k));
  message.set_v_type(services::ToProto(point.kv.v));
  message.set_n_ubatch(ToUint32(point.n_ubatch));
  message.set_n_slots(ToUint32(point.n_slots));
  message.set_wanted_ctx(ToUint32(point.wanted_ctx.value_or(0)));
  message.set_n_ctx(ToUint32(point.n_ctx));
  message.set_fits(point.fits);
  message.set_can_run(point.can_run);
  message.set_budget_bytes(ToUint64(point.budget_bytes));
  message.set_total_bytes(ToUint64(point.total_bytes));
  message.set_arena_bytes(ToUint64(point.arena_bytes));
  message.set_kv_bytes(ToUint64(point.kv_bytes));
  message.set_missing_bytes(ToUint64(point.missing_bytes));
  message.set_kv_bytes_per_token(ToUint64(point.kv_bytes_per_token));
  return message;
}

// Makes the grid of `request`, with its model and devices.
absl::StatusOr<planner::WhatIf> GridOf(Planner& planner,
                                       const v1::WhatIfRequest& request,
                                       StopCheck stop) {
  if (request.devices_size() > planner::WhatIfAxes::kMaxDevices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "devices has more than ", planner::WhatIfAxes::kMaxDevices));
  }
  ASSIGN_OR_RETURN(const Planner::Shape shape,
                   planner.ShapeOf(request.source()));
  std::vector<planner::WhatIfAxes::Device> devices;
  for (const v1::WhatIfDevice& device : request.devices()) {
    ASSIGN_OR_RETURN(Planner::Target target, planner.TargetOf(device));
    devices.push_back({std::move(target.profile), target.budget_bytes});
  }
  return ToWhatIf(request, *shape, std::move(devices), stop);
}

absl::Status TooManyLayers(int64_t n_layers) {
  return absl::InvalidArgumentError(
      absl::StrCat("requests: plans of ", n_layers, " layers or more, at most ",
                   kMaxBatchLayers, " are made at a time"));
}

// One WhatIf call. When a message was sent, the next one is computed on the
// pool. So a call holds one message however slow its reader is, takes turns
// with others, and stops with its reader.
//
// gRPC owns it until OnDone.
class WhatIfCall final : public grpc::ServerWriteReactor<v1::WhatIfResponse> {
 public:
  WhatIfCall(grpc::CallbackServerContext& context, const WhatIfRoom& room,
             const v1::WhatIfRequest& request)
      : context_(context),
        planner_(room.planner),
        pool_(room.pool.pool),
        calls_(room.calls),
        request_(request),
        request_id_(TakeRequestId(context)),
        peer_(PeerOf(context.peer())),
        stop_(std::make_shared<CallStop>(TimeLeft(context))),
        held_(EnterCall(context, room.pool.limits)),
        slow_reader_(context, room.pool.limits.reader_timeout) {}

  ~WhatIfCall() override { StopCounting(); }

  void Start(CallGate& gate) {
    if (const absl::Status status = Begin(gate); !status.ok())
      return End(status);
    Queue();
  }

  void OnWriteDone(bool ok) noexcept override {
    {
      absl::MutexLock lock(&mu_);
      slow_reader_.Stop();
    }
    if (!ok) stop_->Cancel();
    Queue();
  }

  void OnCancel() noexcept override { pool_.Cancel(*stop_); }
  void OnDone() noexcept override { delete this; }

 private:
  // This is the memory of a message and of its bytes that are to be sent.
  static constexpr int64_t kMessageBytes = 512 << 10;

  absl::Status Begin(CallGate& gate) {
    ASSIGN_OR_RETURN(pass_, BeginCall(context_, gate));
    is_counted_ = calls_.Enter();
    // The call holds its request to the end, and one message.
    if (is_counted_) return held_.Grow(MemoryOf(request_) + kMessageBytes);
    return WithDetails(absl::ResourceExhaustedError(absl::StrCat(
                           kMaxWhatIfCalls, " WhatIf calls run already")),
                       {v1::ERROR_REASON_QUEUE_FULL, {}, absl::Seconds(1)});
  }

  // Has the next message made. It never runs twice at once: either work waits
  // or runs, or a write is in flight.
  void Queue() {
    const absl::Status queued = pool_.Submit(
        {peer_, WorkCost::kLong, stop_,
         [this](const absl::Status& admitted) { WriteNext(admitted); },
         /*goes_on=*/std::exchange(has_begun_, true)});
    if (!queued.ok()) End(queued);
  }

  void WriteNext(const absl::Status& admitted) {
    if (!admitted.ok()) return End(admitted);
    auto next = Next([this] { return stop_->Check(); });
    if (!next.ok()) return End(next.status());
    if (!next->has_value()) return End(absl::OkStatus());
    message_ = **std::move(next);
    AwaitReader();
    StartWrite(&message_);
  }

  absl::StatusOr<std::optional<v1::WhatIfResponse>> Next(StopCheck stop) {
    if (!messages_.has_value()) {
      ASSIGN_OR_RETURN(planner::WhatIf grid, GridOf(planner_, request_, stop));
      messages_.emplace(std::move(grid));
      SendRequestId(context_, request_id_);
    }
    return messages_->Next(stop);
  }

  // It holds no lock afterwards: the call may be gone once gRPC goes on.
  void AwaitReader() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    slow_reader_.Start();
  }

  // This comes before the client learns of the end: its next call may arrive
  // before OnDone.
  void StopCounting() {
    if (std::exchange(is_counted_, false)) calls_.Exit();
  }
  void End(const absl::Status& status) {
    StopCounting();
    AwaitReader();
    Finish(EndOfCall(status, request_id_));
  }

  grpc::CallbackServerContext& context_;  // until Finish
  Planner& planner_;
  WorkPool& pool_;
  WhatIfCalls& calls_;
  const v1::WhatIfRequest& request_;  // gRPC's, until OnDone
  const std::string request_id_;
  const std::string peer_;
  const std::shared_ptr<CallStop> stop_;
  CallGate::Pass pass_;
  ByteBudget::Share held_;
  bool is_counted_ = false;
  bool has_begun_ = false;
  std::optional<WhatIfMessages> messages_;
  v1::WhatIfResponse message_;  // in flight
  absl::Mutex mu_;
  ReaderAlarm slow_reader_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status BatchPlan(Planner& planner, const v1::BatchPlanRequest& request,
                       v1::BatchPlanResponse& response, StopCheck stop) {
  if (request.requests_size() > kMaxBatchPlans) {
    return absl::InvalidArgumentError(
        absl::StrCat("requests has ", request.requests_size(), ", at most ",
                     kMaxBatchPlans));
  }
  RequestShapes shapes([&planner](const v1::ModelSource& source) {
    return planner.ShapeOf(source);
  });
  std::vector<absl::StatusOr<RequestShapes::Shape>> shape_of;  // each request
  int64_t n_layers = 0;
  for (const v1::PlanRequest& one : request.requests()) {
    RETURN_IF_ERROR(stop());
    shape_of.push_back(shapes.Get(one.source()));
    if (shape_of.back().ok()) n_layers += (*shape_of.back())->n_layers;
    if (n_layers > kMaxBatchLayers) return TooManyLayers(n_layers);
  }
  for (int i = 0; i < request.requests_size(); ++i) {
    RETURN_IF_ERROR(stop());
    const v1::PlanRequest& one = request.requests(i);
    v1::BatchPlanResult& result = *response.add_results();
    v1::PlanResponse planned;
    const auto& shape = shape_of[static_cast<size_t>(i)];
    const absl::Status status =
        shape.ok() ? planner.PlanShape(**shape, one, planned) : shape.status();
    if (status.ok()) {
      *result.mutable_plan() = std::move(*planned.mutable_plan());
      continue;
    }
    v1::PlanFailure& failure = *result.mutable_failure();
    failure.set_code(static_cast<uint32_t>(status.code()));
    failure.set_message(WithoutSecrets(status.message()));
    failure.set_reason(DetailsOf(status).reason);
  }
  return absl::OkStatus();
}

absl::StatusOr<planner::WhatIf> ToWhatIf(
    const v1::WhatIfRequest& request, planner::ModelShape shape,
    std::vector<planner::WhatIfAxes::Device> devices, StopCheck stop) {
  ASSIGN_OR_RETURN(const planner::PlanOptions base,
                   FromProto(request.options()));
  planner::WhatIfAxes axes;
  axes.devices = std::move(devices);
  if (request.weight_types_size() > 0) axes.weights.clear();
  for (int type : request.weight_types()) {
    if (type == v1::ELEMENT_TYPE_UNSPECIFIED) {
      axes.weights.push_back(std::nullopt);
      continue;
    }
    ASSIGN_OR_RETURN(
        axes.weights.emplace_back(),
        FromProto(static_cast<v1::ElementType>(type), "weight_types"));
  }
  axes.kv = {{base.k_type, base.v_type}};
  if (request.kv_types_size() > 0) axes.kv.clear();
  for (const v1::KvTypes& types : request.kv_types()) {
    ASSIGN_OR_RETURN(const DType k,
                     TypeOr(types.k_type(), DType::kF16, "kv_types.k_type"));
    ASSIGN_OR_RETURN(const DType v,
                     TypeOr(types.v_type(), DType::kF16, "kv_types.v_type"));
    axes.kv.push_back({k, v});
  }
  axes.n_ubatch = {base.n_ubatch};
  if (request.n_ubatch_size() > 0) {
    axes.n_ubatch.assign(request.n_ubatch().begin(), request.n_ubatch().end());
  }
  axes.n_slots = {base.n_slots};
  if (request.n_slots_size() > 0) {
    axes.n_slots.assign(request.n_slots().begin(), request.n_slots().end());
  }
  axes.n_ctx = {base.n_ctx};
  if (request.n_ctx_size() > 0) axes.n_ctx.clear();
  for (uint32_t n_ctx : request.n_ctx()) {
    axes.n_ctx.push_back(n_ctx == 0 ? std::nullopt
                                    : std::optional<int64_t>(n_ctx));
  }
  return planner::WhatIf::Create(std::move(shape), base, std::move(axes), stop);
}

absl::StatusOr<std::optional<v1::WhatIfResponse>> WhatIfMessages::Next(
    StopCheck stop) {
  v1::WhatIfResponse message;
  if (std::exchange(is_first_, false)) {
    message.set_n_points(ToUint32(grid_.n_points()));
  }
  if (!grid_.done()) {
    ASSIGN_OR_RETURN(const std::vector<planner::WhatIfPoint> points,
                     grid_.Next(kMaxPoints, stop));
    for (const planner::WhatIfPoint& point : points) {
      *message.add_points() = ToProto(point);
    }
    return message;
  }
  if (!frontier_.has_value()) {
    ASSIGN_OR_RETURN(frontier_, grid_.Frontier(stop));
  }
  if (n_sent_ == frontier_->size()) return std::nullopt;
  const size_t end = std::min(n_sent_ + kMaxFrontier, frontier_->size());
  for (; n_sent_ < end; ++n_sent_) {
    message.add_frontier(ToUint32((*frontier_)[n_sent_]));
  }
  return message;
}

grpc::ServerWriteReactor<v1::WhatIfResponse>* StartWhatIf(
    grpc::CallbackServerContext& context, const WhatIfRoom& room,
    const v1::WhatIfRequest& request) {
  auto* call = new WhatIfCall(context, room, request);
  call->Start(room.pool.limits.gate);
  return call;
}

}  // namespace plimsoll::services
