// Sessions of an engine: chats whose slots and contexts stay between calls.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/cache/roll_plan.h"
#include "worker/engine/check_request.h"
#include "worker/engine/engine_impl.h"

namespace plimsoll::worker {

absl::Status Engine::Impl::SubmitMessage(GenerateOptions request,
                                         std::shared_ptr<TokenSink> sink) {
  std::unique_ptr<TokenMask> mask = NewMask(request);
  absl::MutexLock lock(&mu);
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(
      const int64_t key,
      sessions.Find(request.session_id, request.claim.tenant, options.clock()));
  Session& session = *sessions.Get(key);
  if (session.is_busy) {
    return absl::FailedPreconditionError(
        "a call of this session has not ended yet: wait for its end, or cancel "
        "it");
  }
  SequenceStart start = {.roll = session.roll, .session = key};
  ASSIGN_OR_RETURN(start.history,
                   session.NextTurn(request.prompt_ids, *tokenizer));
  start.mask = std::move(mask);
  const TokenHistory& history = start.history;
  start.n_cached = session.n_computed - history.evicted_positions();
  start.n_prompt = history.n_live();
  const int64_t id = next_id++;
  if (session.slot) {
    scheduler.Resume(
        id, *session.slot, session.n_computed, history.n_positions(),
        session.roll.FullAt(history.evicted_positions()), request.claim);
  } else {
    RETURN_IF_ERROR(
        Queue(id, history.n_positions(), request.claim, Waits::kToTheEnd));
  }
  session.is_busy = true;
  session.last_used = options.clock();
  ++session.n_turns;
  Insert(id, std::move(request), std::move(start), std::move(sink));
  return absl::OkStatus();
}

SessionInfo Engine::Impl::Describe(int64_t key) {
  const Session& session = *sessions.Get(key);
  const absl::Time now = options.clock();
  return {
      .id = session.options.id,
      .format = session.options.format,
      .is_busy = session.is_busy,
      .n_turns = session.n_turns,
      .n_live_turns = session.history.n_turns(),
      .n_tokens = session.history.n_tokens(),
      .n_live_tokens = session.history.n_live(),
      .n_pinned_tokens = session.roll.prefix_tokens,
      .capacity_tokens = session.roll.capacity,
      .n_evictions = session.n_evictions,
      .n_evicted = session.history.n_evicted(),
      .reserved_bytes = cache->SlotBytes(),
      .age = now - session.opened,
      .idle = session.is_busy ? absl::ZeroDuration() : now - session.last_used,
      .ttl = session.options.ttl};
}

int64_t Engine::MaxSessions() const { return MostSessions(impl_->plan); }

absl::StatusOr<SessionInfo> Engine::OpenSession(SessionOptions options) {
  RETURN_IF_ERROR(CheckSession(options, impl_->tokenizer->vocab_size()));
  const auto roll = PlanRoll(
      impl_->shape, impl_->plan,
      {.policy = ContextPolicy::kRoll,
       .method = options.roll_method,
       .pin_tokens = static_cast<int64_t>(options.frame.opening.size()),
       .evict_to = options.evict_to});
  if (!roll.ok()) {
    return absl::Status(
        roll.status().code(),
        absl::StrCat("a chat's opening, with its system message, is pinned; ",
                     roll.status().message()));
  }
  const absl::Time now = impl_->options.clock();
  absl::MutexLock lock(&impl_->mu);
  RETURN_IF_ERROR(impl_->CheckOpen());
  ASSIGN_OR_RETURN(const SessionBook::Opened opened,
                   impl_->sessions.Open(std::move(options), *roll, now));
  if (opened.ended) {
    impl_->EndCallOf(
        *opened.ended,
        absl::NotFoundError(
            "the session was closed while its call ran: it gave way to one of "
            "another tenant, which had fewer"));
  }
  return impl_->Describe(opened.key);
}

absl::StatusOr<SessionInfo> Engine::GetSession(absl::string_view id,
                                               absl::string_view owner) const {
  const absl::Time now = impl_->options.clock();
  absl::MutexLock lock(&impl_->mu);
  ASSIGN_OR_RETURN(const int64_t key, impl_->sessions.Find(id, owner, now));
  return impl_->Describe(key);
}

std::vector<SessionInfo> Engine::Sessions(absl::string_view owner) const {
  const absl::Time now = impl_->options.clock();
  std::vector<SessionInfo> infos;
  absl::MutexLock lock(&impl_->mu);
  for (const int64_t key : impl_->sessions.Keys(now)) {
    if (impl_->sessions.Get(key)->options.owner != owner) continue;
    infos.push_back(impl_->Describe(key));
  }
  return infos;
}

absl::Status Engine::CloseSession(absl::string_view id,
                                  absl::string_view owner) {
  const absl::Time now = impl_->options.clock();
  absl::MutexLock lock(&impl_->mu);
  ASSIGN_OR_RETURN(const int64_t key, impl_->sessions.Find(id, owner, now));
  impl_->EndCallOf(key, absl::CancelledError("the session was closed"));
  impl_->sessions.Close(key);
  return absl::OkStatus();
}

void Engine::Impl::EndCallOf(int64_t session, const absl::Status& status) {
  for (const auto& [id, sequence] : sequences) {
    if (sequence->session() == session) aborts.emplace(id, status);
  }
  woken = true;
  has_news = true;
}

}  // namespace plimsoll::worker
