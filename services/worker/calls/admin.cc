#include "services/worker/calls/admin.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/server/call.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "services/worker/calls/model_messages.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {
namespace {

v1::RequestState ToProto(worker::RequestState state) {
  switch (state) {
    case worker::RequestState::kWaiting:
      return v1::REQUEST_STATE_WAITING;
    case worker::RequestState::kRunning:
      return v1::REQUEST_STATE_RUNNING;
    case worker::RequestState::kParked:
      return v1::REQUEST_STATE_PARKED;
  }
  return v1::REQUEST_STATE_UNSPECIFIED;
}

v1::ModelActivity ActivityOf(const LoadedModel& model, ModelState state) {
  const worker::EngineLoad load = model.engine->CurrentLoad();
  v1::ModelActivity message;
  message.set_model(model.name);
  message.set_state(services::ToProto(state));
  message.set_n_slots(ToUint32(load.n_slots));
  message.set_running(ToUint32(load.running));
  message.set_waiting(ToUint32(load.waiting));
  message.set_max_waiting(ToUint32(load.max_waiting));
  message.set_sessions(ToUint32(load.sessions));
  message.set_steps(ToUint64(load.steps));
  message.set_prompt_tokens(ToUint64(load.prompt_tokens));
  message.set_generated_tokens(ToUint64(load.generated_tokens));
  message.set_cached_tokens(ToUint64(load.cached_tokens));
  message.set_draft_tokens(ToUint64(load.draft_tokens));
  message.set_accepted_draft_tokens(ToUint64(load.accepted_draft_tokens));
  message.set_preemptions(ToUint64(load.preemptions));
  message.set_kv_pages(ToUint64(load.kv_pages));
  message.set_kv_used_pages(ToUint64(load.kv_used_pages));
  message.set_page_tokens(ToUint32(model.engine->plan().kv.page_tokens));
  for (const worker::RequestInfo& info :
       model.engine->Requests(kMaxListedRequests)) {
    v1::ActiveRequest& request = *message.add_requests();
    request.set_request_id(info.request_id);
    request.set_state(ToProto(info.state));
    request.set_prompt_tokens(ToUint32(info.n_prompt));
    request.set_generated_tokens(ToUint64(info.n_generated));
    *request.mutable_age() = services::ToProto(info.age);
  }
  return message;
}

absl::Status Check(const v1::AbortRequest& request) {
  const int n_ids = request.request_ids_size();
  if (request.all() != (n_ids == 0)) {
    return absl::InvalidArgumentError(
        "request_ids: either ids or all must be given");
  }
  if (n_ids > kMaxAbortIds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_ids: at most ", kMaxAbortIds, " are allowed, got ", n_ids));
  }
  for (const std::string& id : request.request_ids()) {
    if (id.empty() || id.size() > kMaxRequestIdBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("request_ids: each must have 1 to ", kMaxRequestIdBytes,
                       " bytes, got ", id.size()));
    }
  }
  const std::string& reason = request.reason();
  if (reason.size() > kMaxAbortReasonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("reason: at most ", kMaxAbortReasonBytes,
                     " bytes are allowed, got ", reason.size()));
  }
  const bool has_control =
      std::any_of(reason.begin(), reason.end(), [](char c) {
        return absl::ascii_iscntrl(static_cast<unsigned char>(c));
      });
  if (has_control) {
    return absl::InvalidArgumentError(
        "reason: control characters are not allowed");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<v1::ModelActivity> Activity(ModelRegistry& registry) {
  std::vector<v1::ModelActivity> models;
  registry.Visit([&models](const LoadedModel& model, ModelState state) {
    models.push_back(ActivityOf(model, state));
  });
  return models;
}

absl::StatusOr<v1::AbortResponse> Abort(ModelRegistry& registry,
                                        const v1::AbortRequest& request) {
  RETURN_IF_ERROR(Check(request));
  const absl::Status status =
      WithDetails(absl::AbortedError(absl::StrCat(
                      "an operator ended the request",
                      request.reason().empty() ? "" : ": ", request.reason())),
                  {v1::ERROR_REASON_ABORTED, {}, std::nullopt});
  const std::vector<std::string> wanted(request.request_ids().begin(),
                                        request.request_ids().end());
  std::set<std::string> found;
  int64_t n_aborted = 0;
  registry.Visit([&](const LoadedModel& model, ModelState) {
    const std::vector<std::string> ids =
        request.all() ? model.engine->AbortAll(status)
                      : model.engine->Abort(wanted, status);
    n_aborted += static_cast<int64_t>(ids.size());
    found.insert(ids.begin(), ids.end());
  });
  v1::AbortResponse response;
  response.set_aborted(ToUint32(n_aborted));
  for (const std::string& id : found) {
    if (response.found_request_ids_size() == kMaxAbortIds) break;
    response.add_found_request_ids(id);
  }
  for (const std::string& id :
       std::set<std::string>(wanted.begin(), wanted.end())) {
    if (!found.contains(id)) response.add_unknown_request_ids(id);
  }
  return response;
}

}  // namespace plimsoll::services
