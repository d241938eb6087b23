// What an engine is made of; for its own files only.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_IMPL_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_IMPL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "worker/cache/kv_cache.h"
#include "worker/cache/page_claims.h"
#include "worker/cache/parked_contexts.h"
#include "worker/device/arena.h"
#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"
#include "worker/engine/engine.h"
#include "worker/engine/sequence.h"
#include "worker/engine/session_book.h"
#include "worker/graph/model.h"
#include "worker/graph/stage.h"
#include "worker/sampling/prompt_scorer.h"
#include "worker/sampling/row_sampler.h"
#include "worker/scheduling/prompt_budget.h"
#include "worker/scheduling/scheduler.h"
#include "worker/text/tokenizer/token_index.h"

namespace plimsoll::worker {

// Contexts that can be there in full at once.
inline int64_t WholeContexts(const planner::MemoryPlan& plan) {
  return std::min(plan.options.n_slots,
                  plan.kv.n_pages / plan.kv.pages_per_slot);
}

// Where there are several contexts, requests without a session keep one.
inline int64_t MostSessions(const planner::MemoryPlan& plan) {
  return std::max<int64_t>(WholeContexts(plan) - 1, 1);
}

// Devices of their own compute without the host's threads.
inline int PoolThreads(bool has_host, int wanted) {
  if (!has_host) return 1;
  return wanted > 0 ? wanted : UsableThreads();
}

// What the step thread counts, and others read at any time.
struct StepCounters {
  std::atomic<int64_t> kv_used_pages = 0;
  std::atomic<int64_t> steps = 0;
  std::atomic<int64_t> generated_tokens = 0;
  std::atomic<int64_t> prompt_tokens = 0;
  std::atomic<int64_t> cached_tokens = 0;
  std::atomic<int64_t> draft_tokens = 0;
  std::atomic<int64_t> accepted_draft_tokens = 0;
  std::atomic<int64_t> preemptions = 0;
};

// The step thread takes `mu` once between two steps (Prepare), and again where
// a stream came, ended or was parked; never in a step. Lock order: `mu` is
// never held while a sink is called.
struct Engine::Impl {
  Impl(const planner::ModelShape& s, std::vector<EnginePart> p,
       const EngineOptions& o)
      : shape(s),
        parts(std::move(p)),
        plan(parts.front().plan),
        options(o),
        has_host(AnyOnHost(parts)),
        shares_pool(plan.kv.n_pages <
                    plan.options.n_slots * plan.kv.pages_per_slot),
        pool(PoolThreads(has_host, o.n_threads), /*pin=*/has_host),
        prompt_budget(plan.options.n_slots, o.prompt_share),
        scheduler(plan.options.n_slots, plan.n_rows, o.max_queued, plan.n_ctx),
        sessions(MostSessions(plan)) {}

  // What Engine::Load does, in this order.
  absl::Status OpenDevices();
  ModelParts PartsOf(const Stage& stage) const;
  absl::Status Allocate(const LoadFence& fence);
  // Makes room for contexts that wait, in host memory.
  absl::Status AllocateParked();
  absl::Status BuildModels(ModelFile& file);
  absl::Status FillWeights(ModelFile& file, const LoadFence& fence);
  absl::Status MakeReady();
  absl::Status Start();

  void StepLoop();
  // Waits until there may be something to do. False at the end.
  bool AwaitWork();
  // Ends abandoned and late streams, offers parked output again.
  void Sweep();
  // Sets `scheduled` to the rows of the next step, after all that changes who
  // may have some. False at the end.
  bool Prepare();
  // Gives free slots to those that wait, with what is there of their prompts,
  // and those of others that they have waited for too long for.
  void Admit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Takes the slot of an idle session, or of a stream whose slice ends. False
  // if there is none.
  bool FreeSlotForNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // True if it can go on to the bit as it would have after its slot was taken:
  // by computing its context again, or from a copy of it.
  bool CanGiveSlotUp(const Sequence& sequence) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Copies the context of a running sequence, if nothing else brings it back.
  // False if there is no room, or the copy failed.
  bool Park(const Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Takes what a running sequence has in its slot; it can compute it again.
  void Drop(Sequence& sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Nullopt if there are too few pages.
  std::optional<Admission> Begin(Sequence& sequence, int64_t slot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Pages that a sequence in a slot will need and does not have.
  int64_t PagesToCome(const Sequence& sequence, int64_t slot) const;
  // The claims of all slots that are taken. Holds until it is asked again.
  std::span<const PageClaim> PageClaims() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Whether there are pages for a sequence that could have an empty slot.
  bool HasPagesFor(const Sequence& sequence, int64_t slot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Has the newest sequences begin again later where pages run out.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Lets others share what a sequence has computed.
  void Publish(const Sequence& sequence, int64_t slot);
  // From and to as of KvCache::Rings, on all devices.
  absl::Status CopyRings(int64_t from, int64_t to);
  // Keeps rings of sequences that are where they should be kept.
  void KeepRings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Makes room in contexts that are full.
  void RollFull() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Roll(Sequence& sequence, int64_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Guesses what comes next, where that was asked for.
  void GuessTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Takes back the rows of guesses that were wrong.
  void RejectDrafts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Tokens that may be guessed without a page for them.
  int64_t RoomForDraft(const Sequence& sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Both before anybody sees what the step brings.
  void CountPages();
  void CountRows();
  // Steps of no request, one of each kind that decodes, with guesses and
  // without, and one of each number of sequences up to 16: what a device makes
  // for the first of a kind, its graphs, is made before the model is ready.
  // Before them a prompt. Nothing is left of them.
  absl::Status WarmUp();
  absl::Status WarmUp(int64_t n_slots);  // that have pages
  absl::Status WarmUpPrompts();
  // Runs a step and measures it for the next ones' prompt rows. False if the
  // device is lost: no step can come any more.
  bool TimeStep();
  bool RunStep();
  // Ends every stream, and refuses new ones.
  void LoseDevice(const absl::Status& error);
  // Why nothing is taken any more; what was admitted is taken while it drains.
  // Errors: kUnavailable.
  absl::Status CheckOpen(bool is_admitted = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  absl::Status BuildBatch();
  // Draws the tokens of the batch's sampled rows.
  absl::Status SampleRows();
  // Those of one sequence, whose first sampled row is `first_sampled`: as long
  // as the guesses are what is drawn. The others' rows are taken back.
  absl::Status DrawTokens(ScheduledRows& rows, Sequence& sequence,
                          int64_t first_sampled);
  // Moves `n_rows` of a slot's drafts from `first_position` on into its rings.
  absl::Status KeepDrafts(int64_t slot, int64_t first_position, int64_t n_rows);
  absl::Status KeepDraftsOf(kernels::Backend& of, int64_t layer, int64_t slot,
                            int64_t first_position, int64_t n_rows);
  // Log-probabilities of prompt tokens, where asked for. Replaces the logits.
  absl::Status ScorePrompts();
  void Settle(Sequence& sequence);
  // Gives its context back to its session and its slot to whoever is next.
  void Leave(Sequence& sequence);
  void FreeSessionSlots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // What the reply's tokens may be; null for any.
  std::unique_ptr<TokenMask> NewMask(const GenerateOptions& request);
  // Made when the first request with a constraint comes.
  const TokenIndex& Index();
  absl::Status SubmitMessage(GenerateOptions options,
                             std::shared_ptr<TokenSink> sink);
  // Has the next sweep end the call of a session that is closed.
  void EndCallOf(int64_t session, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Has a sequence wait for a slot; where the queue is full, in place of one of
  // a tenant that has more of it.
  absl::Status Queue(int64_t id, int64_t n_prompt, const Claim& claim,
                     Waits how) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Makes a sequence known that the scheduler has.
  void Insert(int64_t id, GenerateOptions options, SequenceStart start,
              std::shared_ptr<TokenSink> sink)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Of a session that is there.
  SessionInfo Describe(int64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Has the next sweep end the streams whose request id is `wanted`.
  std::vector<std::string> Abort(
      absl::FunctionRef<bool(const std::string&)> wanted,
      const absl::Status& status);
  // With what was said of them since. Holds until it is asked again.
  const std::vector<Sequence*>& AllSequences();

  const planner::ModelShape shape;
  const std::vector<EnginePart> parts;
  const planner::MemoryPlan& plan;  // the first part's
  const EngineOptions options;
  const bool has_host;     // a part is the CPU's
  const bool shares_pool;  // of pages, smaller than all slots together
  kernels::ThreadPool pool;
  std::vector<Stage> stages;  // of the parts
  // Of the last stage, which has the logits.
  kernels::Backend* backend = nullptr;
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<ParkedContexts> parked;  // step thread only, with `mu`
  std::unique_ptr<Model> model;            // all stages
  std::unique_ptr<RowSampler> row_sampler;
  std::unique_ptr<PromptScorer> scorer;
  std::unique_ptr<Tokenizer> tokenizer;
  int64_t kv_pages = 0;

  // When the step thread began what it is at, in nanoseconds of the clock.
  static constexpr int64_t kWaits = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> step_began = kWaits;

  // Step thread only. What they hold is of one step, their room of all: a step
  // allocates nothing.
  PromptBudget prompt_budget;
  std::vector<Sequence*> all_sequences;
  std::vector<ScheduledRows> scheduled;
  std::vector<Sequence*> scheduled_sequences;  // of each of these
  StepBatch batch;
  std::vector<DrawRequest> draws;  // of its sampled rows
  ScoredRows scored;               // of one of its prompts
  std::vector<PromptScore> scores;
  std::vector<PageClaim> page_claims;
  std::vector<int32_t> newest_tokens;  // that guesses are looked up in
  // Of the rows of guesses that are kept.
  std::vector<int64_t> draft_offsets;
  std::vector<int64_t> ring_offsets;

  absl::Mutex index_mu;
  std::unique_ptr<TokenIndex> token_index ABSL_GUARDED_BY(index_mu);

  StepCounters counters;
  // Sequences came, went or are to be aborted since the step thread looked; set
  // with `mu`.
  std::atomic<bool> has_news = false;

  mutable absl::Mutex mu;
  Scheduler scheduler ABSL_GUARDED_BY(mu);
  SessionBook sessions ABSL_GUARDED_BY(mu);
  std::map<int64_t, std::unique_ptr<Sequence>> sequences ABSL_GUARDED_BY(mu);
  int64_t next_id ABSL_GUARDED_BY(mu) = 1;
  bool woken ABSL_GUARDED_BY(mu) = false;
  bool draining ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  absl::Status lost ABSL_GUARDED_BY(mu);  // once the device is
  std::map<int64_t, absl::Status> aborts ABSL_GUARDED_BY(mu);  // by id

  std::thread thread;  // last: it uses everything above
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_IMPL_H_
