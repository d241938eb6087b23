// One call for text, from its submission to its end: the bridge from an
// engine's step thread to a transport.
#ifndef PLIMSOLL_SERVICES_GENERATION_GENERATION_CALL_H_
#define PLIMSOLL_SERVICES_GENERATION_GENERATION_CALL_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/sync/steady_mutex.h"
#include "services/generation/generation.h"
#include "services/generation/served_model.h"
#include "services/generation/token_bytes.h"
#include "services/host/clock.h"
#include "services/tracing/request_trace.h"
#include "services/wire/chat_tools.h"
#include "services/wire/generation_to_proto.h"
#include "services/wire/to_proto.h"
#include "worker/engine/token_sink.h"

namespace plimsoll::services {

// A transport derives from it, takes the output of each step in Deliver and
// ends its reply in Complete. Both run on the step thread, so they must not
// block. The engine holds a reference until Complete. Thread-safe.
class GenerationCall : public worker::TokenSink {
 public:
  // The engine's step thread calls these.
  bool OnOutput(worker::StepOutput& output) final ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(const absl::Status& status, const worker::FinishInfo& info) final
      ABSL_LOCKS_EXCLUDED(mu_);
  bool Abandoned() const final ABSL_LOCKS_EXCLUDED(mu_);

  // Says that nobody reads any more: output is dropped from now on, and the
  // engine ends the sequence.
  void Abandon() ABSL_LOCKS_EXCLUDED(mu_);

 protected:
  // `start` is the time at which the request came, by BootTime(). `trace` gets
  // the spans of its replies; null: there are none.
  explicit GenerationCall(absl::Time start,
                          std::shared_ptr<RequestTrace> trace = nullptr)
      : start_(start), trace_(std::move(trace)) {}

  // Submits a sequence. Its output comes to `self`, which is this call.
  // Errors: those of services::Submit; OnEnd is then never called.
  absl::Status Submit(Generation generation,
                      std::shared_ptr<GenerationCall> self)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Takes the output of a step and returns true. Returns false and leaves the
  // output alone if there is no room now; Engine::Wake makes the engine offer
  // it again.
  virtual bool Deliver(worker::StepOutput& output)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) = 0;
  // Called when the sequence has ended. Returns false if the call goes on with
  // another sequence.
  virtual bool Complete(const absl::Status& status,
                        const worker::FinishInfo& info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) = 0;

  // An upper bound for the bytes of a step's output on the wire.
  int64_t SizeOf(const worker::StepOutput& output) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Appends a step's output to a reply or to a part of a reply: text, reasoning
  // and the tool calls that it completes.
  template <typename Message>
  void AppendTo(const worker::StepOutput& output, Message& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int n_before = message.tokens_size();
    AppendOutput(output, message);
    if (has_token_bytes_) {
      AddTokenBytes(model_.engine->tokenizer(), n_before,
                    *message.mutable_tokens());
    }
    tools_.Append(output, message);
  }
  // Ends a reply: adds a tool call that the end cut off to `message`, and the
  // finish reason, timing and usage to `finish`. Both may be the same message.
  template <typename Message, typename Finish>
  void EndReply(const worker::FinishInfo& info, Message& message,
                Finish& finish) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Time start_;
  const std::shared_ptr<RequestTrace> trace_;
  mutable SteadyMutex mu_;
  ServedModel model_ ABSL_GUARDED_BY(mu_);  // from Submit to the end
  bool is_abandoned_ ABSL_GUARDED_BY(mu_) = false;

 private:
  bool has_token_bytes_ ABSL_GUARDED_BY(mu_) = false;
  // It reads the model's tokenizer, so it is only used until the end.
  ReplyTools tools_ ABSL_GUARDED_BY(mu_);
};

template <typename Message, typename Finish>
void GenerationCall::EndReply(const worker::FinishInfo& info, Message& message,
                              Finish& finish) {
  finish.set_finish_reason(tools_.End(info, message));
  if (info.reason == worker::FinishReason::kStopString) {
    finish.set_stop_string(info.stop_string);
  }
  *finish.mutable_timing() = TimingToProto(info, BootTime() - start_);
  *finish.mutable_usage() = UsageToProto(info);
  if (const auto n_tokens = tools_.reasoning_tokens()) {
    finish.mutable_usage()->set_reasoning_tokens(ToUint32(*n_tokens));
  }
  *finish.mutable_memory() = ToProto(model_.engine->Memory());
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_GENERATION_CALL_H_
