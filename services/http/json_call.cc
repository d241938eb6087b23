#include "services/http/json_call.h"

#include <cstdint>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/generation/served_model.h"
#include "services/server/call_gate.h"
#include "services/server/call_stop.h"
#include "services/server/server.h"
#include "services/server/work_pool.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

// A request that waits for its answer.
struct JsonCall {
  HttpRoom room;
  JsonPath path;
  HttpRequest request;
  std::shared_ptr<HttpReply> reply;
  CallGate::Pass pass = {};
  ServedModel model = {};  // one that had to be loaded, so that it stays
  std::shared_ptr<CallStop> stop =
      std::make_shared<CallStop>(absl::Now() + kUnaryDeadline);
};

absl::StatusOr<Json> Answer(JsonCall& call) {
  ByteBudget::Share& held = call.request.held;
  const auto n_bytes = static_cast<int64_t>(call.request.body.size());
  held.Shrink(0);  // of an earlier try
  RETURN_IF_ERROR(held.Grow(kJsonPerByte * n_bytes));
  ASSIGN_OR_RETURN(const Json body, ReadBody(call.request.body));
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  ByteBudget::Share work =
      call.room.registry.messages().Enter(call.request.peer);
  return call.path.answer(
      call.room, fields, [&call] { return call.stop->Check(); }, work);
}

// Answers `call`, and ends it.
void Run(const std::shared_ptr<JsonCall>& call, const absl::Status& queued);

void Queue(const std::shared_ptr<JsonCall>& call) {
  const size_t n_bytes = call->request.body.size();
  const auto work = [call](const absl::Status& queued) { Run(call, queued); };
  const absl::Status queued = call->room.pool.Submit(
      {.peer = call->request.peer,
       .cost = n_bytes <= kMaxQuickBytes ? WorkCost::kQuick : WorkCost::kLong,
       .stop = call->stop,
       .work = work,
       .request_bytes = n_bytes});
  if (!queued.ok()) work(queued);
}

// Has the model loaded whose absence `error` says, and answers `call` then.
// Returns false, and does nothing, if the error is another one or stays.
bool LoadsFirst(const std::shared_ptr<JsonCall>& call,
                const absl::Status& error) {
  const ErrorDetails details = DetailsOf(error);
  const bool is_absent = details.reason == v1::ERROR_REASON_MODEL_NOT_LOADED ||
                         details.reason == v1::ERROR_REASON_MODEL_NOT_READY;
  if (!is_absent || call->model || !call->room.registry.loads_on_demand()) {
    return false;
  }
  const auto go_on = [call](absl::StatusOr<ServedModel> loaded) {
    if (!loaded.ok()) return Run(call, loaded.status());
    call->model = *std::move(loaded);
    Queue(call);
  };
  auto served =
      call->room.registry.ServeOrLoad(details.metadata.at("model"), go_on);
  if (!served.ok()) return false;
  if (served->has_value()) go_on(**std::move(served));
  return true;
}

void Run(const std::shared_ptr<JsonCall>& call, const absl::Status& queued) {
  auto json = queued.ok() ? Answer(*call) : queued;
  if (queued.ok() && !json.ok() && LoadsFirst(call, json.status())) return;
  call->model = {};
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
  if (n_bytes <= kMaxInlineBytes) return Run(call, absl::OkStatus());
  Queue(call);
}

}  // namespace plimsoll::services
