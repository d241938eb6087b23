// One HTTP request for text, from its body to the end of its reply.
#ifndef PLIMSOLL_SERVICES_HTTP_TEXT_CALL_H_
#define PLIMSOLL_SERVICES_HTTP_TEXT_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/http/http_message.h"
#include "services/http/http_models.h"
#include "services/http/json.h"
#include "services/http/read_room.h"
#include "services/http/response_store.h"
#include "services/http/text_job.h"
#include "services/server/call_gate.h"
#include "services/server/call_stop.h"
#include "services/server/work_pool.h"
#include "services/tracing/request_trace.h"

namespace plimsoll::services {

// The objects that HTTP calls use. All of them must outlive the calls.
struct HttpRoom {
  HttpModels& models;
  CallGate& gate;
  WorkPool& pool;
  ResponseStore& responses;
  // Returns whether the process makes progress, for probes; null: always true.
  // It is called on any thread.
  std::function<bool()> is_alive = nullptr;
};

// How a dialect writes the reply for an error.
using ErrorWriter = HttpResponse (*)(const absl::Status& status);

// How a dialect reads a request and writes a reply.
struct TextDialect {
  absl::StatusOr<TextJob> (*read)(const Json& body, ReadRoom& room);
  std::unique_ptr<ReplyFormat> (*new_format)(const TextJob& job,
                                             ReplyHead head);
  ErrorWriter error;
  // Appends a notice to a stream that its model is being loaded, with the
  // loaded percentage. Null: the dialect has no such notice.
  void (*append_wait)(int percent, std::string& events) = nullptr;
  const char* stream_type = "text/event-stream";
  // If a body contains this text, the server may read more than the body for
  // it. Null: there is no such text.
  const char* asks_for_more = nullptr;
};

bool HasConstraint(const TextJob& job);
// Errors: kInvalidArgument if the job wants a longer context than a slot has.
absl::Status CheckContext(const TextJob& job, const std::string& model,
                          int64_t n_ctx);

// A call has one choice, the source of a reply, for each requested reply. A
// stream's deltas wait in its choices until the server takes them, at most
// kMaxPendingBytes of each, so a client that does not read pauses its own
// choices and no other; a client that goes away ends them. The choices and the
// server's reply share the call. A derived class makes the choices: from an
// engine of this process, or from a worker. Thread-safe.
class TextCall : public EventSource,
                 public std::enable_shared_from_this<TextCall> {
 public:
  // The most bytes of a whole reply, on the wire of plimsoll.v1, that the
  // server's thread composes itself.
  static constexpr int64_t kMaxComposedBytes = 64 << 10;
  // The most bytes of a request's key of affinity; longer keys are cut.
  static constexpr size_t kMaxAffinityBytes = 256;

  // Answers the request of `exchange`. A small request is prepared at once, a
  // large one on the pool.
  static void Start(const HttpRoom& room, const TextDialect& dialect,
                    HttpExchange exchange);

  TextCall(const HttpRoom& room, const TextDialect& dialect,
           HttpExchange exchange);
  ~TextCall() override;

  Events Take() override;
  const char* content_type() const override { return dialect_.stream_type; }

 protected:
  using Delta = ReplyFormat::Delta;

  // The source of one reply. The call owns it. Thread-safe.
  class Choice {
   public:
    virtual ~Choice() = default;
    // Takes the output since the last call, and makes room for more. Returns
    // false if there is no output.
    virtual bool TakeDelta(Delta& delta) = 0;
    // Says that nobody reads any more.
    virtual void Abandon() = 0;
  };

  // Called when the body has been read into `job_`. Adds the choices, at once
  // or later, and calls OnChoiceEnd once more when all choices are added.
  virtual absl::Status Begin() = 0;

  // Notes that the model is being loaded. `percent` returns how much of it is
  // loaded. Until EndWait, a stream reports this now and then, if its dialect
  // can. `percent` is called on the server's thread, while the call exists.
  void BeginWait(std::function<int()> percent);
  // Says that the wait is over and took `time`. It may be called before
  // BeginWait.
  void EndWait(absl::Duration time);
  // Runs `step` at once if `is_small`, else on the pool. Its error ends the
  // call.
  void Run(bool is_small, std::function<absl::Status()> step);
  // Makes the format that writes the reply. `n_prompt` is the number of tokens
  // of the first prompt, and `notes` are the notes on the constraint.
  void MakeFormat(const std::string& model, size_t n_prompt,
                  worker::SchemaNotes notes);
  // Adds a choice before its first output. It counts as open.
  // Errors: kCancelled if the client is gone.
  absl::Status AddChoice(std::unique_ptr<Choice> choice)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Reports that a choice could not start.
  void DropChoice() { --n_open_; }
  // Ends all choices because of `status`, and the reply with it. Begin calls it
  // instead of its last OnChoiceEnd.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Makes all choices end, and then the reply, because of `status`.
  void Break(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Notes that a choice has a delta for the stream.
  void OnDelta();
  // Notes that a choice has ended, or that all choices were added.
  void OnChoiceEnd(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns whether a reply stays in memory until its end.
  bool IsKept() const { return !job_.is_streamed || job_.keeps_reply; }
  ByteBudget& messages() const { return room_.models.messages(); }

  const HttpRoom room_;
  const TextDialect dialect_;
  const absl::Time start_;
  const std::shared_ptr<HttpReply> reply_;
  const std::shared_ptr<CallStop> stop_;
  CallGate::Pass pass_;
  HttpRequest request_;                        // has its body until it is read
  const std::shared_ptr<RequestTrace> trace_;  // null: no spans
  const size_t n_bytes_;                       // size of the body
  // Whether the server's thread reads the body.
  const bool is_inline_;
  TextJob job_;
  std::unique_ptr<ReplyFormat> format_;  // made before the first delta comes
  std::atomic<bool> is_failed_ = false;
  // Bytes of all received deltas, as on the wire of plimsoll.v1.
  std::atomic<int64_t> whole_bytes_ = 0;

 private:
  // Writes the progress of the load into the stream. Returns whether the wait
  // goes on.
  bool SayProgress();
  // Reads the body, and then begins.
  absl::Status Read();
  void AbandonAll() ABSL_LOCKS_EXCLUDED(mu_);
  Choice& ChoiceAt(size_t index) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the reply after all choices have ended.
  void Finish() ABSL_LOCKS_EXCLUDED(mu_);
  void SendWhole() ABSL_LOCKS_EXCLUDED(mu_);
  HttpResponse WholeReply() ABSL_LOCKS_EXCLUDED(mu_);
  // The number of requested replies.
  size_t n_replies() const;

  std::atomic<int> n_open_ = 1;  // unfinished choices, and 1 for Begin
  std::atomic<bool> is_streaming_ = false;
  std::function<int()> percent_;  // progress of the load, from BeginWait on
  std::atomic<bool> has_waited_ = false;
  bool is_notice_due_ = false;  // used by the server's thread only
  absl::Duration load_time_ = absl::ZeroDuration();  // set by EndWait
  absl::Mutex mu_;
  // The list only grows. The choices call this object while they hold their own
  // locks, so `mu_` is never held while a choice is called.
  std::vector<std::unique_ptr<Choice>> choices_ ABSL_GUARDED_BY(mu_);
  bool is_abandoned_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // the first error
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_TEXT_CALL_H_
