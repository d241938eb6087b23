#include "services/http/json_call.h"

#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "services/host/memory_guard.h"
#include "services/host/request_scope.h"
#include "services/http/http_models.h"
#include "services/server/call.h"
#include "services/server/call_gate.h"
#include "services/server/call_stop.h"
#include "services/server/server.h"
#include "services/server/work_pool.h"

namespace plimsoll::services {
namespace {

// A request that waits for its answer.
struct JsonCall {
  HttpRoom room;
  JsonPath path;
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
  CallGate::Pass pass = {};
  // Keeps a model that had to be loaded.
  std::shared_ptr<const void> model = nullptr;
  std::shared_ptr<CallStop> stop = std::make_shared<CallStop>(kUnaryDeadline);
};

absl::StatusOr<Json> Answer(JsonCall& call) {
  ByteBudget::Share& held = call.request.held;
  const auto n_bytes = static_cast<int64_t>(call.request.body.size());
  held.Shrink(0);  // an earlier try may have grown it
  RETURN_IF_ERROR(held.Grow(kJsonPerByte * n_bytes));
  ASSIGN_OR_RETURN(const Json body, ReadBody(call.request.body));
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  ByteBudget::Share work = call.room.models.messages().Enter(call.request.peer);
  const auto stop = [&call] { return call.stop->Check(); };
  return call.path.answer(call.room.models, fields, {call.request, stop, work});
}

// Answers `call`, and ends it.
void Run(const std::shared_ptr<JsonCall>& call, const absl::Status& queued);

void Queue(const std::shared_ptr<JsonCall>& call) {
  const size_t n_bytes = call->request.body.size();
  // Quick work never waits for work that waits for others.
  const bool is_quick = !call->path.is_long && n_bytes <= kMaxQuickBytes &&
                        !call->room.models.waits_for_tokens();
  const auto work = [call](const absl::Status& queued) { Run(call, queued); };
  const absl::Status queued = call->room.pool.Submit(
      {.peer = call->request.peer,
       .cost = is_quick ? WorkCost::kQuick : WorkCost::kLong,
       .stop = call->stop,
       .work = work,
       .request_bytes = n_bytes});
  if (!queued.ok()) work(queued);
}

// Has the model loaded whose absence `error` says, and answers `call` then.
// Returns false, and does nothing, if the error is another one or stays.
bool LoadsFirst(const std::shared_ptr<JsonCall>& call,
                const absl::Status& error) {
  if (call->model != nullptr) return false;
  return call->room.models.LoadFirst(
      error, [call](absl::StatusOr<std::shared_ptr<const void>> loaded) {
        if (!loaded.ok()) return Run(call, loaded.status());
        call->model = *std::move(loaded);
        Queue(call);
      });
}

void Run(const std::shared_ptr<JsonCall>& call, const absl::Status& queued) {
  const RequestScope scope(call->request.request_id);
  auto json = queued.ok() ? WithinMemory([&] { return Answer(*call); })
                          : absl::StatusOr<Json>(queued);
  if (queued.ok() && !json.ok() && LoadsFirst(call, json.status())) return;
  LogCallEnd(json.status(), call->request.request_id);
  call->model = nullptr;
  call->reply->Send(json.ok() ? HttpResponse{.body = Dump(*json)}
                              : call->path.error(json.status()));
}

}  // namespace

void AnswerJson(const HttpRoom& room, const JsonPath& path, HttpRequest request,
                std::shared_ptr<HttpReply> reply) {
  const size_t n_bytes = request.body.size();
  const auto call = std::make_shared<JsonCall>(
      JsonCall{room, path, std::move(request), std::move(reply)});
  auto pass = room.gate.Enter();
  if (!pass.ok()) return Run(call, pass.status());
  call->pass = *std::move(pass);
  call->reply->OnGone(
      [stop = call->stop, &pool = room.pool] { pool.Cancel(*stop); });
  if (!path.is_long && n_bytes <= kMaxInlineBytes &&
      !room.models.waits_for_tokens()) {
    return Run(call, absl::OkStatus());
  }
  Queue(call);
}

}  // namespace plimsoll::services
