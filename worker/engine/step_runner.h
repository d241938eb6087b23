// Computes one step: the batch, the drawn tokens, the prompts' scores.
#ifndef PLIMSOLL_WORKER_ENGINE_STEP_RUNNER_H_
#define PLIMSOLL_WORKER_ENGINE_STEP_RUNNER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/sync/progress_mark.h"
#include "worker/cache/kv_cache.h"
#include "worker/engine/contexts.h"
#include "worker/engine/drafts.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/scheduled_step.h"
#include "worker/engine/sequence.h"
#include "worker/engine/step_counters.h"
#include "worker/graph/model.h"
#include "worker/sampling/prompt_scorer.h"
#include "worker/sampling/row_sampler.h"
#include "worker/sampling/token_output.h"

namespace plimsoll::worker {

// Runs the steps that StepPlanner schedules. Owned by the engine, used from the
// step thread only. Holds no lock, and keeps its scratch between steps, so that
// a step allocates nothing.
class StepRunner {
 public:
  // The engine's objects that a step works on. They outlive the runner.
  struct Tools {
    EngineResources& resources;
    Contexts& contexts;
    Drafts& drafts;
    StepCounters& counters;
    ProgressMark& progress;  // touched within a step
    const std::function<absl::Time()>& clock;
  };
  explicit StepRunner(const Tools& tools);

  // Computes the step's rows and gives each sequence what they bring. Sets
  // n_rejected of the rows whose guesses were wrong. If anything but a lost
  // device goes wrong, the step's sequences end with kInternal.
  // Errors: kUnavailable if a device is lost; then nothing was counted.
  absl::Status Run(ScheduledStep& step);

 private:
  absl::Status Compute(ScheduledStep& step);
  // Makes `batch_` of the step's rows, and `draws_` of its sampled rows.
  absl::Status BuildBatch(const ScheduledStep& step);
  // Appends the rows of one sequence.
  absl::Status AppendRows(const ScheduledRows& rows, const Sequence& sequence);
  // Draws a token for each sampled row.
  absl::Status SampleRows(ScheduledStep& step);
  // Draws the tokens of one sequence, whose first sampled row is
  // `first_sampled`, until a token differs from its guess. The rows behind that
  // are taken back.
  absl::Status DrawTokens(ScheduledRows& rows, Sequence& sequence,
                          int64_t first_sampled);
  // Keeps the guesses that were right, and counts.
  absl::Status KeepDrafts(ScheduledRows& rows, Sequence& sequence,
                          int64_t n_right);
  // Scores the prompt tokens of requests that ask for scores. Replaces the
  // logits.
  absl::Status ScorePrompts(const ScheduledStep& step);
  void CountRows(const ScheduledStep& step);

  const Tokenizer& tokenizer_;
  const KvCache& cache_;
  Model& model_;
  kernels::Backend& backend_;  // the logits are here
  Contexts& contexts_;
  Drafts& drafts_;
  StepCounters& counters_;
  const std::function<absl::Time()>& clock_;
  const int64_t n_ctx_;

  RowSampler sampler_;
  PromptScorer scorer_;
  StepBatch batch_;
  std::vector<DrawRequest> draws_;  // one for each sampled row
  ScoredRows scored_;               // rows of the prompt at hand
  std::vector<PromptScore> scores_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_STEP_RUNNER_H_
