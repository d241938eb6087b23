#include "services/planner/planner_service.h"

#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/common/call.h"
#include "services/planner/watch_call.h"

namespace plimsoll::services {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

class PlannerServiceImpl final : public v1::PlannerService::CallbackService {
 public:
  PlannerServiceImpl(Planner& planner, Ledger& ledger, CallGate& gate)
      : planner_(planner), ledger_(ledger), gate_(gate) {}

  ServerUnaryReactor* DescribeModel(
      CallbackServerContext* context, const v1::DescribeModelRequest* request,
      v1::DescribeModelResponse* response) override {
    return AnswerUnary(context, gate_, [&] {
      return planner_.DescribeModel(*request, *response);
    });
  }

  ServerUnaryReactor* Plan(CallbackServerContext* context,
                           const v1::PlanRequest* request,
                           v1::PlanResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return planner_.Plan(*request, *response); });
  }

  ServerUnaryReactor* Reserve(CallbackServerContext* context,
                              const v1::ReserveRequest* request,
                              v1::ReserveResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return ledger_.Reserve(*request, *response); });
  }

  ServerUnaryReactor* Confirm(CallbackServerContext* context,
                              const v1::ConfirmRequest* request,
                              v1::ConfirmResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return ledger_.Confirm(*request, *response); });
  }

  ServerUnaryReactor* Renew(CallbackServerContext* context,
                            const v1::RenewRequest* request,
                            v1::RenewResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return ledger_.Renew(*request, *response); });
  }

  ServerUnaryReactor* Release(CallbackServerContext* context,
                              const v1::ReleaseRequest* request,
                              v1::ReleaseResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return ledger_.Release(*request, *response); });
  }

  ServerUnaryReactor* RegisterDevice(
      CallbackServerContext* context, const v1::RegisterDeviceRequest* request,
      v1::RegisterDeviceResponse* response) override {
    return AnswerUnary(context, gate_, [&] {
      return ledger_.RegisterDevice(*request, *response);
    });
  }

  ServerUnaryReactor* ListDevices(CallbackServerContext* context,
                                  const v1::ListDevicesRequest*,
                                  v1::ListDevicesResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return ledger_.ListDevices(*response); });
  }

  grpc::ServerWriteReactor<v1::WatchDevicesResponse>* WatchDevices(
      CallbackServerContext* context, const v1::WatchDevicesRequest*) override {
    return WatchCall::Start(*context, ledger_, gate_);
  }

  ServerUnaryReactor* ListLeases(CallbackServerContext* context,
                                 const v1::ListLeasesRequest* request,
                                 v1::ListLeasesResponse* response) override {
    return AnswerUnary(context, gate_,
                       [&] { return ledger_.ListLeases(*request, *response); });
  }

 private:
  Planner& planner_;
  Ledger& ledger_;
  CallGate& gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPlannerService(Planner& planner,
                                                 Ledger& ledger,
                                                 CallGate& gate) {
  return std::make_unique<PlannerServiceImpl>(planner, ledger, gate);
}

}  // namespace plimsoll::services
