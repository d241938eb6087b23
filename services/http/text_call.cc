#include "services/http/text_call.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/host/clock.h"
#include "services/host/memory_guard.h"
#include "services/http/http_models.h"
#include "services/server/call.h"
#include "services/server/server.h"

namespace plimsoll::services {
namespace {

// A stream's events are sent once they have this many bytes, even if more
// output is there already.
constexpr size_t kEventBytes = 64 << 10;

bool IsSmall(const TextDialect& dialect, const std::string& body) {
  return body.size() <= kMaxInlineBytes &&
         (dialect.asks_for_more == nullptr ||
          !absl::StrContains(body, dialect.asks_for_more));
}

// What requests have in common that should find the same worker: the session,
// or what OpenAI's clients name for this purpose.
std::string AffinityOf(const std::string& session, const Json& body) {
  if (!session.empty()) return session.substr(0, TextCall::kMaxAffinityBytes);
  for (const char* name : {"prompt_cache_key", "user"}) {
    const auto found = body.find(name);
    if (found == body.end() || !found->is_string()) continue;
    const auto& key = found->get_ref<const std::string&>();
    if (!key.empty()) return key.substr(0, TextCall::kMaxAffinityBytes);
  }
  return "";
}

}  // namespace

bool HasConstraint(const TextJob& job) {
  return job.prompts.front().has_constraint();
}

absl::Status CheckContext(const TextJob& job, const std::string& model,
                          int64_t n_ctx) {
  if (job.least_n_ctx <= n_ctx) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the request wants a context of ", job.least_n_ctx,
      " tokens, and a slot of ", model, " has ", n_ctx, ", as it was loaded"));
}

void TextCall::Start(const HttpRoom& room, const TextDialect& dialect,
                     HttpExchange exchange) {
  const std::shared_ptr<TextCall> call =
      room.models.NewTextCall(room, dialect, std::move(exchange));
  auto pass = room.gate.Enter();
  if (!pass.ok()) return call->Fail(pass.status());
  call->pass_ = *std::move(pass);
  call->reply_->OnGone([weak = call->weak_from_this()] {
    const std::shared_ptr<TextCall> self = weak.lock();
    if (self == nullptr) return;
    self->room_.pool.Cancel(*self->stop_);
    self->AbandonAll();
  });
  call->Run(call->is_inline_, [raw = call.get()] { return raw->Read(); });
}

TextCall::TextCall(const HttpRoom& room, const TextDialect& dialect,
                   HttpExchange exchange)
    : room_(room),
      dialect_(dialect),
      start_(BootTime()),
      reply_(std::move(exchange.reply)),
      stop_(std::make_shared<CallStop>(kUnaryDeadline)),
      request_(std::move(exchange.request)),
      trace_(RequestTrace::Begin(request_.trace, request_.request_id)),
      n_bytes_(request_.body.size()),
      is_inline_(IsSmall(dialect, request_.body)) {}

TextCall::~TextCall() = default;

void TextCall::Run(bool is_small, std::function<absl::Status()> step) {
  const auto work = [self = shared_from_this(),
                     step = std::move(step)](const absl::Status& queued) {
    const absl::Status status = queued.ok() ? WithinMemory(step) : queued;
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
    job_.affinity = AffinityOf(request_.session, body);
    if (trace_ != nullptr && !job_.prompts.empty()) {
      trace_->SetOperation(job_.prompts.front().has_chat() ? "chat"
                                                           : "text_completion");
    }
  }
  request_.body = {};
  request_.held.Shrink(kHeldPerByte * (n_bytes + job_.turn_bytes) +
                       job_.held_bytes);
  return Begin();
}

void TextCall::MakeFormat(const std::string& model, size_t n_prompt,
                          worker::SchemaNotes notes) {
  format_ = dialect_.new_format(
      job_, {request_.request_id, absl::ToUnixSeconds(absl::Now()), model,
             static_cast<int64_t>(n_prompt), std::move(notes), load_time_});
}

void TextCall::BeginWait(std::function<int()> percent) {
  if (!job_.is_streamed || dialect_.append_wait == nullptr) return;
  percent_ = std::move(percent);
  reply_->Repeat([weak = weak_from_this()] {
    const std::shared_ptr<TextCall> self = weak.lock();
    return self != nullptr && self->SayProgress();
  });
}

void TextCall::EndWait(absl::Duration time) {
  load_time_ = time;
  has_waited_ = true;
}

bool TextCall::SayProgress() {
  if (has_waited_) return false;
  is_notice_due_ = true;
  if (!is_streaming_.exchange(true)) reply_->Stream(shared_from_this());
  reply_->Wake();
  return true;
}

absl::Status TextCall::AddChoice(std::unique_ptr<Choice> choice) {
  absl::MutexLock lock(&mu_);
  if (is_abandoned_) return absl::CancelledError("the client is gone");
  choices_.push_back(std::move(choice));
  ++n_open_;
  return absl::OkStatus();
}

void TextCall::Fail(const absl::Status& status) {
  AbandonAll();
  OnChoiceEnd(status);
}

void TextCall::Break(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (error_.ok()) error_ = status;
    is_failed_ = true;
  }
  AbandonAll();
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

void TextCall::OnDelta() {
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
  LogCallEnd(error, request_.request_id);
  if (trace_ != nullptr) {
    trace_->Fail(error);
    trace_->End();
  }
  if (is_streaming_) return reply_->Wake();
  if (!error.ok()) return reply_->Send(dialect_.error(error));
  if (job_.is_streamed) return OnDelta();
  SendWhole();
}

void TextCall::SendWhole() {
  const auto compose = [self = shared_from_this()] {
    return self->WholeReply();
  };
  if (whole_bytes_ <= kMaxComposedBytes) return reply_->Compose(compose);
  const auto work = [self = shared_from_this()](const absl::Status& queued) {
    self->reply_->Send(queued.ok() ? self->WholeReply()
                                   : self->dialect_.error(queued));
  };
  const absl::Status queued = room_.pool.Submit(
      {.peer = request_.peer, .stop = stop_, .work = work, .goes_on = true});
  if (!queued.ok()) work(queued);
}

HttpResponse TextCall::WholeReply() {
  std::vector<ReplyFormat::Delta> replies(n_replies());
  for (size_t i = 0; i < replies.size(); ++i) ChoiceAt(i).TakeDelta(replies[i]);
  HttpResponse response{.body = format_->Whole(replies)};
  response.held = messages().Enter(request_.peer);
  const absl::Status has_room =
      response.held.Resize(static_cast<int64_t>(response.body.size()));
  return has_room.ok() ? std::move(response) : dialect_.error(has_room);
}

size_t TextCall::n_replies() const {
  return job_.prompts.size() * static_cast<size_t>(job_.n_choices);
}

EventSource::Events TextCall::Take() {
  Events events;
  const bool is_done = n_open_ == 0;  // first: the last deltas come before it
  size_t n_choices = 0;
  absl::Status error;
  {
    absl::MutexLock lock(&mu_);
    n_choices = choices_.size();
    error = error_;
  }
  ReplyFormat::Delta delta;
  for (size_t i = 0; i < n_choices; ++i) {
    if (events.bytes.size() > kEventBytes) return events;
    if (!ChoiceAt(i).TakeDelta(delta)) continue;
    format_->AppendDelta(static_cast<int>(i), delta, events.bytes);
  }
  if (std::exchange(is_notice_due_, false) && !has_waited_) {
    dialect_.append_wait(percent_(), events.bytes);
  }
  if (!is_done) return events;
  // The load may have failed, or what follows it.
  if (format_ == nullptr) MakeFormat(job_.prompts.front().model(), 0, {});
  if (error.ok()) {
    format_->AppendEnd(events.bytes);
  } else {
    format_->AppendError(error, events.bytes);
  }
  events.is_last = true;
  return events;
}

}  // namespace plimsoll::services
