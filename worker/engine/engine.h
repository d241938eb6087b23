// One loaded model that serves many streams. An engine owns the arena, the
// model, the KV cache, the scheduler and the one step thread.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planner/layout/memory_plan.h"
#include "worker/device/load_fence.h"
#include "worker/device/model_file.h"
#include "worker/engine/engine_options.h"
#include "worker/engine/engine_reports.h"
#include "worker/engine/generate_options.h"
#include "worker/engine/session_info.h"
#include "worker/engine/token_sink.h"
#include "worker/graph/engine_part.h"
#include "worker/text/schema/constraint.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// Thread-safe, except for construction and destruction.
class Engine {
 public:
  // Loads a model that lies on one device. Allocates exactly `plan`'s arena and
  // fills it from `file`, which may be closed afterwards. If the plan leaves
  // weights in the mapped file, the engine keeps the mapping. The plan must
  // come from Layout with file.shape() and the profile of options.device.
  // Errors: kResourceExhausted if the plan does not fit or the allocation
  // fails; kDataLoss if the file changed; kUnimplemented for what this build
  // cannot run; what `fence` returned.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(
      ModelFile& file, const planner::MemoryPlan& plan,
      const EngineOptions& options, const LoadFence& fence);
  // Loads a model whose layers lie on several devices. Each part gets an arena
  // of its own, and the rows of a step pass the parts in order. options.device
  // is not used.
  // Errors: those above; kInvalidArgument if the parts are not all layers in
  // order, if a layer reads keys and values of another part, or if the plans
  // are of other layers or differ in context or options.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(
      ModelFile& file, std::vector<EnginePart> parts,
      const EngineOptions& options, const LoadFence& fence);
  // Ends every stream with kUnavailable.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request whose output goes to `sink` (shared, because the stream's
  // reader and the step thread both end its life). After an error `sink` is
  // never called.
  // Errors: kInvalidArgument naming the field; kOutOfRange if the prompt is
  // longer than a context that does not roll, with both numbers;
  // kResourceExhausted if the queue is full; kUnavailable while draining;
  // kNotFound if there is no such session; kFailedPrecondition if another call
  // of the session has not ended; kDataLoss if the model is mapped and its file
  // was changed.
  // A request that waits ends with kAborted if the queue is full and a tenant
  // with less of the queue needs its place.
  absl::Status Submit(GenerateOptions options, std::shared_ptr<TokenSink> sink);
  // How many sessions may be open. If there are several slots, one stays free
  // for requests without a session.
  int64_t MaxSessions() const;
  // Opens a session. Its first call waits for a slot, as any request does. The
  // session then keeps the slot until others wait for one while it is idle; its
  // next call computes what was said again.
  // Errors: kInvalidArgument naming the field; kAlreadyExists if its owner has
  // a session of this id; kResourceExhausted at MaxSessions(), unless a tenant
  // with more sessions has an idle one, which is closed then; kUnavailable
  // while draining.
  absl::StatusOr<SessionInfo> OpenSession(SessionOptions options);
  // Errors: kNotFound, also for another owner's session.
  absl::StatusOr<SessionInfo> GetSession(absl::string_view id,
                                         absl::string_view owner) const;
  // True if a session of this id, whoever owns it, keeps texts: its messages
  // take long to render.
  bool KeepsTexts(absl::string_view id) const;
  // The owner's sessions, the oldest first.
  std::vector<SessionInfo> Sessions(absl::string_view owner) const;
  // Closes a session and frees its slot. A call of it ends with kCancelled.
  // Errors: kNotFound.
  absl::Status CloseSession(absl::string_view id, absl::string_view owner);

  // Makes the step thread look at parked and abandoned streams again.
  void Wake();
  // Refuses new requests from now on.
  void Drain();
  // True when nothing runs or waits.
  bool Idle() const;
  // Ends every stream with `status`, even if its last output has not been read
  // yet. The slots are free within two steps. Later streams are not affected.
  // Returns the streams' request ids.
  std::vector<std::string> AbortAll(const absl::Status& status);
  // Ends the streams that have one of these request ids, in the same way. An
  // empty id matches no stream.
  std::vector<std::string> Abort(const std::vector<std::string>& request_ids,
                                 const absl::Status& status);

  const Tokenizer& tokenizer() const;
  // Constraints that were compiled for this engine's requests.
  ConstraintCache& constraints();
  // The first part's plan. Its context and options are those of every part.
  const planner::MemoryPlan& plan() const;
  const std::vector<EnginePart>& parts() const;
  // Tokens that fit in one slot's context.
  int64_t n_ctx() const;
  // The memory of all parts together, and of one.
  MemoryReport Memory() const;
  MemoryReport MemoryOf(size_t part) const;
  EngineLoad CurrentLoad() const;
  // How long the current step has taken so far; 0 between steps. Never waits
  // for the step thread.
  absl::Duration StepAge() const;
  // How long ago the current step last finished a part of a layer, or began; 0
  // between steps. Never waits for the step thread. On a device that computes
  // beside the host it is the time since the host last gave it work.
  absl::Duration StallTime() const;
  // At most `max` streams that run or wait, the oldest first.
  std::vector<RequestInfo> Requests(size_t max) const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_H_
