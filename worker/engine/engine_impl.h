// The inside of an engine: its lock, its step thread, and the objects that they
// work on. Only engine.cc and engine_impl.cc include this header.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_IMPL_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_IMPL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/sync/progress_mark.h"
#include "base/sync/steady_mutex.h"
#include "worker/engine/contexts.h"
#include "worker/engine/drafts.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_resources.h"
#include "worker/engine/mask_maker.h"
#include "worker/engine/scheduled_step.h"
#include "worker/engine/sequence.h"
#include "worker/engine/step_counters.h"
#include "worker/engine/step_planner.h"
#include "worker/engine/step_runner.h"
#include "worker/engine/stream_book.h"

namespace plimsoll::worker {

// Clients take `mu_` to add, abort or ask about streams. The step thread takes
// it once between two steps to plan the next one, and again where a stream has
// come, ended or was parked; never within a step. `mu_` is never held while a
// sink is called.
class Engine::Impl {
 public:
  Impl(EngineResources resources, const EngineOptions& options);
  // Stops the step thread. Every stream ends with kUnavailable.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Starts the step thread. Called once, before anything below.
  absl::Status Start();

  // These functions are described in engine.h.
  absl::Status Submit(GenerateOptions request, std::shared_ptr<TokenSink> sink)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Reports the result of a Submit to the observer.
  void ReportSubmit(const absl::Status& status);
  int64_t MaxSessions() const;
  absl::StatusOr<SessionInfo> OpenSession(SessionOptions session)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<SessionInfo> GetSession(absl::string_view id,
                                         absl::string_view owner)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool KeepsTexts(absl::string_view id) const ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<SessionInfo> Sessions(absl::string_view owner)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CloseSession(absl::string_view id, absl::string_view owner)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Wake() ABSL_LOCKS_EXCLUDED(mu_);
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  bool Idle() const ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the streams whose request id is `wanted`, and returns their ids.
  std::vector<std::string> Abort(
      absl::FunctionRef<bool(const std::string&)> wanted,
      const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  EngineLoad CurrentLoad() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Duration StepAge() const { return step_mark_.Age(); }
  absl::Duration StallTime() const { return step_mark_.StallTime(); }
  std::vector<RequestInfo> Requests(size_t max) const ABSL_LOCKS_EXCLUDED(mu_);

  // The objects that the load made. Only the step thread changes them.
  const EngineResources& resources() const { return resources_; }
  ConstraintCache& constraints() { return constraints_; }

 private:
  // EngineLoad::kv_reserved_pages.
  std::optional<int64_t> ReservedPages() const;
  absl::Status SubmitMessage(GenerateOptions request,
                             std::shared_ptr<TokenSink> sink)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Errors: kUnavailable if the engine takes no request any more. A draining
  // engine still takes what belongs to a call that was admitted.
  enum class Entry { kNew, kAdmitted };
  absl::Status CheckOpen(Entry entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the step thread that streams came or are to end.
  void TellNews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The rest runs on the step thread.
  void StepLoop() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until there may be something to do. Returns false at the end.
  bool AwaitWork() ABSL_LOCKS_EXCLUDED(mu_);
  // Ends abandoned and late streams, and offers held-back output again.
  void Sweep() ABSL_LOCKS_EXCLUDED(mu_);
  // Plans a step of the streams that Sweep has seen and left: a stream that
  // comes late computes no row. Returns false at the end.
  bool PlanStep() ABSL_LOCKS_EXCLUDED(mu_);
  // Runs the planned step. Returns false if a device is lost: no step can come
  // any more.
  bool RunStep() ABSL_LOCKS_EXCLUDED(mu_);
  // Offers a stream's output to its sink. Ends the stream if that was all, and
  // parks it if its reader is behind.
  void FlushParkOrFinish(Sequence& sequence) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends a stream that the book has removed already, or is about to remove.
  void Finish(Sequence& sequence);
  // Tells the observer of the step.
  void ReportStep(absl::Duration time);
  // Ends every stream and refuses new ones.
  void LoseDevice(const absl::Status& error) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends every stream, as the engine goes away.
  void EndAll() ABSL_LOCKS_EXCLUDED(mu_);
  // Passes pending aborts to the streams, and returns all streams. Valid until
  // the next call.
  const std::vector<Sequence*>& AllSequences() ABSL_LOCKS_EXCLUDED(mu_);

  EngineResources resources_;
  const EngineOptions options_;
  const int64_t slot_bytes_;  // KV cache bytes of one session
  StepCounters counters_;
  ProgressMark step_mark_;  // progress of the step that runs
  MaskMaker masks_;
  ConstraintCache constraints_;

  // Used by the step thread only.
  Contexts contexts_;
  Drafts drafts_;
  StepPlanner planner_;
  StepRunner runner_;
  ScheduledStep step_;
  std::vector<Sequence*> all_sequences_;

  // Streams came, went or are to end since the step thread last listed them.
  // Set while `mu_` is held.
  std::atomic<bool> has_news_ = false;

  mutable SteadyMutex mu_;
  StreamBook book_ ABSL_GUARDED_BY(mu_);
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status lost_ ABSL_GUARDED_BY(mu_);  // not OK once a device is lost

  std::thread thread_;  // last, because it uses everything above
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_IMPL_H_
