#include "worker/engine/stream_book.h"

#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "worker/sampling/token_history.h"
#include "worker/text/chat/session_chat.h"

namespace plimsoll::worker {

absl::Status StreamBook::Add(Arrival arrival, SequenceStart start) {
  const Waits how =
      arrival.options.is_admitted ? Waits::kAdmitted : Waits::kNew;
  const int64_t n_prompt = start.n_prompt;
  return Insert(std::move(arrival), std::move(start),
                [&](int64_t id, const Claim& claim) {
                  return Queue(id, n_prompt, claim, how);
                });
}

absl::Status StreamBook::AddMessage(Arrival arrival,
                                    std::unique_ptr<TokenMask> mask,
                                    const Tokenizer& tokenizer) {
  const GenerateOptions& request = arrival.options;
  ASSIGN_OR_RETURN(
      const int64_t key,
      sessions_.Find(request.session_id, request.claim.tenant, arrival.time));
  Session& session = *sessions_.Get(key);
  if (session.is_busy) {
    return absl::FailedPreconditionError(
        "a call of this session has not ended yet: wait for its end, or cancel "
        "it");
  }
  const auto& chat = request.rendered;
  if ((chat == nullptr ? nullptr : chat->before) != session.said) {
    return absl::FailedPreconditionError(
        "something else was said in this session while the message was being "
        "rendered: say it again");
  }
  SequenceStart start = {.roll = session.roll, .session = key};
  if (chat != nullptr) {
    start.mask = std::move(mask);
    return AddRendered(session, std::move(arrival), std::move(start));
  }
  ASSIGN_OR_RETURN(start.history,
                   session.NextTurn(request.prompt_ids, tokenizer));
  start.mask = std::move(mask);
  const TokenHistory& history = start.history;
  start.n_cached = session.n_computed - history.evicted_positions();
  start.n_prompt = history.n_live();
  const int64_t n_positions = history.n_positions();
  const int64_t limit = session.roll.FullAt(history.evicted_positions());
  const absl::Time now = arrival.time;
  RETURN_IF_ERROR(Insert(std::move(arrival), std::move(start),
                         [&](int64_t id, const Claim& claim) {
                           if (!session.slot) {
                             return Queue(id, n_positions, claim,
                                          Waits::kToTheEnd);
                           }
                           scheduler_.Resume({.id = id,
                                              .slot = *session.slot,
                                              .n_computed = session.n_computed,
                                              .n_prompt = n_positions,
                                              .limit = limit,
                                              .claim = claim});
                           return absl::OkStatus();
                         }));
  session.is_busy = true;
  session.last_used = now;
  ++session.n_turns;
  return absl::OkStatus();
}

absl::Status StreamBook::AddRendered(Session& session, Arrival arrival,
                                     SequenceStart start) {
  GenerateOptions& request = arrival.options;
  const RenderedChat& chat = *request.rendered;
  start.history = TokenHistory(0, std::move(request.prompt_ids));
  start.n_prompt = start.history.n_tokens();
  if (chat.n_left_turns() > 0) {
    start.evicted = Eviction{.position = session.n_evicted + chat.first_left,
                             .n_tokens = chat.n_left_tokens,
                             .n_turns = chat.n_left_turns(),
                             .n_kept = start.n_prompt,
                             .method = RollMethod::kRecompute};
  }
  const bool begins_turn = chat.begins_turn;
  const int64_t n_prompt = start.n_prompt;
  const absl::Time now = arrival.time;
  RETURN_IF_ERROR(Insert(std::move(arrival), std::move(start),
                         [&](int64_t id, const Claim& claim) {
                           return Queue(id, n_prompt, claim, Waits::kToTheEnd);
                         }));
  session.is_busy = true;
  session.last_used = now;
  if (begins_turn) ++session.n_turns;
  return absl::OkStatus();
}

absl::Status StreamBook::Queue(int64_t id, int64_t n_prompt, const Claim& claim,
                               Waits how) {
  if (how != Waits::kAdmitted) {
    if (const auto gone = scheduler_.GivesWayTo(claim)) {
      aborts_.emplace(*gone, absl::AbortedError(
                                 "the queue was full and this tenant had most "
                                 "of it, so the newest of its requests that "
                                 "waited gave way; try again later"));
      scheduler_.Remove(*gone);
    }
  }
  return scheduler_.Add(id, n_prompt, claim, how);
}

absl::Status StreamBook::Insert(
    Arrival arrival, SequenceStart start,
    absl::FunctionRef<absl::Status(int64_t id, const Claim& claim)> schedule) {
  const int64_t id = next_id_++;
  const auto place =
      sequences_
          .emplace(id, std::make_unique<Sequence>(id, std::move(arrival),
                                                  std::move(start)))
          .first;
  absl::Cleanup undo = [this, place] { sequences_.erase(place); };
  RETURN_IF_ERROR(schedule(id, place->second->options().claim));
  std::move(undo).Cancel();
  return absl::OkStatus();
}

std::vector<std::string> StreamBook::Abort(
    absl::FunctionRef<bool(const std::string&)> wanted,
    const absl::Status& status) {
  std::vector<std::string> ids;
  for (const auto& [id, sequence] : sequences_) {
    const std::string& request_id = sequence->options().request_id;
    if (!wanted(request_id)) continue;
    aborts_.emplace(id, status);
    ids.push_back(request_id);
  }
  return ids;
}

absl::StatusOr<int64_t> StreamBook::OpenSession(SessionOptions options,
                                                const RollPlan& roll,
                                                absl::Time now) {
  ASSIGN_OR_RETURN(const SessionBook::Opened opened,
                   sessions_.Open(std::move(options), roll, now));
  if (opened.ended) {
    EndStreamOf(*opened.ended,
                absl::NotFoundError("the session was closed while its call "
                                    "ran: it gave way to one of another "
                                    "tenant, which had fewer"));
  }
  return opened.key;
}

void StreamBook::CloseSession(int64_t key) {
  EndStreamOf(key, absl::CancelledError("the session was closed"));
  sessions_.Close(key);
}

void StreamBook::EndStreamOf(int64_t session, const absl::Status& status) {
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->session() == session) aborts_.emplace(id, status);
  }
}

std::vector<RequestInfo> StreamBook::Requests(size_t max,
                                              absl::Time now) const {
  std::vector<RequestInfo> requests;
  for (const auto& [id, sequence] : sequences_) {
    if (requests.size() >= max) break;
    RequestState state = RequestState::kWaiting;
    if (scheduler_.SlotOf(id).has_value()) {
      state = scheduler_.IsParked(id) ? RequestState::kParked
                                      : RequestState::kRunning;
    }
    requests.push_back({.request_id = sequence->options().request_id,
                        .state = state,
                        .n_prompt = sequence->n_prompt(),
                        .n_generated = sequence->n_generated(),
                        .age = now - sequence->submitted()});
  }
  return requests;
}

void StreamBook::List(std::vector<Sequence*>& sequences) {
  sequences.clear();
  for (const auto& [id, sequence] : sequences_) {
    sequences.push_back(sequence.get());
    const auto found = aborts_.find(id);
    if (found != aborts_.end()) sequence->Abort(found->second);
  }
  aborts_.clear();
}

std::unique_ptr<Sequence> StreamBook::Take(int64_t id) {
  return std::move(sequences_.extract(id).mapped());
}

}  // namespace plimsoll::worker
