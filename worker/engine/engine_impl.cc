#include "worker/engine/engine_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "kernels/start_thread.h"
#include "worker/cache/roll_plan.h"
#include "worker/engine/check_request.h"
#include "worker/engine/engine_observer.h"
#include "worker/sampling/logit_bias.h"
#include "worker/sampling/token_history.h"

namespace plimsoll::worker {
namespace {

// How often deadlines and abandoned streams are looked for when nothing else
// wakes the step thread.
constexpr absl::Duration kIdleLook = absl::Milliseconds(50);

// Where the cache holds several whole contexts, one of them stays for requests
// without a session.
int64_t MostSessions(const planner::MemoryPlan& plan) {
  const int64_t n_whole_contexts =
      std::min(plan.options.n_slots, plan.kv.n_pages / plan.kv.pages_per_slot);
  return std::max<int64_t>(n_whole_contexts - 1, 1);
}

}  // namespace

Engine::Impl::Impl(EngineResources resources, const EngineOptions& options)
    : resources_(std::move(resources)),
      options_(options),
      slot_bytes_(resources_.cache->SlotBytes()),
      step_mark_(options_.clock),
      masks_(*resources_.tokenizer),
      contexts_(resources_, counters_),
      drafts_(resources_),
      planner_({.resources = resources_,
                .contexts = contexts_,
                .drafts = drafts_,
                .counters = counters_,
                .preemption = options_.preemption,
                .prompt_shares = {.of_step = options_.prompt_share,
                                  .beside_others =
                                      options_.prompt_share_beside_others}}),
      runner_({.resources = resources_,
               .contexts = contexts_,
               .drafts = drafts_,
               .counters = counters_,
               .progress = step_mark_,
               .clock = options_.clock}),
      book_({.n_slots = resources_.plan().options.n_slots,
             .n_rows = resources_.plan().n_rows,
             .max_queued = options_.max_queued,
             .max_sessions = MostSessions(resources_.plan()),
             .n_ctx = resources_.plan().n_ctx}) {}

Engine::Impl::~Impl() {
  if (!thread_.joinable()) return;
  {
    SteadyMutexLock lock(&mu_);
    stopping_ = true;
    draining_ = true;
  }
  thread_.join();
}

absl::Status Engine::Impl::Start() {
  if (PLIMSOLL_FAULT("engine.thread")) return kernels::NoThread();
  ASSIGN_OR_RETURN(thread_, kernels::StartThread([this] { StepLoop(); }));
  return absl::OkStatus();
}

absl::Status Engine::Impl::Submit(GenerateOptions request,
                                  std::shared_ptr<TokenSink> sink) {
  const planner::MemoryPlan& plan = resources_.plan();
  const bool has_session = !request.session_id.empty();
  if (has_session) {
    request.roll.policy = request.rendered != nullptr ? ContextPolicy::kStop
                                                      : ContextPolicy::kRoll;
  }
  RETURN_IF_ERROR(
      CheckRequest(request, plan.n_ctx, resources_.tokenizer->vocab_size()));
  if (options_.preemption == Preemption::kOff) {
    RETURN_IF_ERROR(CheckHasEnd(request));
  }
  // No token is made of weights that are not the model's.
  if (resources_.mapping != nullptr) {
    RETURN_IF_ERROR(resources_.mapping->CheckUnchanged());
  }
  SuppressTokens(resources_.suppressed_tokens, request.logit_bias);
  const int64_t n_draft = plan.options.n_draft;
  const int64_t draft_tokens =
      request.draft_tokens.value_or(plan.HasMtp() ? n_draft : 0);
  if (draft_tokens < 0 || draft_tokens > n_draft) {
    return absl::InvalidArgumentError(absl::StrCat(
        "draft_tokens is ", draft_tokens, ", the model was loaded for ",
        n_draft, ": ask for fewer, or load it with more"));
  }
  request.draft_tokens = draft_tokens;
  if (has_session) return SubmitMessage(std::move(request), std::move(sink));
  ASSIGN_OR_RETURN(const RollPlan roll,
                   PlanRoll(resources_.shape, plan, request.roll));
  SequenceStart start = {
      .roll = roll,
      .history =
          TokenHistory(roll.prefix_tokens, std::move(request.prompt_ids))};
  start.n_prompt = start.history.n_tokens();
  start.mask = masks_.NewMask(request);
  SteadyMutexLock lock(&mu_);
  RETURN_IF_ERROR(
      CheckOpen(request.is_admitted ? Entry::kAdmitted : Entry::kNew));
  RETURN_IF_ERROR(book_.Add({.options = std::move(request),
                             .sink = std::move(sink),
                             .time = options_.clock()},
                            std::move(start)));
  TellNews();
  return absl::OkStatus();
}

void Engine::Impl::ReportSubmit(const absl::Status& status) {
  if (options_.observer != nullptr) options_.observer->OnSubmit(status);
}

absl::Status Engine::Impl::SubmitMessage(GenerateOptions request,
                                         std::shared_ptr<TokenSink> sink) {
  std::unique_ptr<TokenMask> mask = masks_.NewMask(request);
  SteadyMutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckOpen(Entry::kNew));
  RETURN_IF_ERROR(book_.AddMessage({.options = std::move(request),
                                    .sink = std::move(sink),
                                    .time = options_.clock()},
                                   std::move(mask), *resources_.tokenizer));
  TellNews();
  return absl::OkStatus();
}

absl::Status Engine::Impl::CheckOpen(Entry entry) const {
  if (!lost_.ok()) return lost_;
  if (draining_ && (stopping_ || entry == Entry::kNew)) {
    return absl::UnavailableError("the model is draining");
  }
  return absl::OkStatus();
}

void Engine::Impl::TellNews() {
  woken_ = true;
  has_news_ = true;
}

int64_t Engine::Impl::MaxSessions() const {
  return MostSessions(resources_.plan());
}

absl::StatusOr<SessionInfo> Engine::Impl::OpenSession(SessionOptions session) {
  RETURN_IF_ERROR(CheckSession(session, resources_.tokenizer->vocab_size()));
  const auto roll = PlanRoll(
      resources_.shape, resources_.plan(),
      {.policy = session.chat != nullptr ? ContextPolicy::kStop
                                         : ContextPolicy::kRoll,
       .method = session.roll_method,
       .pin_tokens = static_cast<int64_t>(session.frame.opening.size()),
       .evict_to = session.evict_to});
  if (!roll.ok()) {
    return absl::Status(
        roll.status().code(),
        absl::StrCat("a chat's opening, with its system message, is pinned; ",
                     roll.status().message()));
  }
  const absl::Time now = options_.clock();
  SteadyMutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckOpen(Entry::kNew));
  ASSIGN_OR_RETURN(const int64_t key,
                   book_.OpenSession(std::move(session), *roll, now));
  TellNews();  // the stream of a session that gave way may have to end
  return book_.sessions().Get(key)->Describe(slot_bytes_, now);
}

absl::StatusOr<SessionInfo> Engine::Impl::GetSession(absl::string_view id,
                                                     absl::string_view owner) {
  const absl::Time now = options_.clock();
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const int64_t key, book_.sessions().Find(id, owner, now));
  return book_.sessions().Get(key)->Describe(slot_bytes_, now);
}

bool Engine::Impl::KeepsTexts(absl::string_view id) const {
  SteadyMutexLock lock(&mu_);
  return book_.sessions().KeepsTexts(id);
}

std::vector<SessionInfo> Engine::Impl::Sessions(absl::string_view owner) {
  const absl::Time now = options_.clock();
  std::vector<SessionInfo> infos;
  SteadyMutexLock lock(&mu_);
  for (const int64_t key : book_.sessions().Keys(now)) {
    const Session& session = *book_.sessions().Get(key);
    if (session.options.owner != owner) continue;
    infos.push_back(session.Describe(slot_bytes_, now));
  }
  return infos;
}

absl::Status Engine::Impl::CloseSession(absl::string_view id,
                                        absl::string_view owner) {
  const absl::Time now = options_.clock();
  SteadyMutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const int64_t key, book_.sessions().Find(id, owner, now));
  book_.CloseSession(key);
  TellNews();
  return absl::OkStatus();
}

void Engine::Impl::Wake() {
  SteadyMutexLock lock(&mu_);
  woken_ = true;
}

void Engine::Impl::Drain() {
  SteadyMutexLock lock(&mu_);
  draining_ = true;
}

bool Engine::Impl::Idle() const {
  SteadyMutexLock lock(&mu_);
  return book_.empty();
}

std::vector<std::string> Engine::Impl::Abort(
    absl::FunctionRef<bool(const std::string&)> wanted,
    const absl::Status& status) {
  SteadyMutexLock lock(&mu_);
  TellNews();
  return book_.Abort(wanted, status);
}

std::optional<int64_t> Engine::Impl::ReservedPages() const {
  if (options_.preemption == Preemption::kOn) return std::nullopt;
  return counters_.kv_reserved_pages;
}

EngineLoad Engine::Impl::CurrentLoad() {
  SteadyMutexLock lock(&mu_);
  return {.n_slots = resources_.plan().options.n_slots,
          .sessions = book_.sessions().Count(options_.clock()),
          .running = book_.scheduler().running(),
          .waiting = book_.scheduler().waiting(),
          .max_waiting = options_.max_queued,
          .kv_pages = contexts_.n_pages(),
          .kv_used_pages = counters_.kv_used_pages,
          .kv_reserved_pages = ReservedPages(),
          .steps = counters_.steps,
          .generated_tokens = counters_.generated_tokens,
          .prompt_tokens = counters_.prompt_tokens,
          .cached_tokens = counters_.cached_tokens,
          .draft_tokens = counters_.draft_tokens,
          .accepted_draft_tokens = counters_.accepted_draft_tokens,
          .preemptions = counters_.preemptions};
}

std::vector<RequestInfo> Engine::Impl::Requests(size_t max) const {
  const absl::Time now = options_.clock();
  SteadyMutexLock lock(&mu_);
  return book_.Requests(max, now);
}

void Engine::Impl::StepLoop() {
  bool has_run = false;
  while (has_run || AwaitWork()) {
    step_mark_.Begin();
    if (!PlanStep()) break;
    resources_.pool->MoveOffWorkerCpus();
    has_run = !step_.empty();
    if (has_run && !RunStep()) break;
    step_mark_.Stop();
  }
  step_mark_.Stop();
  EndAll();
}

bool Engine::Impl::AwaitWork() {
  SteadyMutexLock lock(&mu_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return woken_ || stopping_;
  };
  if (book_.empty()) {
    mu_.Await(absl::Condition(&ready));
  } else {
    mu_.AwaitFor(absl::Condition(&ready), kIdleLook);
  }
  woken_ = false;
  return !stopping_;
}

void Engine::Impl::Sweep() {
  const absl::Time now = options_.clock();
  for (Sequence* sequence : AllSequences()) {
    if (sequence->sink().Abandoned()) {
      sequence->End(absl::CancelledError("the client is gone"));
    }
    if (now >= sequence->options().deadline) {
      sequence->End(absl::DeadlineExceededError(
          absl::StrCat("the deadline passed after ", sequence->n_generated(),
                       " generated tokens")));
    }
    FlushParkOrFinish(*sequence);
  }
}

bool Engine::Impl::PlanStep() {
  while (true) {
    Sweep();
    SteadyMutexLock lock(&mu_);
    if (stopping_) return false;
    if (has_news_) continue;
    planner_.PlanStep(book_, options_.clock(), step_);
    return true;
  }
}

bool Engine::Impl::RunStep() {
  const absl::Time begin = options_.clock();
  if (absl::Status status = runner_.Run(step_); !status.ok()) {
    LoseDevice(status);
    return false;
  }
  for (Sequence* sequence : step_.sequences) FlushParkOrFinish(*sequence);
  const absl::Duration time = options_.clock() - begin;
  planner_.Record(step_, time);
  ReportStep(time);
  return true;
}

void Engine::Impl::ReportStep(absl::Duration time) {
  if (options_.observer == nullptr) return;
  StepRecord record{.time = time};
  for (const ScheduledRows& rows : step_.rows) {
    ++record.n_sequences;
    (rows.is_decoding ? record.n_decode_rows : record.n_prompt_rows) +=
        rows.n_rows;
  }
  options_.observer->OnStep(record);
}

void Engine::Impl::Finish(Sequence& sequence) {
  const RequestRecord record = sequence.Finish(options_.clock());
  if (options_.observer != nullptr) options_.observer->OnRequestEnd(record);
}

void Engine::Impl::FlushParkOrFinish(Sequence& sequence) {
  const bool has_failed = sequence.end() && !sequence.end()->ok();
  const bool is_taken = sequence.Flush() || has_failed;
  if (is_taken && sequence.end()) {
    std::unique_ptr<Sequence> owner;
    {
      SteadyMutexLock lock(&mu_);
      planner_.ReleaseSlot(book_, sequence, options_.clock());
      owner = book_.Take(sequence.id());
      has_news_ = true;
    }
    Finish(*owner);
    return;
  }
  // A stream that has ended is parked, too, while its last output waits.
  const bool parks = !is_taken || sequence.end();
  if (parks == sequence.is_parked()) return;
  sequence.set_parked(parks);
  SteadyMutexLock lock(&mu_);
  if (parks) {
    StepPlanner::Park(book_, sequence.id());
  } else {
    StepPlanner::Unpark(book_, sequence.id());
  }
}

void Engine::Impl::LoseDevice(const absl::Status& error) {
  const absl::Status reason = options_.on_device_lost != nullptr
                                  ? options_.on_device_lost(error)
                                  : error;
  {
    SteadyMutexLock lock(&mu_);
    lost_ = reason;
    draining_ = true;
  }
  for (Sequence* sequence : AllSequences()) {
    sequence->Abort(reason);
    FlushParkOrFinish(*sequence);
  }
}

void Engine::Impl::EndAll() {
  for (Sequence* sequence : AllSequences()) {
    sequence->End(absl::UnavailableError("the model is being unloaded"));
    Finish(*sequence);
  }
  SteadyMutexLock lock(&mu_);
  book_.Clear();
}

const std::vector<Sequence*>& Engine::Impl::AllSequences() {
  if (!has_news_.exchange(false)) return all_sequences_;
  SteadyMutexLock lock(&mu_);
  book_.List(all_sequences_);
  return all_sequences_;
}

}  // namespace plimsoll::worker
