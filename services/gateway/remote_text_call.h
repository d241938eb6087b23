// An HTTP request for text that workers answer.
#ifndef PLIMSOLL_SERVICES_GATEWAY_REMOTE_TEXT_CALL_H_
#define PLIMSOLL_SERVICES_GATEWAY_REMOTE_TEXT_CALL_H_

#include <cstddef>
#include <memory>
#include <set>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/gateway/gateway_counts.h"
#include "services/gateway/worker_set.h"
#include "services/http/text_call.h"
#include "services/worker/models/model_info.h"

namespace plimsoll::services {

class RemoteTextCall;

// The running calls. Thread-safe; it outlives the calls.
class RemoteCalls {
 public:
  // `call` later removes itself.
  void Add(RemoteTextCall* call) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(RemoteTextCall* call) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends all of them with kUnavailable.
  void AbortAll() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  std::set<RemoteTextCall*> calls_ ABSL_GUARDED_BY(mu_);
};

// The objects that calls to workers use. They outlive the calls.
struct RemoteRoom {
  WorkerSet& workers;
  GatewayCounts& counts;
  RemoteCalls& calls;
};

// Each choice is one stream of a worker. While the client has received nothing,
// the call may begin again at another worker.
class RemoteTextCall final : public TextCall {
 public:
  RemoteTextCall(const RemoteRoom& remote, const HttpRoom& room,
                 const TextDialect& dialect, HttpExchange exchange);
  ~RemoteTextCall() override;

  // Ends it with `status`.
  void Abort(const absl::Status& status) { Break(status); }

 private:
  class Stream;

  absl::Status Begin() override;
  // Errors: kInvalidArgument for a request that only a process with the model
  // can answer.
  absl::Status CheckJob() const;
  absl::Status AddChoices(v1::StreamGenerateRequest prompt);
  // The first message of a stream has the length of the prompt, and the parts
  // of its constraint that have no effect.
  void OnPrompt(const v1::PromptInfo& prompt);

  const RemoteRoom remote_;
  ModelInfo model_;
  absl::once_flag has_format_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_REMOTE_TEXT_CALL_H_
