#include "worker/engine/engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/start_thread.h"
#include "worker/cache/roll_plan.h"
#include "worker/engine/check_request.h"
#include "worker/engine/engine_impl.h"

namespace plimsoll::worker {

static_assert(EngineOptions::kMaxThreads == kernels::ThreadPool::kMaxThreads);

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::Status Engine::Impl::Start() {
  ASSIGN_OR_RETURN(thread, kernels::StartThread([this] { StepLoop(); }));
  return absl::OkStatus();
}

Engine::~Engine() {
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->stopping = true;
    impl_->draining = true;
  }
  impl_->thread.join();
}

void Engine::Impl::Insert(int64_t id, GenerateOptions request,
                          SequenceStart start,
                          std::shared_ptr<TokenSink> sink) {
  sequences[id] =
      std::make_unique<Sequence>(id, std::move(request), std::move(start),
                                 std::move(sink), options.clock());
  woken = true;
  has_news = true;
}

absl::Status Engine::Impl::Queue(int64_t id, int64_t n_prompt,
                                 const Claim& claim, Waits how) {
  if (how != Waits::kAdmitted) {
    if (const auto gone = scheduler.GiveWayTo(claim)) {
      aborts.emplace(*gone, absl::AbortedError(
                                "the queue was full and this tenant had most "
                                "of it, so the newest of its requests that "
                                "waited gave way; try again later"));
    }
  }
  return scheduler.Add(id, n_prompt, claim, how);
}

std::unique_ptr<TokenMask> Engine::Impl::NewMask(
    const GenerateOptions& request) {
  if (request.constraint == nullptr) return nullptr;
  return std::make_unique<TokenMask>(request.constraint, Index());
}

const TokenIndex& Engine::Impl::Index() {
  absl::MutexLock lock(&index_mu);
  if (token_index == nullptr) {
    token_index = std::make_unique<TokenIndex>(*tokenizer);
  }
  return *token_index;
}

absl::Status Engine::Submit(GenerateOptions options,
                            std::shared_ptr<TokenSink> sink) {
  const bool has_session = !options.session_id.empty();
  if (has_session) options.roll.policy = ContextPolicy::kRoll;
  RETURN_IF_ERROR(
      CheckRequest(options, n_ctx(), impl_->tokenizer->vocab_size()));
  const int64_t n_draft = impl_->plan.options.n_draft;
  if (options.draft_tokens < 0 || options.draft_tokens > n_draft) {
    return absl::InvalidArgumentError(absl::StrCat(
        "draft_tokens is ", options.draft_tokens, ", the model was loaded for ",
        n_draft, ": ask for fewer, or load it with more"));
  }
  if (has_session) {
    return impl_->SubmitMessage(std::move(options), std::move(sink));
  }
  ASSIGN_OR_RETURN(const RollPlan roll,
                   PlanRoll(impl_->shape, impl_->plan, options.roll));
  SequenceStart start = {
      .roll = roll,
      .history =
          TokenHistory(roll.prefix_tokens, std::move(options.prompt_ids))};
  start.n_prompt = start.history.n_tokens();
  start.mask = impl_->NewMask(options);
  absl::MutexLock lock(&impl_->mu);
  RETURN_IF_ERROR(impl_->CheckOpen(options.is_admitted));
  const Waits how = options.is_admitted ? Waits::kAdmitted : Waits::kNew;
  const int64_t id = impl_->next_id++;
  RETURN_IF_ERROR(impl_->Queue(id, start.n_prompt, options.claim, how));
  impl_->Insert(id, std::move(options), std::move(start), std::move(sink));
  return absl::OkStatus();
}

void Engine::Wake() {
  absl::MutexLock lock(&impl_->mu);
  impl_->woken = true;
}

void Engine::Drain() {
  absl::MutexLock lock(&impl_->mu);
  impl_->draining = true;
}

bool Engine::Idle() const {
  absl::MutexLock lock(&impl_->mu);
  return impl_->sequences.empty();
}

std::vector<std::string> Engine::Impl::Abort(
    absl::FunctionRef<bool(const std::string&)> wanted,
    const absl::Status& status) {
  absl::MutexLock lock(&mu);
  std::vector<std::string> ids;
  for (const auto& [id, sequence] : sequences) {
    const std::string& request_id = sequence->options().request_id;
    if (!wanted(request_id)) continue;
    aborts.emplace(id, status);
    ids.push_back(request_id);
  }
  woken = true;
  has_news = true;
  return ids;
}

std::vector<std::string> Engine::AbortAll(const absl::Status& status) {
  return impl_->Abort([](const std::string&) { return true; }, status);
}

std::vector<std::string> Engine::Abort(
    const std::vector<std::string>& request_ids, const absl::Status& status) {
  const std::set<std::string> ids(request_ids.begin(), request_ids.end());
  return impl_->Abort(
      [&ids](const std::string& id) { return !id.empty() && ids.contains(id); },
      status);
}

const Tokenizer& Engine::tokenizer() const { return *impl_->tokenizer; }

const planner::MemoryPlan& Engine::plan() const { return impl_->plan; }

int64_t Engine::n_ctx() const { return impl_->plan.n_ctx; }

const std::vector<EnginePart>& Engine::parts() const { return impl_->parts; }

MemoryReport Engine::Memory() const {
  MemoryReport all = MemoryOf(0);
  for (size_t i = 1; i < impl_->stages.size(); ++i) {
    const MemoryReport part = MemoryOf(i);
    all.planned_bytes += part.planned_bytes;
    all.allocated_bytes += part.allocated_bytes;
    all.device_allocations_after_load += part.device_allocations_after_load;
    if (!part.device_taken_bytes) continue;
    all.device_taken_bytes =
        all.device_taken_bytes.value_or(0) + *part.device_taken_bytes;
  }
  return all;
}

MemoryReport Engine::MemoryOf(size_t part) const {
  const Stage& stage = impl_->stages[part];
  const int64_t arena_bytes = stage.plan->arena_bytes;
  const auto planned =
      planner::AllocatedBytes(ProfileOf(stage.backend->Device()), arena_bytes);
  return {.planned_bytes = planned.value_or(arena_bytes),
          .allocated_bytes = stage.arena.bytes(),
          .device_allocations_after_load =
              stage.backend->Allocations() - stage.allocations_at_load,
          .peak_rss_bytes = PeakResidentBytes(),
          .vocab_bytes = impl_->tokenizer->MemoryBytes(),
          .vocab_on_device = impl_->stages.front().device->is_host(),
          .device_taken_bytes = stage.device_taken_bytes};
}

EngineLoad Engine::CurrentLoad() const {
  const StepCounters& counters = impl_->counters;
  absl::MutexLock lock(&impl_->mu);
  return {.n_slots = impl_->plan.options.n_slots,
          .sessions = impl_->sessions.Count(impl_->options.clock()),
          .running = impl_->scheduler.running(),
          .waiting = impl_->scheduler.waiting(),
          .max_waiting = impl_->options.max_queued,
          .kv_pages = impl_->kv_pages,
          .kv_used_pages = counters.kv_used_pages,
          .steps = counters.steps,
          .generated_tokens = counters.generated_tokens,
          .prompt_tokens = counters.prompt_tokens,
          .cached_tokens = counters.cached_tokens,
          .draft_tokens = counters.draft_tokens,
          .accepted_draft_tokens = counters.accepted_draft_tokens,
          .preemptions = counters.preemptions};
}

absl::Duration Engine::StepAge() const {
  const int64_t began = impl_->step_began;
  if (began == Impl::kWaits) return absl::ZeroDuration();
  return impl_->options.clock() - absl::FromUnixNanos(began);
}

std::vector<RequestInfo> Engine::Requests(size_t max) const {
  const absl::Time now = impl_->options.clock();
  std::vector<RequestInfo> requests;
  absl::MutexLock lock(&impl_->mu);
  for (const auto& [id, sequence] : impl_->sequences) {
    if (requests.size() >= max) break;
    RequestState state = RequestState::kWaiting;
    if (impl_->scheduler.SlotOf(id).has_value()) {
      state = impl_->scheduler.IsParked(id) ? RequestState::kParked
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

}  // namespace plimsoll::worker
