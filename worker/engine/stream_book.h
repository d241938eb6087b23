// The streams and sessions of an engine: who waits, who runs, who is to end.
#ifndef PLIMSOLL_WORKER_ENGINE_STREAM_BOOK_H_
#define PLIMSOLL_WORKER_ENGINE_STREAM_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/engine/engine_reports.h"
#include "worker/engine/sequence.h"
#include "worker/engine/session_book.h"
#include "worker/scheduling/scheduler.h"
#include "worker/text/grammar/token_mask.h"
#include "worker/text/tokenizer/tokenizer.h"

namespace plimsoll::worker {

// A state machine without thread, clock or device; not thread-safe. The engine
// guards it with its one lock: clients add and abort streams at any time, and
// StepPlanner moves them between two steps.
class StreamBook {
 public:
  struct Limits {
    int64_t n_slots;
    int64_t n_rows;      // a step's rows
    int64_t max_queued;  // streams that wait for a slot
    int64_t max_sessions;
    int64_t n_ctx;  // the most that a stream computes again
  };
  explicit StreamBook(const Limits& limits)
      : scheduler_(limits.n_slots, limits.n_rows, limits.max_queued,
                   limits.n_ctx),
        sessions_(limits.max_sessions) {}

  // Queues a stream without a session. If the queue is full, a waiting stream
  // of a tenant with more places in the queue may be ended instead.
  // Errors: kResourceExhausted if the queue is full.
  absl::Status Add(Arrival arrival, SequenceStart start);
  // Adds the stream that answers a message to the request's session, within
  // `mask` unless that is null. It runs at once where the session still has a
  // slot.
  // Errors: kNotFound if there is no such session; kFailedPrecondition if it is
  // busy, or if its chat is not what was rendered; kOutOfRange if the message
  // is too long for its context; kResourceExhausted if the queue is full.
  absl::Status AddMessage(Arrival arrival, std::unique_ptr<TokenMask> mask,
                          const Tokenizer& tokenizer);

  // Has the streams whose request id is `wanted` end with `status`, when List
  // is called next. Returns their request ids.
  std::vector<std::string> Abort(
      absl::FunctionRef<bool(const std::string&)> wanted,
      const absl::Status& status);
  // Opens a session and returns its key. Another one may be closed for it
  // (SessionBook::Open); the stream of that one ends with kNotFound.
  // Errors: those of SessionBook::Open.
  absl::StatusOr<int64_t> OpenSession(SessionOptions options,
                                      const RollPlan& roll, absl::Time now);
  // Closes a session. Its stream, if there is one, ends with kCancelled.
  void CloseSession(int64_t key);

  bool empty() const { return sequences_.empty(); }
  // At most `max` streams, the oldest first.
  std::vector<RequestInfo> Requests(size_t max, absl::Time now) const;

  // Sets `sequences` to all streams, the oldest first, after ending those that
  // were aborted.
  void List(std::vector<Sequence*>& sequences);
  // Takes a stream out. Requires that the scheduler does not have it any more.
  std::unique_ptr<Sequence> Take(int64_t id);
  // Destroys all streams.
  void Clear() { sequences_.clear(); }

  // Streams by id, the oldest first.
  const std::map<int64_t, std::unique_ptr<Sequence>>& sequences() const {
    return sequences_;
  }
  // Requires that the stream is there.
  Sequence& Get(int64_t id) const { return *sequences_.at(id); }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  SessionBook& sessions() { return sessions_; }
  const SessionBook& sessions() const { return sessions_; }

 private:
  // Has the scheduler queue a stream, and makes room for it in a full queue.
  absl::Status Queue(int64_t id, int64_t n_prompt, const Claim& claim,
                     Waits how);
  // Adds a stream, once `schedule` has given it to the scheduler by its new id.
  // Errors: those of `schedule`. After one, and without memory
  // (std::bad_alloc), the stream is not kept; one that gave way to it stays
  // ended.
  absl::Status Insert(
      Arrival arrival, SequenceStart start,
      absl::FunctionRef<absl::Status(int64_t id, const Claim& claim)> schedule);
  // Queues the stream of a message to `session`, which has texts.
  absl::Status AddRendered(Session& session, Arrival arrival,
                           SequenceStart start);
  // Has the stream of a closed session end, when List is called next.
  void EndStreamOf(int64_t session, const absl::Status& status);

  Scheduler scheduler_;
  SessionBook sessions_;
  std::map<int64_t, std::unique_ptr<Sequence>> sequences_;  // by id
  std::map<int64_t, absl::Status> aborts_;                  // by id
  int64_t next_id_ = 1;
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_STREAM_BOOK_H_
