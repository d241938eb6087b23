#include "services/http/local/local_text_call.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/call_errors.h"
#include "services/generation/generation_call.h"
#include "services/generation/message_bytes.h"
#include "services/host/clock.h"
#include "services/host/memory_guard.h"
#include "services/host/request_scope.h"
#include "services/server/server.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {

class LocalTextCall::Sequence final : public GenerationCall, public Choice {
 public:
  // `call` owns it.
  explicit Sequence(LocalTextCall& call)
      : GenerationCall(call.start_, call.trace_), call_(call) {
    const std::string& peer = call.request_.peer;
    SteadyMutexLock lock(&mu_);
    if (call.job_.is_streamed) held_ = call.messages().Enter(peer);
    if (call.IsKept()) meter_ = ReplyMeter(call.messages().Enter(peer));
  }

  // The engine's reference keeps the call alive.
  absl::Status Start(Generation generation) {
    return Submit(std::move(generation), std::shared_ptr<GenerationCall>(
                                             call_.shared_from_this(), this));
  }

  bool TakeDelta(Delta& delta) override ABSL_LOCKS_EXCLUDED(mu_) {
    SteadyMutexLock lock(&mu_);
    if (!std::exchange(has_delta_, false)) return false;
    delta = std::exchange(delta_, {});
    delta_bytes_ = 0;
    held_.Shrink(0);
    if (std::exchange(is_behind_, false) && model_) model_.engine->Wake();
    return true;
  }

  void Abandon() override { GenerationCall::Abandon(); }

 private:
  bool Deliver(worker::StepOutput& output) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (call_.is_failed_) {
      is_abandoned_ = true;
      return true;
    }
    const int64_t bytes = SizeOf(output);
    if (call_.job_.is_streamed && !HasRoom(bytes)) {
      is_behind_ = true;
      return false;
    }
    if (call_.IsKept()) refusal_ = meter_.Add(bytes);
    if (!refusal_.ok()) {
      is_abandoned_ = true;
      return true;
    }
    call_.whole_bytes_ += bytes;
    delta_bytes_ += bytes;
    AppendTo(output, delta_);
    has_delta_ = true;
    call_.OnDelta();
    return true;
  }

  // Returns whether `bytes` more may wait. A delta of any size may wait alone.
  bool HasRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!has_delta_) return true;
    const int64_t waiting = delta_bytes_ + bytes;
    return waiting <= kMaxPendingBytes &&
           held_.Grow(kReplyPerByte * waiting).ok();
  }

  bool Complete(const absl::Status& status,
                const worker::FinishInfo& info) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const absl::Status end = refusal_.ok() ? status : EndStatus(refusal_);
    if (end.ok()) {
      EndReply(info, delta_, *delta_.mutable_finish());
      has_delta_ = true;
    }
    call_.OnChoiceEnd(end);
    return true;
  }

  LocalTextCall& call_;
  Delta delta_ ABSL_GUARDED_BY(mu_);
  bool has_delta_ ABSL_GUARDED_BY(mu_) = false;
  int64_t delta_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_behind_ ABSL_GUARDED_BY(mu_) = false;  // the client is
  ByteBudget::Share held_ ABSL_GUARDED_BY(mu_);  // what a stream holds
  ReplyMeter meter_ ABSL_GUARDED_BY(mu_);        // counts a reply that is kept
  // Status of a kept reply that is too long.
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
};

LocalTextCall::LocalTextCall(ModelRegistry& registry, const HttpRoom& room,
                             const TextDialect& dialect, HttpExchange exchange)
    : TextCall(room, dialect, std::move(exchange)), registry_(registry) {}

LocalTextCall::~LocalTextCall() = default;

absl::Status LocalTextCall::Begin() {
  if (job_.IsUnload()) return Unload();
  // A load that the call has to wait for belongs to it.
  const CurrentTrace current(ContextOf(trace_));
  const RequestScope scope(request_.request_id);
  const auto submit = [this] { return Submit(); };
  const absl::Time began = BootTime();
  ASSIGN_OR_RETURN(
      std::optional<ServedModel> model,
      registry_.ServeOrLoad(job_.prompts.front().model(),
                            [this, submit, began, self = shared_from_this()](
                                absl::StatusOr<ServedModel> loaded) {
                              EndWait(BootTime() - began);
                              if (!loaded.ok()) return Fail(loaded.status());
                              model_ = *std::move(loaded);
                              Run(/*is_small=*/false, submit);
                            }));
  if (!model.has_value()) {
    BeginWait(
        [this] { return registry_.LoadPercent(job_.prompts.front().model()); });
    return absl::OkStatus();
  }
  model_ = *std::move(model);
  // The server's thread compiles no constraint, and quick work does not become
  // long work.
  const bool is_other_work =
      is_inline_ ? HasConstraint(job_)
                 : static_cast<size_t>(job_.turn_bytes) > kMaxQuickBytes;
  if (!is_other_work) return Submit();
  Run(/*is_small=*/false, submit);
  return absl::OkStatus();
}

absl::Status LocalTextCall::Unload() {
  if (!registry_.loads_on_demand()) {
    return absl::InvalidArgumentError(
        "keep_alive: cannot unload: models stay loaded until the server ends");
  }
  const std::string& name = job_.prompts.front().model();
  RETURN_IF_ERROR(registry_.SetKeepAlive(name, absl::ZeroDuration()));
  registry_.UnloadExpired();
  MakeFormat(name, 0, {});
  request_.held.Shrink(0);
  OnChoiceEnd(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status LocalTextCall::Submit() {
  const ServedModel model = std::exchange(model_, {});
  if (job_.keep_alive.has_value()) {
    RETURN_IF_ERROR(registry_.SetKeepAlive(model.name, *job_.keep_alive));
  }
  RETURN_IF_ERROR(CheckContext(job_, model.name, model.engine->n_ctx()));
  if (job_.n_choices == 0) {
    MakeFormat(model.name, 0, {});
  } else {
    for (v1::StreamGenerateRequest& request : job_.prompts) {
      RETURN_IF_ERROR(AddChoices(model, request));
    }
  }
  request_.held.Shrink(job_.held_bytes);
  OnChoiceEnd(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status LocalTextCall::AddChoices(const ServedModel& model,
                                       v1::StreamGenerateRequest& request) {
  ByteBudget::Share held = messages().Enter(request_.peer);
  const auto stop = [this] { return stop_->Check(); };
  worker::Claim claim;
  claim.peer = request_.peer;
  claim.tenant = request_.tenant;
  ASSIGN_OR_RETURN(
      const Generation generation,
      Prepare(model, {claim, request_.request_id, held, stop}, request));
  if (format_ == nullptr) {
    MakeFormat(model.name, generation.options.prompt_ids.size(),
               generation.constraint_notes);
  }
  RETURN_IF_ERROR(held.Grow(job_.n_choices * held.bytes()));
  held_.push_back(std::move(held));
  for (int i = 0; i < job_.n_choices; ++i) {
    Generation one = generation;
    one.options.sampling.seed += static_cast<uint64_t>(i);
    one.options.deadline =
        job_.is_streamed ? absl::InfiniteFuture() : start_ + kUnaryDeadline;
    auto made = std::make_unique<Sequence>(*this);
    Sequence& sequence = *made;
    RETURN_IF_ERROR(AddChoice(std::move(made)));
    absl::Status status =
        WithinMemory([&] { return sequence.Start(std::move(one)); });
    if (status.ok()) continue;
    DropChoice();
    return status;
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
