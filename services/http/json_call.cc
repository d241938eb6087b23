#include "services/http/json_call.h"

#include <cstdint>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"
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
  std::shared_ptr<CallStop> stop =
      std::make_shared<CallStop>(absl::Now() + kUnaryDeadline);
};

absl::StatusOr<Json> Run(JsonCall& call) {
  ByteBudget::Share& held = call.request.held;
  const auto n_bytes = static_cast<int64_t>(call.request.body.size());
  RETURN_IF_ERROR(held.Grow(kJsonPerByte * n_bytes));
  ASSIGN_OR_RETURN(const Json body, ReadBody(call.request.body));
  ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(body));
  ByteBudget::Share work =
      call.room.registry.messages().Enter(call.request.peer);
  return call.path.answer(
      call.room, fields, [&call] { return call.stop->Check(); }, work);
}

}  // namespace

void AnswerJson(const HttpRoom& room, const JsonPath& path, HttpRequest request,
                std::shared_ptr<HttpReply> reply) {
  const size_t n_bytes = request.body.size();
  const auto call = std::make_shared<JsonCall>(
      JsonCall{room, path, std::move(request), std::move(reply)});
  const auto work = [call](const absl::Status& queued) {
    auto json = queued.ok() ? Run(*call) : queued;
    call->reply->Send(json.ok() ? HttpResponse{.body = Dump(*json)}
                                : call->path.error(json.status()));
  };
  auto pass = room.gate.Enter();
  if (!pass.ok()) return work(pass.status());
  call->pass = *std::move(pass);
  if (n_bytes <= kMaxInlineBytes) return work(absl::OkStatus());
  call->reply->OnGone(
      [stop = call->stop, &pool = room.pool] { pool.Cancel(*stop); });
  const absl::Status queued = room.pool.Submit(
      {.peer = call->request.peer,
       .cost = n_bytes <= kMaxQuickBytes ? WorkCost::kQuick : WorkCost::kLong,
       .stop = call->stop,
       .work = work,
       .request_bytes = n_bytes});
  if (!queued.ok()) work(queued);
}

}  // namespace plimsoll::services
