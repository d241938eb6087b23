// A request for text by HTTP that workers answer.
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

// The calls that run. Thread-safe; it outlives them.
class RemoteCalls {
 public:
  // `call` removes itself.
  void Add(RemoteTextCall* call) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(RemoteTextCall* call) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends all of them with kUnavailable.
  void AbortAll() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Mutex mu_;
  std::set<RemoteTextCall*> calls_ ABSL_GUARDED_BY(mu_);
};

// What calls to workers use. All of it outlives them.
struct RemoteRoom {
  WorkerSet& workers;
  GatewayCounts& counts;
  RemoteCalls& calls;
};

// A choice is a stream of a worker. A call whose client has received nothing
// yet may begin again at another worker.
class RemoteTextCall final : public TextCall {
 public:
  RemoteTextCall(const RemoteRoom& remote, const HttpRoom& room,
                 const TextDialect& dialect, HttpRequest request,
                 std::shared_ptr<HttpReply> reply);
  ~RemoteTextCall() override;

  // Ends it with `status`.
  void Abort(const absl::Status& status) { Break(status); }

 private:
  class Stream;

  absl::Status Begin() override;
  // Errors: kInvalidArgument for what only a process with the model can do.
  absl::Status CheckJob() const;
  absl::Status AddChoices(v1::StreamGenerateRequest prompt);
  // The first message of a stream says how long the prompt is, and what of its
  // constraint says nothing.
  void OnPrompt(const v1::PromptInfo& prompt);

  const RemoteRoom remote_;
  ModelInfo model_;
  absl::once_flag has_format_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GATEWAY_REMOTE_TEXT_CALL_H_
