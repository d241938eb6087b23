#include "services/worker/process/log_observer.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/host/log.h"
#include "worker/sampling/non_finite.h"

namespace plimsoll::services {
namespace {

int64_t Milliseconds(absl::Duration duration) {
  return absl::ToInt64Milliseconds(duration);
}

}  // namespace

void LogObserver::OnRequestEnd(const std::string& model,
                               const worker::RequestRecord& request) {
  if (worker::IsNonFiniteLogits(request.status)) {
    Log(LogLevel::kError, "a model computes numbers that are not finite",
        {{"model", model},
         {"request_id", request.request_id},
         {"error", std::string(request.status.message())}});
  }
  if (requests_ == Requests::kNotLogged) return;
  const worker::FinishInfo& info = request.info;
  Log(LogLevel::kInfo, "a request has ended",
      {{"request_id", request.request_id},
       {"model", model},
       {"tenant", request.tenant},
       {"status", absl::StatusCodeToString(request.status.code())},
       {"prompt_tokens", info.n_prompt},
       {"cached_tokens", info.n_cached},
       {"generated_tokens", info.n_generated},
       {"queued_ms", Milliseconds(info.queued)},
       {"first_token_ms", Milliseconds(info.first_token)},
       {"decode_ms", Milliseconds(info.decode)}});
}

void LogObserver::OnLoadEnd(const LoadRecord& load) {
  if (!load.status.ok()) {
    Log(LogLevel::kError, "a model was not loaded",
        {{"model", load.model}, {"error", std::string(load.status.message())}});
    return;
  }
  Log(LogLevel::kInfo, "a model is ready",
      {{"model", load.model},
       {"note", load.note},
       {"bytes", load.total_bytes},
       {"load_ms", Milliseconds(load.time)}});
}

void LogObserver::OnUnload(const std::string& model) {
  Log(LogLevel::kInfo, "a model is unloaded", {{"model", model}});
}

void LogObserver::OnLease(const LeaseRecord& lease) {
  if (lease.event == LeaseEvent::kLost) {
    Log(LogLevel::kWarning, "a lease is not known any more; serving goes on",
        {{"lease", lease.lease_id},
         {"device", lease.device_id},
         {"purpose", lease.purpose},
         {"error", lease.error}});
    return;
  }
  Log(LogLevel::kInfo,
      lease.event == LeaseEvent::kGranted ? "a lease is granted"
                                          : "a lease is released",
      {{"lease", lease.lease_id},
       {"device", lease.device_id},
       {"purpose", lease.purpose},
       {"bytes", lease.bytes}});
}

}  // namespace plimsoll::services
