#include "worker/engine.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "worker/arena.h"
#include "worker/check_request.h"
#include "worker/device.h"
#include "worker/kv_cache.h"
#include "worker/model.h"
#include "worker/prompt_budget.h"
#include "worker/prompt_scorer.h"
#include "worker/roll_plan.h"
#include "worker/row_sampler.h"
#include "worker/scheduler.h"
#include "worker/sequence.h"
#include "worker/token_index.h"

namespace plimsoll::worker {
namespace {

static_assert(EngineOptions::kMaxThreads == kernels::ThreadPool::kMaxThreads);

// How often streams are looked at for deadlines and abandonment when nothing
// else wakes the step thread.
constexpr absl::Duration kIdleLook = absl::Milliseconds(50);

}  // namespace

// Lock order: mu_ is never held while a sink is called.
struct Engine::Impl {
  Impl(const planner::ModelShape& s, const planner::MemoryPlan& p,
       const EngineOptions& o)
      : shape(s),
        plan(p),
        options(o),
        pool(o.n_threads > 0 ? o.n_threads : UsableThreads()),
        backend(kernels::NewCpuBackend(pool)),
        prompt_budget(p.options.n_slots),
        scheduler(p.options.n_slots, p.n_rows, o.max_queued) {}

  void StepLoop();
  // Waits until there may be something to do. False at the end.
  bool AwaitWork();
  // Ends abandoned and late streams, offers parked output again.
  void Sweep();
  // Makes room in contexts that are full.
  void RollFull();
  void Roll(Sequence& sequence, int64_t slot);
  std::vector<ScheduledRows> Schedule();
  void CountPages();
  // Runs a step and measures it for the next ones' prompt rows.
  void TimeStep(const std::vector<ScheduledRows>& rows);
  void RunStep(const std::vector<ScheduledRows>& rows);
  absl::Status BuildBatch(const std::vector<ScheduledRows>& rows);
  // Draws the tokens of the batch's sampled rows.
  absl::Status SampleRows(const std::vector<ScheduledRows>& rows);
  // Log-probabilities of prompt tokens, where asked for. Replaces the logits.
  absl::Status ScorePrompts(const std::vector<ScheduledRows>& rows);
  void Settle(Sequence& sequence);
  // Has the next sweep end the streams whose request id is `wanted`.
  std::vector<std::string> Abort(
      absl::FunctionRef<bool(const std::string&)> wanted,
      const absl::Status& status);
  std::vector<Sequence*> AllSequences();
  Sequence* Find(int64_t id);
  // Made when the first request with a constraint comes.
  const TokenIndex& Index();

  const planner::ModelShape shape;
  const planner::MemoryPlan plan;
  const EngineOptions options;
  kernels::ThreadPool pool;
  std::unique_ptr<kernels::Backend> backend;
  Arena arena;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<Model> model;
  std::unique_ptr<RowSampler> row_sampler;
  std::unique_ptr<PromptScorer> scorer;
  std::unique_ptr<Tokenizer> tokenizer;
  int64_t allocations_at_load = 0;
  int64_t kv_pages = 0;

  // Step thread only.
  PromptBudget prompt_budget;
  StepBatch batch;

  absl::Mutex index_mu;
  std::unique_ptr<TokenIndex> token_index ABSL_GUARDED_BY(index_mu);

  mutable absl::Mutex mu;
  Scheduler scheduler ABSL_GUARDED_BY(mu);
  std::map<int64_t, std::unique_ptr<Sequence>> sequences ABSL_GUARDED_BY(mu);
  int64_t next_id ABSL_GUARDED_BY(mu) = 1;
  bool woken ABSL_GUARDED_BY(mu) = false;
  bool draining ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::map<int64_t, absl::Status> aborts ABSL_GUARDED_BY(mu);  // by id
  EngineLoad counters ABSL_GUARDED_BY(mu) = {};

  std::thread thread;  // last: it uses everything above
};

bool Engine::Impl::AwaitWork() {
  absl::MutexLock lock(&mu);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return woken || stopping;
  };
  if (sequences.empty()) {
    mu.Await(absl::Condition(&ready));
  } else {
    mu.AwaitWithTimeout(absl::Condition(&ready), kIdleLook);
  }
  woken = false;
  return !stopping;
}

std::vector<Sequence*> Engine::Impl::AllSequences() {
  absl::MutexLock lock(&mu);
  std::vector<Sequence*> all;
  all.reserve(sequences.size());
  for (const auto& [id, sequence] : sequences) all.push_back(sequence.get());
  return all;
}

Sequence* Engine::Impl::Find(int64_t id) {
  absl::MutexLock lock(&mu);
  return sequences.at(id).get();
}

const TokenIndex& Engine::Impl::Index() {
  absl::MutexLock lock(&index_mu);
  if (token_index == nullptr) {
    token_index = std::make_unique<TokenIndex>(*tokenizer);
  }
  return *token_index;
}

void Engine::Impl::StepLoop() {
  bool has_run = false;
  while (has_run || AwaitWork()) {
    {
      absl::MutexLock lock(&mu);
      if (stopping) break;
    }
    Sweep();
    RollFull();
    const std::vector<ScheduledRows> rows = Schedule();
    has_run = !rows.empty();
    if (has_run) TimeStep(rows);
  }
  for (Sequence* sequence : AllSequences()) {
    sequence->End(absl::UnavailableError("the model is being unloaded"));
    sequence->Finish(options.clock());
  }
  absl::MutexLock lock(&mu);
  sequences.clear();
}

void Engine::Impl::Sweep() {
  std::map<int64_t, absl::Status> aborted;
  {
    absl::MutexLock lock(&mu);
    aborted.swap(aborts);
  }
  const absl::Time now = options.clock();
  for (Sequence* sequence : AllSequences()) {
    if (const auto found = aborted.find(sequence->id());
        found != aborted.end()) {
      sequence->Abort(found->second);
    }
    if (sequence->sink().Abandoned()) {
      sequence->End(absl::CancelledError("the client is gone"));
    }
    if (now >= sequence->options().deadline) {
      sequence->End(absl::DeadlineExceededError(
          absl::StrCat("the deadline passed after ", sequence->n_generated(),
                       " generated tokens")));
    }
    Settle(*sequence);
  }
}

// Moves a sequence's output on, then parks, unparks or ends it.
void Engine::Impl::Settle(Sequence& sequence) {
  const bool is_failed = sequence.end() && !sequence.end()->ok();
  const bool is_taken = sequence.Flush() || is_failed;
  if (is_taken && sequence.end()) {
    int64_t slot = -1;
    std::unique_ptr<Sequence> owner;
    {
      absl::MutexLock lock(&mu);
      slot = scheduler.SlotOf(sequence.id()).value_or(-1);
      scheduler.Remove(sequence.id());
      auto node = sequences.extract(sequence.id());
      owner = std::move(node.mapped());
    }
    if (slot >= 0) cache->Clear(slot);
    owner->Finish(options.clock());
    return;
  }
  absl::MutexLock lock(&mu);
  // Ended with output that its reader has not taken yet: parked as well.
  if (!is_taken || sequence.end()) {
    scheduler.Park(sequence.id());
  } else {
    scheduler.Unpark(sequence.id());
  }
}

// Only where the next row is about to be computed: not for a sequence that
// ended, nor while its reader is behind, as output offered again must not
// change.
void Engine::Impl::RollFull() {
  for (Sequence* sequence : AllSequences()) {
    if (sequence->options().context_policy != ContextPolicy::kRoll) continue;
    if (sequence->end() || sequence->HasOutput()) continue;
    std::optional<int64_t> slot;
    {
      absl::MutexLock lock(&mu);
      slot = scheduler.SlotOf(sequence->id());
    }
    const RollPlan& roll = sequence->history().roll();
    if (slot && cache->Live(*slot) >= roll.capacity) Roll(*sequence, *slot);
  }
}

void Engine::Impl::Roll(Sequence& sequence, int64_t slot) {
  sequence.Evict();
  const TokenHistory& history = sequence.history();
  const int64_t n_tokens = history.roll().evict_tokens;
  const bool is_shift = history.roll().method == RollMethod::kShift;
  if (is_shift) {
    cache->Evict(slot, n_tokens);
  } else {
    cache->Clear(slot);
  }
  absl::MutexLock lock(&mu);
  if (is_shift) {
    scheduler.RaiseLimit(sequence.id(), n_tokens);
  } else {
    scheduler.Restart(sequence.id(), history.n_positions());
  }
}

void Engine::Impl::CountPages() {
  absl::MutexLock lock(&mu);
  counters.kv_used_pages = kv_pages - cache->free_pages();
}

std::vector<ScheduledRows> Engine::Impl::Schedule() {
  CountPages();
  absl::MutexLock lock(&mu);
  return scheduler.NextStep(prompt_budget.Rows(scheduler.Decoding()));
}

void Engine::Impl::TimeStep(const std::vector<ScheduledRows>& rows) {
  int64_t n_decoding = 0;
  int64_t n_prompt = 0;
  for (const ScheduledRows& r : rows) {
    (r.is_decoding ? n_decoding : n_prompt) += r.n_rows;
  }
  const absl::Time begin = options.clock();
  RunStep(rows);
  prompt_budget.Record(n_decoding, n_prompt, options.clock() - begin);
}

absl::Status Engine::Impl::BuildBatch(const std::vector<ScheduledRows>& rows) {
  batch.tokens.clear();
  batch.positions.clear();
  batch.prefix_positions.clear();
  batch.has_rolled_prefix = false;
  batch.sequences.clear();
  batch.sampled_rows.clear();
  const absl::Time now = options.clock();
  for (const ScheduledRows& r : rows) {
    Sequence* sequence = Find(r.id);
    sequence->Started(now);
    const TokenHistory& history = sequence->history();
    if (r.first_position == 0) {
      cache->Begin(r.slot, history.roll().prefix_tokens);
    }
    RETURN_IF_ERROR(cache->Extend(r.slot, r.first_position + r.n_rows));
    batch.sequences.push_back(
        {.slot = r.slot,
         .first_row = static_cast<int64_t>(batch.tokens.size()),
         .n_rows = r.n_rows,
         .first_position = r.first_position});
    for (int64_t i = 0; i < r.n_rows; ++i) {
      const int64_t position = r.first_position + i;
      batch.tokens.push_back(history.TokenAt(position));
      batch.positions.push_back(position);
      batch.prefix_positions.push_back(position - cache->Evicted(r.slot));
    }
    batch.has_rolled_prefix |= cache->HasRolledPrefix(r.slot);
    if (r.samples) {
      batch.sampled_rows.push_back(static_cast<int32_t>(batch.tokens.size()) -
                                   1);
    }
  }
  return absl::OkStatus();
}

void Engine::Impl::RunStep(const std::vector<ScheduledRows>& rows) {
  absl::Status status = BuildBatch(rows);
  CountPages();  // before anybody sees what the step brings
  if (status.ok()) status = model->Step(batch);
  if (status.ok()) status = SampleRows(rows);
  if (status.ok()) status = ScorePrompts(rows);
  int64_t n_sampled = 0;
  for (const ScheduledRows& r : rows) {
    Sequence* sequence = Find(r.id);
    if (!status.ok()) sequence->End(status);
    n_sampled += r.samples ? 1 : 0;
    Settle(*sequence);
  }
  absl::MutexLock lock(&mu);
  ++counters.steps;
  counters.generated_tokens += n_sampled;
  counters.prompt_tokens +=
      static_cast<int64_t>(batch.tokens.size()) - n_sampled;
}

absl::Status Engine::Impl::SampleRows(const std::vector<ScheduledRows>& rows) {
  std::vector<Sequence*> sampled;
  for (const ScheduledRows& r : rows) {
    if (r.samples) sampled.push_back(Find(r.id));
  }
  RETURN_IF_ERROR(row_sampler->Begin(sampled));
  for (size_t i = 0; i < sampled.size(); ++i) {
    absl::StatusOr<TokenOutput> token =
        row_sampler->Draw(*sampled[i], static_cast<int64_t>(i));
    if (!token.ok()) {
      sampled[i]->End(token.status());
      continue;
    }
    sampled[i]->Accept(*std::move(token), *tokenizer, plan.n_ctx,
                       options.clock());
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::ScorePrompts(
    const std::vector<ScheduledRows>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    Sequence* sequence = Find(rows[i].id);
    if (!sequence->options().prompt_logprobs) continue;
    ScoredRows scored;
    sequence->AppendUnscored(rows[i].first_position, rows[i].n_rows,
                             batch.sequences[i].first_row, scored);
    std::vector<PromptScore> scores;
    const absl::Status status = scorer->Score(scored, scores);
    if (status.code() == absl::StatusCode::kInternal) {
      sequence->End(status);  // of this sequence alone
      continue;
    }
    RETURN_IF_ERROR(status);
    sequence->AddScores(scores);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(
    ModelFile& file, const planner::MemoryPlan& plan,
    const EngineOptions& options, const LoadFence& fence) {
  RETURN_IF_ERROR(CheckRunnable(file.shape(), plan));
  if (!plan.fits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the plan needs ", plan.total_bytes, " bytes, the budget is ",
        plan.budget_bytes, ": ", plan.missing_bytes, " bytes are missing"));
  }
  auto impl = std::make_unique<Impl>(file.shape(), plan, options);
  ASSIGN_OR_RETURN(impl->tokenizer, LoadTokenizer(file.header(), file));
  RETURN_IF_ERROR(fence({"allocate", 0, plan.arena_bytes}));
  ASSIGN_OR_RETURN(impl->arena, Arena::Allocate(plan, *impl->backend));
  impl->cache = std::make_unique<KvCache>(
      impl->shape, impl->plan, impl->arena.Region(plan, "kv_full"),
      impl->arena.Region(plan, "kv_window"));
  impl->kv_pages = impl->cache->free_pages();
  const ModelParts parts = {.shape = &impl->shape,
                            .plan = &impl->plan,
                            .arena = &impl->arena,
                            .backend = impl->backend.get(),
                            .cache = impl->cache.get(),
                            .precision = options.precision};
  ASSIGN_OR_RETURN(impl->model, BuildModel(file.header(), parts));
  RETURN_IF_ERROR(LoadWeights(file, parts, fence));
  impl->row_sampler = std::make_unique<RowSampler>(*impl->model, *impl->backend,
                                                   impl->shape.vocab_size);
  impl->scorer = std::make_unique<PromptScorer>(
      *impl->model, *impl->backend, plan.n_sampled, impl->shape.vocab_size);
  impl->allocations_at_load = impl->backend->Allocations();
  RETURN_IF_ERROR(fence({"ready", plan.arena_bytes, plan.arena_bytes}));
  Impl* const running = impl.get();
  impl->thread = std::thread([running] { running->StepLoop(); });
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->stopping = true;
    impl_->draining = true;
  }
  impl_->thread.join();
}

absl::Status Engine::Submit(GenerateOptions options,
                            std::shared_ptr<TokenSink> sink) {
  RETURN_IF_ERROR(
      CheckRequest(options, n_ctx(), impl_->tokenizer->vocab_size()));
  ASSIGN_OR_RETURN(const RollPlan roll,
                   PlanRoll(impl_->shape, impl_->plan, options));
  std::unique_ptr<TokenMask> mask;
  if (options.constraint != nullptr) {
    mask = std::make_unique<TokenMask>(options.constraint, impl_->Index());
    if (!mask->status().ok()) {
      return absl::InvalidArgumentError(mask->status().message());
    }
  }
  const absl::Time now = impl_->options.clock();
  absl::MutexLock lock(&impl_->mu);
  if (impl_->draining) {
    return absl::UnavailableError("the model is draining");
  }
  const int64_t id = impl_->next_id++;
  RETURN_IF_ERROR(
      impl_->scheduler.Add(id, static_cast<int64_t>(options.prompt_ids.size()),
                           roll.capacity, options.claim));
  impl_->sequences[id] = std::make_unique<Sequence>(id, std::move(options),
                                                    roll, std::move(sink), now);
  impl_->sequences[id]->Constrain(std::move(mask));
  impl_->woken = true;
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

MemoryReport Engine::Memory() const {
  const auto planned = planner::AllocatedBytes(
      ProfileOf(impl_->backend->Device()), impl_->plan.arena_bytes);
  return {.planned_bytes = planned.value_or(impl_->plan.arena_bytes),
          .allocated_bytes = impl_->arena.bytes(),
          .device_allocations_after_load =
              impl_->backend->Allocations() - impl_->allocations_at_load,
          .peak_rss_bytes = PeakResidentBytes(),
          .vocab_bytes = impl_->tokenizer->MemoryBytes()};
}

EngineLoad Engine::CurrentLoad() const {
  absl::MutexLock lock(&impl_->mu);
  EngineLoad load = impl_->counters;
  load.n_slots = impl_->plan.options.n_slots;
  load.running = impl_->scheduler.running();
  load.waiting = impl_->scheduler.waiting();
  load.max_waiting = impl_->options.max_queued;
  load.kv_pages = impl_->kv_pages;
  return load;
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
