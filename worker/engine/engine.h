// One loaded model that serves many streams: owns the arena, the model, the KV
// cache, the scheduler and the one step thread.
#ifndef PLIMSOLL_WORKER_ENGINE_ENGINE_H_
#define PLIMSOLL_WORKER_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "planner/layout/memory_plan.h"
#include "worker/cache/roll_plan.h"
#include "worker/device/load_fence.h"
#include "worker/device/model_file.h"
#include "worker/device/precision.h"
#include "worker/graph/engine_part.h"
#include "worker/sampling/logit_bias.h"
#include "worker/sampling/sampler.h"
#include "worker/sampling/token_output.h"
#include "worker/scheduling/fair_queue.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/tool_reader.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

class ComputeDevice;
struct Grammar;

// One request, already tokenised.
struct GenerateOptions {
  // Limits; each has a test at it and one past it.
  static constexpr int kMaxStopStrings = 16;
  static constexpr int64_t kMaxStopStringBytes = 256;
  static constexpr int kMaxStopTokens = 64;
  static constexpr int kMaxTopLogprobs = 64;
  static constexpr int64_t kMaxRequestIdBytes = 128;

  std::vector<int32_t> prompt_ids;
  std::string request_id;  // for Abort and Requests; need not be unique
  int64_t max_tokens = 0;  // 0 = until the context is full
  SamplingOptions sampling;
  LogitBiasOptions logit_bias;
  std::vector<std::string> stop_strings;  // not part of the text
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;  // end tokens do not end it (and are not masked)
  // What the reply must be a text of; null = anything. It is then ended by an
  // end token, which is drawn where the text is complete and nowhere else.
  std::shared_ptr<const Grammar> constraint;
  // The markers of tool calls, which are then no part of the text. The tokens
  // are reported all the same.
  std::optional<ToolMarkers> tool_markers;
  // Candidates per token; -1 = neither candidates nor log-probabilities, 0 =
  // only the chosen token's log-probability.
  int top_logprobs = -1;
  // Whether the log-probabilities of the prompt's tokens are given, from the
  // one of index first_scored, at least 1, on.
  bool prompt_logprobs = false;
  int64_t first_scored = 1;
  // Tokens guessed from the text so far that a step may verify beside the one
  // that is known, at most the plan's n_draft; 0 = none. Which tokens are drawn
  // does not depend on it.
  int64_t draft_tokens = 0;
  RollOptions roll;  // what happens when the context is full
  absl::Time deadline = absl::InfiniteFuture();  // on the engine's clock
  Claim claim;                                   // whose it is
  // It goes on with a call of which a request has ended well: no limit of the
  // queue refuses it, it is the next one of its tenant and priority, and a
  // model that drains takes it.
  bool is_admitted = false;
  // The session, of the claim's tenant, that prompt_ids are the content of a
  // user's message to; the context is the session's then, and how it rolls too.
  // Empty = none.
  std::string session_id;
};

// A chat whose context stays between calls. It always rolls; whole turns leave,
// a user's message with its reply.
struct SessionOptions {
  static constexpr int64_t kMaxIdBytes = 128;
  static constexpr absl::Duration kDefaultTtl = absl::Minutes(30);
  static constexpr absl::Duration kMaxTtl = absl::Hours(30 * 24);

  std::string id;         // 1 to kMaxIdBytes bytes
  std::string owner;      // a tenant; others do not see it
  std::string peer = {};  // where it was opened from, as of Claim
  ChatFormat format = ChatFormat::kChatMl;
  ChatFrame frame;  // of the format; its opening is pinned
  RollMethod roll_method = RollMethod::kShift;
  std::optional<int64_t> evict_to;   // as of GenerateOptions
  absl::Duration ttl = kDefaultTtl;  // it is closed so long after a call
};

struct SessionInfo {
  std::string id;
  ChatFormat format;
  bool is_busy;             // a call runs or waits
  int64_t n_turns;          // begun, those that left included
  int64_t n_live_turns;     // of which a token is in the context
  int64_t n_tokens;         // all, those that left included
  int64_t n_live_tokens;    // in the context, pinned ones included
  int64_t n_pinned_tokens;  // that never leave
  int64_t capacity_tokens;  // of the context
  int64_t n_evictions;
  int64_t n_evicted;       // tokens
  int64_t reserved_bytes;  // of the KV cache
  absl::Duration age;
  absl::Duration idle;  // since its last call ended; 0 while one runs
  absl::Duration ttl;
};

// Tokens that left a full context. Positions count all tokens of the stream, or
// of the session, prompt and generated, from 0, those that have left too.
struct Eviction {
  int64_t position;  // of the first one that left
  int64_t n_tokens;  // [position, position + n_tokens) left
  int64_t n_turns;   // whole turns among them
  int64_t n_kept;    // tokens still attended, pinned ones included
  RollMethod method;
};

// What a step brought one stream. `text` is valid UTF-8 and may be empty while
// a code point or a possible stop string is held back.
struct StepOutput {
  std::string text;
  std::vector<TokenOutput> tokens;
  std::vector<Eviction> evictions;         // before `tokens` were generated
  std::vector<PromptScore> prompt_scores;  // of the next tokens asked for
};

enum class FinishReason {
  kUnknown,
  kEndToken,    // the model ended it
  kStopToken,   // one of stop_tokens
  kStopString,  // one of stop_strings
  kMaxTokens,   // max_tokens reached
  kLength,      // the context is full
};

struct FinishInfo {
  FinishReason reason = FinishReason::kUnknown;
  std::string stop_string;  // the one that matched
  int64_t n_prompt = 0;     // tokens of the context before the reply
  int64_t n_cached = 0;     // of these, computed by earlier calls
  int64_t n_generated = 0;
  int64_t n_drafted = 0;   // guessed tokens that were computed
  int64_t n_accepted = 0;  // of these, that were right
  int64_t n_evictions = 0;
  int64_t n_evicted = 0;       // tokens
  absl::Duration queued;       // until its first row was computed
  absl::Duration first_token;  // from Submit
  absl::Duration prefill;
  absl::Duration decode;
};

// Where a stream's output goes. Called from the step thread; must not block.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // Takes the output and returns true, or leaves it and returns false if the
  // reader is behind: only this sequence is parked, until Engine::Wake(), and
  // then the same output is offered again.
  virtual bool OnOutput(StepOutput& output) = 0;
  // Called once, last. OK means complete, with the reason in `info`.
  virtual void OnEnd(const absl::Status& status, const FinishInfo& info) = 0;
  // True when nobody reads any more: the slot is freed within two steps.
  virtual bool Abandoned() const = 0;
};

struct EngineOptions {
  static constexpr int kMaxQueued = 64;
  static constexpr int kMaxThreads = 256;
  // Noise stays below a half.
  static constexpr double kPromptShare = 0.47;
  static constexpr double kLeastPromptShare = 0.05;
  static constexpr double kMostPromptShare = 0.9;

  Precision precision = Precision::kDefault;
  // Where a plan of the whole model runs; outlives the engine. Null = this
  // machine's CPU.
  const ComputeDevice* device = nullptr;
  int n_threads = 0;            // of a CPU; to kMaxThreads, 0 = UsableThreads()
  int max_queued = kMaxQueued;  // requests waiting for a slot
  // Of a model in parts: steps pass these in pieces of at least so many rows,
  // so that devices compute at the same time (step_pieces.h); 0 = never.
  // Absent: kPieceRows where the parts lie on different devices. No bit depends
  // on it.
  std::optional<int64_t> piece_rows = std::nullopt;
  // Bytes of the KV cache whose beginnings of prompts are kept to be shared, in
  // pages and only where no sequence needs them; 0 = none.
  int64_t prefix_cache_bytes = std::numeric_limits<int64_t>::max();
  // The part of a step's time that rows of prompts may take while others
  // decode, kLeastPromptShare to kMostPromptShare.
  double prompt_share = kPromptShare;
  std::function<absl::Time()> clock;  // monotonic; required
  // Told of an error of the device after which it does nothing any more
  // (kUnavailable), once, from the step thread; returns what every stream then
  // ends with, and later requests are refused with. Must not block. Null: the
  // error itself.
  std::function<absl::Status(const absl::Status&)> on_device_lost = nullptr;
};

// Of one part, or of all parts together; the process has its memory once.
struct MemoryReport {
  int64_t planned_bytes;    // the arena's
  int64_t allocated_bytes;  // what the device gave for it, less its rounding
  int64_t device_allocations_after_load;
  int64_t peak_rss_bytes;
  int64_t vocab_bytes;   // tokenizer tables, measured
  bool vocab_on_device;  // else they are in the host's memory
  // What the load took of the free bytes that a device with memory of its own
  // reports; others may have used it meanwhile. Absent on the host. Of several
  // parts on a device the first one's is that of all.
  std::optional<int64_t> device_taken_bytes;
};

struct EngineLoad {
  int64_t n_slots;
  int64_t sessions;
  int64_t running;
  int64_t waiting;
  int64_t max_waiting;
  int64_t kv_pages;       // of all slots together
  int64_t kv_used_pages;  // as of the last step
  int64_t steps;
  int64_t generated_tokens;
  int64_t prompt_tokens;          // computed
  int64_t cached_tokens;          // of prompts, that were there already
  int64_t draft_tokens;           // guessed and computed
  int64_t accepted_draft_tokens;  // of these, that were right
  // Sequences that lost a slot, as pages ran out or others waited too long.
  int64_t preemptions;
};

enum class RequestState {
  kWaiting,  // for a slot
  kRunning,
  kParked,  // it holds a slot while its reader is behind
};

// A stream that has not ended.
struct RequestInfo {
  std::string request_id;
  RequestState state;
  int64_t n_prompt;
  int64_t n_generated;
  absl::Duration age;  // since Submit
};

// Thread-safe, but for construction and destruction.
class Engine {
 public:
  // Allocates exactly `plan`'s arena and fills it from `file`, which may be
  // closed afterwards. The plan must come from Layout with file.shape() and
  // the profile of options.device.
  // Errors: kResourceExhausted if the plan does not fit or the allocation
  // fails; kDataLoss if the file changed; kUnimplemented for what this build
  // cannot run; what `fence` returned.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(
      ModelFile& file, const planner::MemoryPlan& plan,
      const EngineOptions& options, const LoadFence& fence);
  // The same for a model whose layers lie on several devices: each part's arena
  // is allocated on its own, and the rows of a step pass the parts in order.
  // options.device says nothing.
  // Errors: also kInvalidArgument if the parts are not all layers in order, if
  // a layer reads keys and values of another part's, or if their plans are of
  // other layers or not of the same context and options.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(
      ModelFile& file, std::vector<EnginePart> parts,
      const EngineOptions& options, const LoadFence& fence);
  // Ends every stream with kUnavailable.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request; its output goes to `sink` (shared because the stream's
  // reader and the step thread both end its life). A refusal is returned and
  // `sink` is never called.
  // Errors: kInvalidArgument naming the field; kOutOfRange if the prompt is
  // longer than a context that does not roll, with both numbers;
  // kResourceExhausted if the queue is full; kUnavailable while draining;
  // kNotFound for a session that is not there; kFailedPrecondition if another
  // call of it has not ended.
  // One that waits ends with kAborted if the queue is full and it gives way to
  // a request of a tenant with less of it.
  absl::Status Submit(GenerateOptions options, std::shared_ptr<TokenSink> sink);
  // The most sessions there may be: where there are several slots, one is left
  // to requests without a session.
  int64_t MaxSessions() const;
  // Begins a chat. Its first call waits for a slot as any request does. The
  // session then keeps the slot, until others wait for one while no call of it
  // runs: what was said stays, and its next call computes it again. Errors:
  // kInvalidArgument naming the field; kAlreadyExists if its owner has one of
  // this id; kResourceExhausted at MaxSessions(), unless a tenant with more has
  // an idle one, which is closed then; kUnavailable while draining.
  absl::StatusOr<SessionInfo> OpenSession(SessionOptions options);
  // Errors: kNotFound, also for the session of another owner.
  absl::StatusOr<SessionInfo> GetSession(absl::string_view id,
                                         absl::string_view owner) const;
  // The owner's, the oldest first.
  std::vector<SessionInfo> Sessions(absl::string_view owner) const;
  // Ends its call, if there is one, with kCancelled, and frees its slot.
  // Errors: kNotFound.
  absl::Status CloseSession(absl::string_view id, absl::string_view owner);

  // Makes the step thread look again at parked and abandoned streams.
  void Wake();
  // Refuses new requests from now on.
  void Drain();
  // True when nothing runs or waits.
  bool Idle() const;
  // Ends every stream with `status`, also one whose last output nobody has read
  // yet: their slots are free within two steps. Later streams are not affected.
  // Returns the streams' request ids.
  std::vector<std::string> AbortAll(const absl::Status& status);
  // The same for the streams with one of these ids; an empty one is nobody's.
  std::vector<std::string> Abort(const std::vector<std::string>& request_ids,
                                 const absl::Status& status);

  const Tokenizer& tokenizer() const;
  // The first part's; the context and the options are those of every part.
  const planner::MemoryPlan& plan() const;
  const std::vector<EnginePart>& parts() const;
  // Tokens that fit in one slot's context.
  int64_t n_ctx() const;
  MemoryReport Memory() const;
  MemoryReport MemoryOf(size_t part) const;
  EngineLoad CurrentLoad() const;
  // How long the step thread has been at the step that it is at; 0 if it waits.
  // Does not wait for it.
  absl::Duration StepAge() const;
  // What runs or waits, the oldest first, at most `max` of them.
  std::vector<RequestInfo> Requests(size_t max) const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_ENGINE_H_
