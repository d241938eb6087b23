#include "services/cli/doctor/servers.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/doctor/hint.h"
#include "services/cli/terminal/bytes.h"

namespace plimsoll::cli {
namespace {

// A server that answers later would not do for a worker either.
constexpr std::chrono::seconds kAnswerTimeout{5};

std::string FixFor(const absl::Status& status, const std::string& advice) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
      return "give --token-file FILE (or PLIMSOLL_TOKEN) with a token that the "
             "server knows; 'plimsoll token new' makes one";
    case absl::StatusCode::kPermissionDenied:
      return "give --token-file FILE with a token of the role that the message "
             "names";
    case absl::StatusCode::kDeadlineExceeded:
      return "see whether the server is overloaded or stopped, and whether a "
             "firewall drops packets to it";
    case absl::StatusCode::kUnimplemented:
      return "name the other kind of server: --planner is for "
             "plimsoll-planner, --address for plimsoll-worker";
    default:
      return advice.empty() ? "see the server's log" : advice;
  }
}

// The diagnosis of a server that did not answer as it should.
Diagnosis Failed(absl::string_view name, const Endpoint& address,
                 const absl::Status& status) {
  const Hint hint = SplitHint(status.message());
  const std::string why =
      absl::IsDeadlineExceeded(status)
          ? absl::StrCat("no answer within ", kAnswerTimeout.count(), " s")
          : hint.message;
  const bool names_address = absl::StrContains(why, address.address);
  return {
      .name = std::string(name),
      .health = Health::kError,
      .found = names_address ? why : absl::StrCat(address.address, ": ", why),
      .fix = FixFor(status, hint.advice)};
}

}  // namespace

absl::StatusOr<PlannerReadings> ReadPlanner(const Endpoint& address) {
  PlannerReadings planner;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  const v1::ListDevicesRequest devices;
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ListDevices(context, &devices, &planner.devices,
                                   std::move(done));
      },
      address, kAnswerTimeout));
  const v1::ListLeasesRequest leases;
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ListLeases(context, &leases, &planner.leases,
                                  std::move(done));
      },
      address, kAnswerTimeout));
  return planner;
}

absl::StatusOr<v1::GetLoadResponse> ReadWorker(const Endpoint& address) {
  const v1::GetLoadRequest request;
  v1::GetLoadResponse load;
  const auto stub = v1::AdminService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->GetLoad(context, &request, &load, std::move(done));
      },
      address, kAnswerTimeout));
  return load;
}

Diagnosis SkippedServer(absl::string_view name, absl::string_view flag) {
  return {.name = std::string(name),
          .health = Health::kSkipped,
          .found = absl::StrCat("left out; ", flag, " HOST:PORT names one")};
}

Diagnosis CheckPlanner(const Endpoint& address,
                       const absl::StatusOr<PlannerReadings>& planner) {
  if (!planner.ok()) return Failed("planner", address, planner.status());
  const v1::ListLeasesResponse& leases = planner->leases;
  Diagnosis found{
      .name = "planner",
      .found = absl::StrCat(
          address.address,
          " answers: ", FormatCounted(leases.leases_size(), "lease"), " on ",
          FormatCounted(planner->devices.devices_size(), "device"))};
  if (leases.journal() == v1::JOURNAL_STATE_FAILED) {
    found.health = Health::kError;
    absl::StrAppend(&found.found,
                    "; it cannot write its journal and grants nothing");
    found.fix =
        "make room on the journal's disk, or start the planner again; its log "
        "says why";
    return found;
  }
  const auto n_unhealthy =
      std::ranges::count_if(planner->devices.devices(), &v1::Device::unhealthy);
  if (n_unhealthy > 0) {
    found.health = Health::kWarning;
    absl::StrAppend(&found.found, "; ", n_unhealthy, " of them unhealthy");
    found.fix =
        "'plimsoll devices' names them: nothing is granted there until a "
        "worker has opened the device anew";
    return found;
  }
  if (leases.has_recovery_left()) {
    found.health = Health::kWarning;
    absl::StrAppend(&found.found,
                    "; it has just started and grants nothing for ",
                    leases.recovery_left().seconds() + 1, " s");
    found.fix =
        "wait, while workers present their leases; with --journal FILE a "
        "planner that starts again need not";
  }
  return found;
}

Diagnosis CheckWorker(const Endpoint& address,
                      const absl::StatusOr<v1::GetLoadResponse>& worker) {
  if (!worker.ok()) return Failed("worker", address, worker.status());
  Diagnosis found{
      .name = "worker",
      .found = absl::StrCat(
          address.address,
          " answers: ", FormatCounted(worker->models_size(), "loaded model"),
          ", ", FormatCounted(worker->running_calls(), "running call"))};
  if (!worker->draining()) return found;
  found.health = Health::kWarning;
  absl::StrAppend(&found.found, "; it drains and refuses new calls");
  found.fix =
      "start it again once its calls have ended: a drain cannot be "
      "undone";
  return found;
}

}  // namespace plimsoll::cli
