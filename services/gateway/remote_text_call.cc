#include "services/gateway/remote_text_call.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "plimsoll/v1/generation.grpc.pb.h"
#include "services/gateway/worker_answers.h"
#include "services/generation/call_errors.h"
#include "services/generation/message_bytes.h"
#include "services/host/clock.h"
#include "services/host/memory_guard.h"
#include "services/http/dialects/reply_deltas.h"
#include "services/server/server.h"
#include "services/tracing/call_trace.h"
#include "services/tracing/tracer.h"
#include "services/wire/broken_connection.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

ReplyUsage UsageOf(const v1::FinishInfo& finish) {
  const v1::TokenUsage& usage = finish.usage();
  return {.n_input = static_cast<int64_t>(usage.prompt_tokens()),
          .n_cached = static_cast<int64_t>(usage.cached_tokens()),
          .n_output = static_cast<int64_t>(usage.generated_tokens()),
          .finish_reason = FinishWord(finish.finish_reason())};
}

}  // namespace

void RemoteCalls::Add(RemoteTextCall* call) {
  absl::MutexLock lock(&mu_);
  calls_.insert(call);
}

void RemoteCalls::Remove(RemoteTextCall* call) {
  absl::MutexLock lock(&mu_);
  calls_.erase(call);
}

void RemoteCalls::AbortAll() {
  std::vector<std::shared_ptr<TextCall>> running;
  {
    absl::MutexLock lock(&mu_);
    running.reserve(calls_.size());
    for (RemoteTextCall* call : calls_) {
      // One that is being destroyed waits for `mu_` in Remove().
      if (auto shared = call->weak_from_this().lock()) {
        running.push_back(std::move(shared));
      }
    }
  }
  for (const std::shared_ptr<TextCall>& call : running) {
    static_cast<RemoteTextCall&>(*call).Abort(
        absl::UnavailableError("the gateway ends"));
  }
}

// One reply. It has an attempt at one worker at a time.
class RemoteTextCall::Stream final : public Choice {
 public:
  // `call` owns it. The seed of the request grows by `index`.
  Stream(RemoteTextCall& call,
         std::shared_ptr<const v1::StreamGenerateRequest> request,
         uint64_t index, WorkerWish wish)
      : call_(call),
        request_(std::move(request)),
        index_(index),
        wish_(std::move(wish)) {
    absl::MutexLock lock(&mu_);
    Clear();
  }

  // Goes to a worker. Errors: those of WorkerSet::Enter; kCancelled if nobody
  // reads any more.
  absl::Status Start() ABSL_LOCKS_EXCLUDED(mu_);
  bool TakeDelta(Delta& delta) override ABSL_LOCKS_EXCLUDED(mu_);
  void Abandon() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Attempt;

  // A message has come. Returns whether the next one is to be read.
  bool OnMessage(Attempt& attempt, Delta& message) ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(Attempt& attempt, const grpc::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Drops what has come.
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return delta_bytes_ < kMaxPendingBytes &&
           held_.Grow(kReplyPerByte * delta_bytes_).ok();
  }
  // Whether another worker may be asked after this end.
  bool MayRetry(const grpc::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the reply ends with after this end of a call.
  absl::Status EndOf(const grpc::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Count(const absl::Status& end);

  RemoteTextCall& call_;
  const std::shared_ptr<const v1::StreamGenerateRequest> request_;
  const uint64_t index_;
  absl::Mutex mu_;
  WorkerWish wish_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mu_);  // null without one
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;            // a message has come
  bool has_finish_ ABSL_GUARDED_BY(mu_) = false;           // the last one has
  bool is_paused_ ABSL_GUARDED_BY(mu_) = false;            // no message is read
  bool is_abandoned_ ABSL_GUARDED_BY(mu_) = false;
  Delta delta_ ABSL_GUARDED_BY(mu_);
  bool has_delta_ ABSL_GUARDED_BY(mu_) = false;
  int64_t delta_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  ByteBudget::Share held_ ABSL_GUARDED_BY(mu_);  // what a stream holds
  ReplyMeter meter_ ABSL_GUARDED_BY(mu_);        // counts a reply that is kept
  // Status of a kept reply that is too long.
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
};

// A call of one worker. It lives until gRPC is done with it, and keeps the
// whole call alive. gRPC's functions may call back at once, so they are called
// without a lock.
class RemoteTextCall::Stream::Attempt final
    : public grpc::ClientReadReactor<Delta>,
      public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(Stream& stream, std::unique_ptr<WorkerSet::Place> place)
      : call_(stream.call_.shared_from_this()),
        stream_(stream),
        place_(std::move(place)) {}

  void Start(const v1::StreamGenerateRequest& request,
             const HttpRequest& caller, std::optional<absl::Duration> time) {
    AddCaller(caller, context_);
    // Without a tracer the worker hears what the client said.
    const auto& trace = stream_.call_.trace_;
    span_ = OpenSpan("plimsoll.v1.GenerationService/StreamGenerate",
                     SpanKind::kClient,
                     trace == nullptr ? caller.trace : trace->context());
    span_.Set("rpc.system", std::string("grpc"));
    span_.Set("server.address", worker());
    AddTrace(span_.context(), context_);
    if (time.has_value()) {
      context_.set_deadline(std::chrono::system_clock::now() +
                            absl::ToChronoMilliseconds(*time));
    }
    stub_ = v1::GenerationService::NewStub(place_->link().channel());
    Connect(request);
  }
  void Resume() { StartRead(&message_); }
  // `is_paused` if no read is on its way.
  void Cancel(bool is_paused) {
    context_.TryCancel();
    if (is_paused) RemoveHold();
  }
  const std::string& worker() { return place_->link().id(); }
  void ReleasePlace(WorkerEnd end) {
    place_->End(end);
    place_.reset();
  }

 private:
  // Has gRPC begin the call, which ends with OnDone. gRPC bears no exception in
  // between: without memory the process ends.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  void Connect(const v1::StreamGenerateRequest& request) noexcept {
    self_ = shared_from_this();
    stub_->async()->StreamGenerate(&context_, &request, this);
    // Reads also start outside of reactions, so OnDone waits for the last one.
    AddHold();
    StartRead(&message_);
    if (PLIMSOLL_FAULT("gateway.connect")) break_.Break(context_);
    StartCall();
  }
  void OnReadDone(bool ok) noexcept override {
    if (!ok) return RemoveHold();
    if (PLIMSOLL_FAULT("gateway.read")) {
      break_.Break(context_);
      return RemoveHold();
    }
    Delta message;
    message.Swap(&message_);
    if (stream_.OnMessage(*this, message)) StartRead(&message_);
  }
  // NOLINTNEXTLINE(bugprone-exception-escape): without memory the process ends.
  void OnDone(const grpc::Status& status) noexcept override {
    const std::shared_ptr<Attempt> self = std::move(self_);
    const grpc::Status end = break_.EndOf(status);
    span_.End(static_cast<absl::StatusCode>(end.error_code()));
    stream_.OnEnd(*this, end);
  }

  const std::shared_ptr<TextCall> call_;
  Stream& stream_;
  std::unique_ptr<WorkerSet::Place> place_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
  grpc::ClientContext context_;
  Delta message_;
  OpenSpan span_;
  CallBreak break_;
  std::shared_ptr<Attempt> self_;  // while gRPC uses it
};

void RemoteTextCall::Stream::Clear() {
  delta_.Clear();
  has_delta_ = false;
  has_begun_ = false;
  has_finish_ = false;
  delta_bytes_ = 0;
  const std::string& peer = call_.request_.peer;
  held_ = {};
  meter_ = {};
  if (call_.job_.is_streamed) held_ = call_.messages().Enter(peer);
  if (call_.IsKept()) meter_ = ReplyMeter(call_.messages().Enter(peer));
}

absl::Status RemoteTextCall::Stream::Start() {
  WorkerWish wish;
  {
    absl::MutexLock lock(&mu_);
    wish = wish_;
  }
  ASSIGN_OR_RETURN(auto place, call_.remote_.workers.Enter(wish));
  std::optional<absl::Duration> time;
  if (!call_.job_.is_streamed) {
    time = call_.start_ + kUnaryDeadline - BootTime();
  }
  v1::StreamGenerateRequest request = *request_;
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  if (sampling.has_seed()) sampling.set_seed(sampling.seed() + index_);
  const auto attempt = std::make_shared<Attempt>(*this, std::move(place));
  {
    absl::MutexLock lock(&mu_);
    if (is_abandoned_) return absl::CancelledError("the client is gone");
    wish_.tried.insert(attempt->worker());
    attempt_ = attempt;
  }
  // Without memory no attempt stays, which would keep the whole call.
  absl::Cleanup undo = [this] {
    std::shared_ptr<Attempt> gone;
    absl::MutexLock lock(&mu_);
    gone.swap(attempt_);
  };
  attempt->Start(request, call_.request_, time);
  std::move(undo).Cancel();
  return absl::OkStatus();
}

bool RemoteTextCall::Stream::TakeDelta(Delta& delta) {
  std::shared_ptr<Attempt> resumed;
  {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(has_delta_, false)) return false;
    delta = std::exchange(delta_, {});
    delta_bytes_ = 0;
    held_.Shrink(0);
    if (std::exchange(is_paused_, false)) resumed = attempt_;
  }
  if (resumed != nullptr) resumed->Resume();
  return true;
}

void RemoteTextCall::Stream::Abandon() {
  std::shared_ptr<Attempt> attempt;
  bool was_paused = false;
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(is_abandoned_, true)) return;
    attempt = attempt_;
    was_paused = std::exchange(is_paused_, false);
  }
  if (attempt != nullptr) attempt->Cancel(was_paused);
}

bool RemoteTextCall::Stream::OnMessage(Attempt& attempt, Delta& message) {
  call_.OnPrompt(message.prompt());
  message.clear_prompt();
  if (call_.trace_ != nullptr && message.has_finish()) {
    call_.trace_->AddReply(UsageOf(message.finish()));
  }
  const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  const absl::Status can_show = CheckTokens(*request_, message);
  {
    absl::MutexLock lock(&mu_);
    if (refusal_.ok()) refusal_ = can_show;
    if (call_.IsKept() && refusal_.ok() && !is_abandoned_) {
      refusal_ = meter_.Add(bytes);
    }
    if (!refusal_.ok() || call_.is_failed_) is_abandoned_ = true;
    if (!is_abandoned_) {
      has_begun_ = true;
      has_finish_ |= message.has_finish();
      delta_bytes_ += bytes;
      call_.whole_bytes_ += bytes;
      AppendMessage(message, delta_);
      has_delta_ = true;
      is_paused_ = call_.job_.is_streamed && !HasRoom();
      call_.OnDelta();
      return !is_paused_;
    }
  }
  // The read that follows says that the call has ended.
  attempt.Cancel(/*is_paused=*/false);
  return true;
}

bool RemoteTextCall::Stream::MayRetry(const grpc::Status& status) const {
  const bool has_sent = call_.job_.is_streamed && has_begun_;
  return !is_abandoned_ && !call_.is_failed_ && !has_sent &&
         wish_.tried.size() < static_cast<size_t>(kMaxTries) &&
         MayDoBetter(status);
}

void RemoteTextCall::Stream::Count(const absl::Status& end) {
  GatewayCounts& counts = call_.remote_.counts;
  if (end.ok()) {
    ++counts.n_ok;
  } else if (end.code() == absl::StatusCode::kCancelled) {
    ++counts.n_left;
  } else {
    ++counts.n_failed;
  }
}

absl::Status RemoteTextCall::Stream::EndOf(const grpc::Status& status) const {
  if (!refusal_.ok()) return EndStatus(refusal_);
  // The connection may break behind the last message.
  if (has_finish_ && IsGone(status)) return absl::OkStatus();
  absl::Status end = StatusOfAnswer(status);
  if (end.ok() && !has_finish_) {
    return absl::InternalError("the worker ended its reply too early");
  }
  return end;
}

void RemoteTextCall::Stream::OnEnd(Attempt& attempt,
                                   const grpc::Status& status) {
  absl::Status end;
  bool may_retry = false;
  bool is_broken = false;
  WorkerEnd worker_end =
      IsGone(status) ? WorkerEnd::kGone : WorkerEnd::kAnswered;
  {
    absl::MutexLock lock(&mu_);
    attempt_.reset();
    end = EndOf(status);
    if (is_abandoned_) worker_end = WorkerEnd::kLeft;
    may_retry = !end.ok() && MayRetry(status);
    is_broken = !end.ok() && has_begun_ && worker_end == WorkerEnd::kGone;
    if (may_retry) Clear();
  }
  attempt.ReleasePlace(worker_end);
  if (may_retry) {
    ++call_.remote_.counts.n_retries;
    const absl::Status again = Start();
    if (again.ok()) return;
    // What the last worker said tells more than that there is no other one.
    if (IsGone(status)) end = again;
  }
  if (is_broken) ++call_.remote_.counts.n_broken;
  Count(end);
  call_.OnChoiceEnd(end);
}

RemoteTextCall::RemoteTextCall(const RemoteRoom& remote, const HttpRoom& room,
                               const TextDialect& dialect,
                               HttpExchange exchange)
    : TextCall(room, dialect, std::move(exchange)), remote_(remote) {}

RemoteTextCall::~RemoteTextCall() { remote_.calls.Remove(this); }

absl::Status RemoteTextCall::CheckJob() const {
  if (job_.IsUnload()) {
    return absl::InvalidArgumentError(
        "keep_alive: a gateway unloads no models");
  }
  return absl::OkStatus();
}

absl::Status RemoteTextCall::Begin() {
  RETURN_IF_ERROR(CheckJob());
  ASSIGN_OR_RETURN(model_,
                   remote_.workers.FindModel(job_.prompts.front().model()));
  if (trace_ != nullptr) trace_->SetModel(model_.name);
  if (model_.ready.has_value()) {
    RETURN_IF_ERROR(CheckContext(job_, model_.name, model_.ready->n_ctx));
  }
  if (job_.n_choices == 0) {
    OnPrompt(v1::PromptInfo());
    request_.held.Shrink(0);
  }
  for (v1::StreamGenerateRequest& prompt : job_.prompts) {
    if (job_.n_choices == 0) break;
    v1::StreamGenerateRequest taken = std::exchange(prompt, {});
    // The format of the reply, which is made later, asks for it.
    *prompt.mutable_response() = taken.response();
    RETURN_IF_ERROR(AddChoices(std::move(taken)));
  }
  OnChoiceEnd(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status RemoteTextCall::AddChoices(v1::StreamGenerateRequest prompt) {
  prompt.set_model(model_.name);
  WorkerWish wish;
  wish.model = model_.name;
  wish.key = job_.affinity.empty() ? PrefixKey(prompt)
                                   : absl::StrCat("session ", job_.affinity);
  wish.bytes = static_cast<int64_t>(prompt.ByteSizeLong());
  // gRPC has a copy of each request until it is sent.
  RETURN_IF_ERROR(
      request_.held.Grow(request_.held.bytes() + job_.n_choices * wish.bytes));
  const auto request =
      std::make_shared<const v1::StreamGenerateRequest>(std::move(prompt));
  for (int i = 0; i < job_.n_choices; ++i) {
    auto made = std::make_unique<Stream>(*this, request,
                                         static_cast<uint64_t>(i), wish);
    Stream& stream = *made;
    RETURN_IF_ERROR(AddChoice(std::move(made)));
    absl::Status status = WithinMemory([&] { return stream.Start(); });
    if (status.ok()) continue;
    ++remote_.counts.n_failed;
    DropChoice();
    return status;
  }
  return absl::OkStatus();
}

void RemoteTextCall::OnPrompt(const v1::PromptInfo& prompt) {
  absl::call_once(has_format_, [&] {
    MakeFormat(
        model_.name, static_cast<size_t>(prompt.prompt_ids_size()),
        {prompt.constraint_notes().begin(), prompt.constraint_notes().end()});
  });
}

}  // namespace plimsoll::services
