#include "services/planner/planner_service.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/planner/placement_queries.h"
#include "services/planner/watch_call.h"
#include "services/planner/what_if_queries.h"
#include "services/server/call.h"
#include "services/server/credentials.h"
#include "services/tracing/call_trace.h"
#include "services/tracing/tracer.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Answers a call about a lease, with a span.
template <typename Answer>
absl::Status Traced(const CallbackServerContext& context, const char* method,
                    const Answer& answer) {
  if (Tracer::Active() == nullptr) return answer();
  OpenSpan span(absl::StrCat("plimsoll.v1.PlannerService/", method),
                SpanKind::kServer, TraceOf(context));
  span.Set("rpc.system", std::string("grpc"));
  absl::Status status = answer();
  span.End(status.code());
  return status;
}

// Calls about one lease or one device are answered at once, on gRPC's threads.
// Calls that plan or list are answered from the pool, so that neither kind
// waits for the other.
class PlannerServiceImpl final : public v1::PlannerService::CallbackService {
 public:
  PlannerServiceImpl(const PlannerServiceNeeds& needs,
                     PlacementQueries placement)
      : planner_(needs.planner),
        ledger_(needs.ledger),
        pool_(needs.pool),
        placement_(std::move(placement)),
        limits_{needs.gate, messages_, needs.reader_timeout} {}

  ServerUnaryReactor* DescribeModel(
      CallbackServerContext* context, const v1::DescribeModelRequest* request,
      v1::DescribeModelResponse* response) noexcept override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kQuick,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           return planner_.DescribeModel(*request, *response);
                         }});
  }

  ServerUnaryReactor* Plan(CallbackServerContext* context,
                           const v1::PlanRequest* request,
                           v1::PlanResponse* response) noexcept override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kQuick,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           return planner_.Plan(*request, *response);
                         }});
  }

  ServerUnaryReactor* PlanSet(CallbackServerContext* context,
                              const v1::PlanSetRequest* request,
                              v1::PlanSetResponse* response) noexcept override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [=, this](StopCheck stop, ByteBudget::Share&) {
           return planner_.PlanSet(*request, *response, stop);
         }});
  }

  ServerUnaryReactor* PlanSplit(
      CallbackServerContext* context, const v1::PlanSplitRequest* request,
      v1::PlanSplitResponse* response) noexcept override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [=, this](StopCheck stop, ByteBudget::Share&) {
           return planner_.PlanSplit(*request, *response, stop);
         }});
  }

  ServerUnaryReactor* BatchPlan(
      CallbackServerContext* context, const v1::BatchPlanRequest* request,
      v1::BatchPlanResponse* response) noexcept override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [=, this](StopCheck stop, ByteBudget::Share&) {
           return services::BatchPlan(planner_, *request, *response, stop);
         }});
  }

  grpc::ServerWriteReactor<v1::WhatIfResponse>* WhatIf(
      CallbackServerContext* context,
      const v1::WhatIfRequest* request) noexcept override {
    return StartWhatIf(*context, {{limits_, pool_}, planner_, what_if_calls_},
                       *request);
  }

  ServerUnaryReactor* Reserve(CallbackServerContext* context,
                              const v1::ReserveRequest* request,
                              v1::ReserveResponse* response) noexcept override {
    return AnswerUnary(
        context, limits_, {*request, *response}, [&]() -> absl::Status {
          return Traced(*context, "Reserve", [&]() -> absl::Status {
            ASSIGN_OR_RETURN(const std::string owner, OwnerOf(*context));
            if (request->has_process()) {
              RETURN_IF_ERROR(CheckProcess(*context, request->process()));
            }
            return ledger_.Reserve(*request, *response, owner);
          });
        });
  }

  ServerUnaryReactor* Confirm(CallbackServerContext* context,
                              const v1::ConfirmRequest* request,
                              v1::ConfirmResponse* response) noexcept override {
    return AnswerUnary(
        context, limits_, {*request, *response}, [&]() -> absl::Status {
          return Traced(*context, "Confirm", [&]() -> absl::Status {
            ASSIGN_OR_RETURN(const std::string owner, OwnerOf(*context));
            return ledger_.Confirm(*request, *response, owner);
          });
        });
  }

  ServerUnaryReactor* Renew(CallbackServerContext* context,
                            const v1::RenewRequest* request,
                            v1::RenewResponse* response) noexcept override {
    return AnswerUnary(
        context, limits_, {*request, *response}, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(const std::string owner, OwnerOf(*context));
          if (request->presented().has_process()) {
            RETURN_IF_ERROR(
                CheckProcess(*context, request->presented().process()));
          }
          return ledger_.Renew(*request, *response, owner);
        });
  }

  ServerUnaryReactor* Release(CallbackServerContext* context,
                              const v1::ReleaseRequest* request,
                              v1::ReleaseResponse* response) noexcept override {
    return AnswerUnary(
        context, limits_, {*request, *response}, [&]() -> absl::Status {
          return Traced(*context, "Release", [&]() -> absl::Status {
            ASSIGN_OR_RETURN(const std::string owner, OwnerOf(*context));
            return ledger_.Release(*request, *response, owner);
          });
        });
  }

  ServerUnaryReactor* ForceRelease(
      CallbackServerContext* context, const v1::ForceReleaseRequest* request,
      v1::ForceReleaseResponse* response) noexcept override {
    return AnswerUnary(context, limits_, {*request, *response}, [&] {
      return Traced(*context, "ForceRelease", [&] {
        return ledger_.ForceRelease(*request, *response, CallerName(*context));
      });
    });
  }

  ServerUnaryReactor* RegisterDevice(
      CallbackServerContext* context, const v1::RegisterDeviceRequest* request,
      v1::RegisterDeviceResponse* response) noexcept override {
    return AnswerUnary(
        context, limits_, {*request, *response}, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(const std::string owner, OwnerOf(*context));
          return ledger_.RegisterDevice(*request, *response, owner);
        });
  }

  ServerUnaryReactor* ListDevices(
      CallbackServerContext* context, const v1::ListDevicesRequest* request,
      v1::ListDevicesResponse* response) noexcept override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kQuick,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           return ledger_.ListDevices(*response);
                         }});
  }

  grpc::ServerWriteReactor<v1::WatchDevicesResponse>* WatchDevices(
      CallbackServerContext* context,
      const v1::WatchDevicesRequest* request) noexcept override {
    return WatchCall::Start(*context, *request, ledger_.feed(), limits_);
  }

  ServerUnaryReactor* ListLeases(
      CallbackServerContext* context, const v1::ListLeasesRequest* request,
      v1::ListLeasesResponse* response) noexcept override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kQuick,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           return ledger_.ListLeases(*request, *response);
                         }});
  }

  ServerUnaryReactor* PlaceModels(
      CallbackServerContext* context, const v1::PlaceModelsRequest* request,
      v1::PlaceModelsResponse* response) noexcept override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [=, this](StopCheck stop, ByteBudget::Share&) {
           return placement_.PlaceModels(*request, *response, stop);
         }});
  }

  ServerUnaryReactor* ListCatalogue(
      CallbackServerContext* context, const v1::ListCatalogueRequest* request,
      v1::ListCatalogueResponse* response) noexcept override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kQuick,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           return placement_.ListCatalogue(*response);
                         }});
  }

  ServerUnaryReactor* FindDevices(
      CallbackServerContext* context, const v1::FindDevicesRequest* request,
      v1::FindDevicesResponse* response) noexcept override {
    return AnswerOnPool(
        context, {limits_, pool_}, {*request, *response},
        {.cost = WorkCost::kLong,
         .answer = [=, this](StopCheck stop, ByteBudget::Share&) {
           return placement_.FindDevices(*request, *response, stop);
         }});
  }

  ServerUnaryReactor* GetBounds(
      CallbackServerContext* context, const v1::GetBoundsRequest* request,
      v1::GetBoundsResponse* response) noexcept override {
    return AnswerOnPool(context, {limits_, pool_}, {*request, *response},
                        {.cost = WorkCost::kQuick,
                         .answer = [=, this](StopCheck, ByteBudget::Share&) {
                           return placement_.GetBounds(*request, *response);
                         }});
  }

 private:
  // Who calls, for the log: a name that was proven, and where the call is from.
  std::string CallerName(const CallbackServerContext& context) const {
    const auto guard = limits_.gate.guard_of_changes();
    std::optional<Identity> caller;
    if (guard != nullptr) caller = CallerOf(context, *guard);
    return absl::StrCat(caller.has_value() ? caller->name : "nobody was asked",
                        " at ", context.peer());
  }

  // The owner of the leases that the caller may touch; "" for all of them.
  absl::StatusOr<std::string> OwnerOf(
      const CallbackServerContext& context) const {
    const auto guard = limits_.gate.guard_of_changes();
    if (guard == nullptr) return std::string();
    std::optional<Identity> caller = CallerOf(context, *guard);
    if (caller.has_value()) return std::move(caller->lease_owner);
    return absl::UnauthenticatedError("the token is not valid any more");
  }

  // Whether the caller may be this process, by what the kernel says.
  // Errors: kPermissionDenied.
  absl::Status CheckProcess(const CallbackServerContext& context,
                            const v1::ProcessIdentity& process) const {
    const auto guard = limits_.gate.guard_of_changes();
    const std::optional<size_t> local_class = LocalClassOf(context);
    if (guard == nullptr || !local_class.has_value()) return absl::OkStatus();
    return guard->processes().Check(
        *local_class,
        {.pid = process.pid(),
         .start_ticks = static_cast<int64_t>(process.start_ticks()),
         .boot_id = process.boot_id(),
         .pid_namespace = static_cast<int64_t>(process.pid_namespace())});
  }

  Planner& planner_;
  Ledger& ledger_;
  WorkPool& pool_;
  WhatIfCalls what_if_calls_;
  const PlacementQueries placement_;
  ByteBudget messages_{kPlannerMessageBytes};
  const CallLimits limits_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPlannerService(PlannerServiceNeeds needs) {
  PlacementSources sources{
      [&planner = needs.planner](const v1::ModelSource& source) {
        return planner.ShapeOf(source);
      },
      [&ledger = needs.ledger](v1::ListDevicesResponse& devices) {
        return ledger.ListDevices(devices);
      }};
  PlacementQueries placement(std::move(sources), std::move(needs.catalogue));
  return std::make_unique<PlannerServiceImpl>(needs, std::move(placement));
}

}  // namespace plimsoll::services
