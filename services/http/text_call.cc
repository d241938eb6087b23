#include "services/http/text_call.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/generation/generation_call.h"
#include "services/generation/message_bytes.h"
#include "services/host/clock.h"
#include "services/server/server.h"

namespace plimsoll::services {
namespace {

// A stream's events are sent once there are so many bytes, even if more is
// there.
constexpr size_t kEventBytes = 64 << 10;

bool IsSmall(const TextDialect& dialect, const std::string& body) {
  return body.size() <= kMaxInlineBytes &&
         (dialect.asks_for_more == nullptr ||
          !absl::StrContains(body, dialect.asks_for_more));
}

bool HasConstraint(const TextJob& job) {
  return job.prompts.front().has_constraint();
}

}  // namespace

// One reply of a call.
class TextCall::Choice final : public GenerationCall {
 public:
  using Part = ReplyFormat::Part;

  // `call` owns it.
  explicit Choice(TextCall& call) : GenerationCall(call.start_), call_(call) {
    ByteBudget& messages = call.room_.registry.messages();
    const std::string& peer = call.request_.peer;
    absl::MutexLock lock(&mu_);
    if (call.job_.is_streamed) held_ = messages.Enter(peer);
    if (IsKept()) meter_ = ReplyMeter(messages.Enter(peer));
  }

  // The engine's reference keeps the call alive.
  absl::Status Start(Generation generation) {
    return Submit(std::move(generation), std::shared_ptr<GenerationCall>(
                                             call_.shared_from_this(), this));
  }

  // Takes what has come since the last time, and has the engine go on. Returns
  // false if there is nothing.
  bool TakePart(Part& part) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (!std::exchange(has_part_, false)) return false;
    part = std::exchange(part_, {});
    part_bytes_ = 0;
    held_.Shrink(0);
    if (std::exchange(is_behind_, false) && model_) model_.engine->Wake();
    return true;
  }

 private:
  bool Deliver(worker::StepOutput& output) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (call_.is_failed_) {
      is_abandoned_ = true;
      return true;
    }
    const int64_t bytes = WireBytes(output);
    if (call_.job_.is_streamed && !HasRoom(bytes)) {
      is_behind_ = true;
      return false;
    }
    if (IsKept()) refusal_ = meter_.Add(bytes);
    if (!refusal_.ok()) {
      is_abandoned_ = true;
      return true;
    }
    call_.whole_bytes_ += bytes;
    part_bytes_ += bytes;
    AppendTo(output, part_);
    has_part_ = true;
    call_.OnPart();
    return true;
  }

  // Whether all of the reply is in memory until its end.
  bool IsKept() const {
    return !call_.job_.is_streamed || call_.job_.keeps_reply;
  }

  // Whether so many bytes more may wait; a part of any size may wait alone.
  bool HasRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!has_part_) return true;
    const int64_t waiting = part_bytes_ + bytes;
    return waiting <= kMaxPendingBytes &&
           held_.Grow(kReplyPerByte * waiting).ok();
  }

  bool Complete(const absl::Status& status,
                const worker::FinishInfo& info) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const absl::Status end = refusal_.ok() ? status : EndStatus(refusal_);
    if (end.ok()) {
      EndReply(info, part_, *part_.mutable_finish());
      has_part_ = true;
    }
    call_.OnChoiceEnd(end);
    return true;
  }

  TextCall& call_;
  Part part_ ABSL_GUARDED_BY(mu_);
  bool has_part_ ABSL_GUARDED_BY(mu_) = false;
  int64_t part_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_behind_ ABSL_GUARDED_BY(mu_) = false;  // the client is
  ByteBudget::Share held_ ABSL_GUARDED_BY(mu_);  // of a stream
  ReplyMeter meter_ ABSL_GUARDED_BY(mu_);        // of a reply that is kept
  // Status of a kept reply that is too long.
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
};

void TextCall::Start(const HttpRoom& room, const TextDialect& dialect,
                     HttpRequest request, std::shared_ptr<HttpReply> reply) {
  const auto call = std::make_shared<TextCall>(
      room, dialect, std::move(request), std::move(reply));
  auto pass = room.gate.Enter();
  if (!pass.ok()) return call->Fail(pass.status());
  call->pass_ = *std::move(pass);
  call->reply_->OnGone([weak = call->weak_from_this()] {
    const std::shared_ptr<TextCall> self = weak.lock();
    if (self == nullptr) return;
    self->room_.pool.Cancel(*self->stop_);
    self->AbandonAll();
  });
  call->Run(call->is_inline_, &TextCall::Read);
}

TextCall::TextCall(const HttpRoom& room, const TextDialect& dialect,
                   HttpRequest request, std::shared_ptr<HttpReply> reply)
    : room_(room),
      dialect_(dialect),
      start_(BootTime()),
      reply_(std::move(reply)),
      stop_(std::make_shared<CallStop>(absl::Now() + kUnaryDeadline)),
      request_(std::move(request)),
      n_bytes_(request_.body.size()),
      is_inline_(IsSmall(dialect, request_.body)) {}

TextCall::~TextCall() = default;

void TextCall::Run(bool is_small, absl::Status (TextCall::*step)()) {
  const auto work = [self = shared_from_this(),
                     step](const absl::Status& queued) {
    const absl::Status status = queued.ok() ? ((*self).*step)() : queued;
    if (!status.ok()) self->Fail(status);
  };
  if (is_small) return work(absl::OkStatus());
  const size_t n_bytes = n_bytes_ + static_cast<size_t>(job_.turn_bytes);
  const WorkCost cost = n_bytes <= kMaxQuickBytes &&
                                (job_.prompts.empty() || !HasConstraint(job_))
                            ? WorkCost::kQuick
                            : WorkCost::kLong;
  const absl::Status queued = room_.pool.Submit({.peer = request_.peer,
                                                 .cost = cost,
                                                 .stop = stop_,
                                                 .work = work,
                                                 .request_bytes = n_bytes});
  if (!queued.ok()) work(queued);
}

absl::Status TextCall::Read() {
  const auto n_bytes = static_cast<int64_t>(n_bytes_);
  RETURN_IF_ERROR(request_.held.Grow(kJsonPerByte * n_bytes));
  {
    ASSIGN_OR_RETURN(const Json body, ReadBody(request_.body));
    ReadRoom read_room{{room_.responses, request_.tenant}, request_.held};
    ASSIGN_OR_RETURN(job_, dialect_.read(body, read_room));
  }
  request_.body = {};
  request_.held.Shrink(kHeldPerByte * (n_bytes + job_.turn_bytes) +
                       job_.held_bytes);
  return job_.IsUnload() ? Unload() : AwaitModel();
}

absl::Status TextCall::AwaitModel() {
  ASSIGN_OR_RETURN(
      std::optional<ServedModel> model,
      room_.registry.ServeOrLoad(
          job_.prompts.front().model(),
          [self = shared_from_this()](absl::StatusOr<ServedModel> loaded) {
            if (!loaded.ok()) return self->Fail(loaded.status());
            self->model_ = *std::move(loaded);
            self->Run(/*is_small=*/false, &TextCall::Submit);
          }));
  if (!model.has_value()) return absl::OkStatus();
  model_ = *std::move(model);
  // The server's thread compiles no constraint, and quick work does not become
  // long work.
  const bool is_other_work =
      is_inline_ ? HasConstraint(job_)
                 : static_cast<size_t>(job_.turn_bytes) > kMaxQuickBytes;
  if (!is_other_work) return Submit();
  Run(/*is_small=*/false, &TextCall::Submit);
  return absl::OkStatus();
}

absl::Status TextCall::Unload() {
  ModelRegistry& registry = room_.registry;
  if (!registry.loads_on_demand()) {
    return absl::InvalidArgumentError(
        "keep_alive: cannot unload: models stay loaded until the server ends");
  }
  const std::string& name = job_.prompts.front().model();
  RETURN_IF_ERROR(registry.SetKeepAlive(name, absl::ZeroDuration()));
  registry.UnloadExpired();
  MakeFormat(ServedModel{.name = name}, 0);
  request_.held.Shrink(0);
  OnChoiceEnd(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status TextCall::Submit() {
  const ServedModel model = std::exchange(model_, {});
  if (job_.keep_alive.has_value()) {
    RETURN_IF_ERROR(room_.registry.SetKeepAlive(model.name, *job_.keep_alive));
  }
  if (job_.least_n_ctx > model.engine->n_ctx()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request wants a context of ", job_.least_n_ctx,
                     " tokens, and a slot of ", model.name, " has ",
                     model.engine->n_ctx(), ", as it was loaded"));
  }
  if (job_.n_choices == 0) {
    MakeFormat(model, 0);
  } else {
    for (v1::StreamGenerateRequest& request : job_.prompts) {
      RETURN_IF_ERROR(AddChoices(model, request));
    }
  }
  request_.held.Shrink(job_.held_bytes);
  OnChoiceEnd(absl::OkStatus());
  return absl::OkStatus();
}

void TextCall::MakeFormat(const ServedModel& model, size_t n_prompt) {
  format_ = dialect_.new_format(
      job_, {request_.request_id, absl::ToUnixSeconds(absl::Now()), model,
             static_cast<int64_t>(n_prompt)});
}

absl::Status TextCall::AddChoices(const ServedModel& model,
                                  v1::StreamGenerateRequest& request) {
  ByteBudget& messages = room_.registry.messages();
  ByteBudget::Share held = messages.Enter(request_.peer);
  const auto stop = [this] { return stop_->Check(); };
  worker::Claim claim;
  claim.peer = request_.peer;
  claim.tenant = request_.tenant;
  ASSIGN_OR_RETURN(
      const Generation generation,
      Prepare(model, {claim, request_.request_id, held, stop}, request));
  if (format_ == nullptr) {
    MakeFormat(model, generation.options.prompt_ids.size());
  }
  RETURN_IF_ERROR(held.Grow(job_.n_choices * held.bytes()));
  held_.push_back(std::move(held));
  for (int i = 0; i < job_.n_choices; ++i) {
    Generation one = generation;
    one.options.sampling.seed += static_cast<uint64_t>(i);
    one.options.deadline =
        job_.is_streamed ? absl::InfiniteFuture() : start_ + kUnaryDeadline;
    auto made = std::make_unique<Choice>(*this);
    Choice& choice = *made;
    {
      absl::MutexLock lock(&mu_);
      if (is_abandoned_) return absl::CancelledError("the client is gone");
      choices_.push_back(std::move(made));
    }
    ++n_open_;
    absl::Status status = choice.Start(std::move(one));
    if (status.ok()) continue;
    --n_open_;
    return status;
  }
  return absl::OkStatus();
}

void TextCall::Fail(const absl::Status& status) {
  AbandonAll();
  OnChoiceEnd(status);
}

void TextCall::AbandonAll() {
  size_t n_choices = 0;
  {
    absl::MutexLock lock(&mu_);
    is_abandoned_ = true;
    n_choices = choices_.size();
  }
  for (size_t i = 0; i < n_choices; ++i) ChoiceAt(i).Abandon();
}

TextCall::Choice& TextCall::ChoiceAt(size_t index) {
  absl::MutexLock lock(&mu_);
  return *choices_[index];
}

void TextCall::OnPart() {
  if (!job_.is_streamed) return;
  if (!is_streaming_.exchange(true)) reply_->Stream(shared_from_this());
  reply_->Wake();
}

void TextCall::OnChoiceEnd(const absl::Status& status) {
  if (!status.ok()) {
    absl::MutexLock lock(&mu_);
    if (error_.ok()) error_ = status;
    is_failed_ = true;
  }
  if (--n_open_ == 0) {
    Finish();
  } else if (is_streaming_) {
    reply_->Wake();
  }
}

void TextCall::Finish() {
  absl::Status error;
  {
    absl::MutexLock lock(&mu_);
    error = error_;
  }
  if (is_streaming_) return reply_->Wake();
  if (!error.ok()) return reply_->Send(dialect_.error(error));
  if (job_.is_streamed) return OnPart();
  SendWhole();
}

void TextCall::SendWhole() {
  const auto compose = [self = shared_from_this()] {
    return self->WholeReply();
  };
  if (whole_bytes_ <= kMaxPendingBytes) return reply_->Compose(compose);
  const auto work = [self = shared_from_this()](const absl::Status& queued) {
    self->reply_->Send(queued.ok() ? self->WholeReply()
                                   : self->dialect_.error(queued));
  };
  const absl::Status queued = room_.pool.Submit(
      {.peer = request_.peer, .stop = stop_, .work = work, .goes_on = true});
  if (!queued.ok()) work(queued);
}

HttpResponse TextCall::WholeReply() {
  std::vector<ReplyFormat::Part> replies(n_replies());
  for (size_t i = 0; i < replies.size(); ++i) ChoiceAt(i).TakePart(replies[i]);
  HttpResponse response{.body = format_->Whole(replies)};
  response.held = room_.registry.messages().Enter(request_.peer);
  const absl::Status has_room =
      response.held.Settle(static_cast<int64_t>(response.body.size()));
  return has_room.ok() ? std::move(response) : dialect_.error(has_room);
}

size_t TextCall::n_replies() const {
  return job_.prompts.size() * static_cast<size_t>(job_.n_choices);
}

EventSource::Events TextCall::Take() {
  Events events;
  const bool is_done = n_open_ == 0;  // first: the last parts come before it
  size_t n_choices = 0;
  absl::Status error;
  {
    absl::MutexLock lock(&mu_);
    n_choices = choices_.size();
    error = error_;
  }
  ReplyFormat::Part part;
  for (size_t i = 0; i < n_choices; ++i) {
    if (events.bytes.size() > kEventBytes) return events;
    if (!ChoiceAt(i).TakePart(part)) continue;
    format_->AppendPart(static_cast<int>(i), part, events.bytes);
  }
  if (!is_done) return events;
  if (error.ok()) {
    format_->AppendEnd(events.bytes);
  } else {
    format_->AppendError(error, events.bytes);
  }
  events.is_last = true;
  return events;
}

}  // namespace plimsoll::services
