#include "services/cli/chat/conversation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/cli/terminal/interrupt.h"
#include "services/wire/errors.h"

namespace plimsoll::cli {
namespace {

bool IsSessionGone(const absl::Status& status) {
  return absl::IsNotFound(status) && services::DetailsOf(status).reason ==
                                         v1::ERROR_REASON_SESSION_NOT_FOUND;
}

}  // namespace

Conversation::~Conversation() {
  if (options_.session.empty()) Close().IgnoreError();
}

absl::Status Conversation::Begin(std::optional<std::string> system) {
  transcript_.system = std::move(system);
  absl::Status opened = Open();
  if (!absl::IsAlreadyExists(opened)) return opened;
  transcript_.system.reset();
  id_ = options_.session;
  ASSIGN_OR_RETURN(const v1::Session session, Info());
  model_name_ = session.model();
  NoteRecompute(session);
  was_taken_up_ = true;
  n_unknown_ = static_cast<int64_t>(session.turns());
  return absl::OkStatus();
}

absl::Status Conversation::Open() {
  v1::OpenSessionRequest request;
  request.set_model(options_.model);
  request.set_session_id(options_.session);
  if (!options_.chat_format.empty()) {
    request.set_chat_format(options_.chat_format);
  }
  SetRoll(options_.roll, request);
  AddTurns(transcript_, request);
  const auto opened = generator_.OpenSession(request);
  may_be_open_ = !opened.ok() && !absl::IsAlreadyExists(opened.status());
  ASSIGN_OR_RETURN(const v1::Session session, opened);
  id_ = session.session_id();
  model_name_ = session.model();
  was_cut_ = false;
  NoteRecompute(session);
  const auto n_turns = static_cast<int64_t>(transcript_.turns.size());
  const int64_t n_left = n_turns - static_cast<int64_t>(session.turns());
  if (n_left > 0) {
    notes_.push_back(absl::StrCat("the oldest ", n_left, " of ", n_turns,
                                  " turns do not fit in the context"));
  }
  return absl::OkStatus();
}

void Conversation::NoteRecompute(const v1::Session& session) {
  const bool is_known = session.recompute_reason() == recompute_reason_;
  recompute_reason_ = session.recompute_reason();
  if (is_known || recompute_reason_.empty()) return;
  notes_.push_back(absl::StrCat("each message renders the whole chat again: ",
                                recompute_reason_));
}

absl::Status Conversation::Close() {
  const std::string& id = may_be_open_ ? options_.session : id_;
  if (id.empty()) return absl::OkStatus();
  v1::CloseSessionRequest request;
  request.set_model(options_.model);
  request.set_session_id(id);
  absl::Status closed = generator_.CloseSession(request);
  if (!closed.ok() && !absl::IsNotFound(closed)) return closed;
  id_.clear();
  may_be_open_ = false;
  return absl::OkStatus();
}

absl::Status Conversation::Reopen() {
  RETURN_IF_ERROR(Close());
  return Open();
}

absl::Status Conversation::Replace(Transcript next) {
  Transcript before = std::exchange(transcript_, std::move(next));
  absl::Status status = Reopen();
  if (id_.empty() || status.ok()) {
    was_taken_up_ = false;
    n_unknown_ = 0;
  }
  if (status.ok()) return status;
  transcript_ = std::move(before);
  // If this fails too, the next message tries again.
  if (id_.empty()) Reopen().IgnoreError();
  return status;
}

absl::StatusOr<v1::Session> Conversation::Info() {
  if (id_.empty()) RETURN_IF_ERROR(Reopen());
  v1::GetSessionRequest request;
  request.set_model(options_.model);
  request.set_session_id(id_);
  return generator_.GetSession(request);
}

void Conversation::AwaitIdle() {
  for (absl::Duration waited; std::exchange(was_cut_, false);
       waited += kInterruptPoll) {
    const auto session = Info();
    if (!session.ok() || !session->busy()) return;
    if (Interrupted() || waited >= kMaxCancel) return;
    was_cut_ = true;
    absl::SleepFor(kInterruptPoll);
  }
}

void Conversation::Keep(ChatTurn turn) {
  if (const int64_t n = transcript_.Add(std::move(turn)); n > 0) {
    notes_.push_back(absl::StrCat(
        "the chat is long: its oldest ", n,
        " turns are not kept any more, so /save does not write them"));
  }
}

ChatReply Conversation::SayOnce(const std::string& message,
                                const v1::StreamGenerateRequest& how,
                                OnReplyPiece on_piece) {
  v1::ChatRequest request;
  request.set_model(options_.model);
  request.set_session_id(id_);
  request.set_message(message);
  *request.mutable_sampling() = how.sampling();
  *request.mutable_stopping() = how.stopping();
  *request.mutable_response() = how.response();
  const auto stream = generator_.Chat(request);
  if (!stream.ok()) return {stream.status()};
  ChatReply reply;
  ChatTurn turn = {message, ""};
  auto response =
      Collect(**stream, [&](const v1::StreamGenerateResponse& part) {
        reply.was_taken |= part.has_prompt();
        turn.reply += part.text();
        for (const v1::GeneratedToken& token : part.tokens()) {
          turn.reply_ids.push_back(token.id());
        }
        if (!part.reasoning().empty()) {
          on_piece(ReplyPiece::kReasoning, part.reasoning());
        }
        if (!part.text().empty()) on_piece(ReplyPiece::kAnswer, part.text());
      });
  reply.status = response.status();
  if (response.ok()) reply.response = *std::move(response);
  was_cut_ = !reply.status.ok();
  if (reply.was_taken) Keep(std::move(turn));
  return reply;
}

ChatReply Conversation::Say(const std::string& message,
                            const v1::StreamGenerateRequest& how,
                            OnReplyPiece on_piece) {
  AwaitIdle();
  if (id_.empty()) {
    if (absl::Status status = Reopen(); !status.ok()) return {status};
  }
  ChatReply reply = SayOnce(message, how, on_piece);
  if (reply.was_taken || !IsSessionGone(reply.status)) return reply;
  if (was_taken_up_) {
    notes_.push_back("what was said in it is gone; /reset begins anew");
    return reply;
  }
  id_.clear();
  if (absl::Status status = Open(); !status.ok()) return {status};
  notes_.push_back(
      "the session was closed meanwhile; it is open again with what was said");
  return SayOnce(message, how, on_piece);
}

}  // namespace plimsoll::cli
