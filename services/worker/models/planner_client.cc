#include "services/worker/models/planner_client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "base/sync/fault.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/host/clock.h"
#include "services/host/log.h"
#include "services/host/random_id.h"
#include "services/host/request_scope.h"
#include "services/server/access/keepalive.h"
#include "services/server/credentials.h"
#include "services/server/request_id.h"
#include "services/tracing/call_trace.h"
#include "services/tracing/tracer.h"
#include "services/wire/errors.h"
#include "services/wire/to_proto.h"
#include "worker/device/memory_settings.h"

namespace plimsoll::services {
namespace {

absl::Status NoAnswer() {
  return WithDetails(
      absl::UnavailableError("the planner does not answer"),
      {v1::ERROR_REASON_PLANNER_UNAVAILABLE, {}, PlannerClient::kRetryDelay});
}

absl::Status FromPlanner(const grpc::Status& status) {
  // A planner that answers says more than the code.
  const bool is_silent =
      (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
       status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) &&
      status.error_details().empty();
  if (!is_silent) return FromGrpc(status);
  return NoAnswer();
}

bool IsSilent(const absl::Status& status) {
  return DetailsOf(status).reason == v1::ERROR_REASON_PLANNER_UNAVAILABLE;
}

bool IsSame(const v1::ProcessIdentity& message,
            const ProcessIdentity& identity) {
  return message.pid() == identity.pid &&
         message.start_ticks() == ToUint64(identity.start_ticks) &&
         message.boot_id() == identity.boot_id &&
         message.pid_namespace() == ToUint64(identity.pid_namespace);
}

v1::ProcessIdentity ToMessage(const ProcessIdentity& identity) {
  v1::ProcessIdentity message;
  message.set_pid(ToUint32(identity.pid));
  message.set_start_ticks(ToUint64(identity.start_ticks));
  message.set_boot_id(identity.boot_id);
  message.set_pid_namespace(ToUint64(identity.pid_namespace));
  return message;
}

LeaseGrant ToGrant(const v1::Lease& lease) {
  LeaseGrant grant;
  grant.id = lease.id();
  grant.device_id = lease.device_id();
  grant.epoch = static_cast<int64_t>(lease.epoch());
  grant.bytes = static_cast<int64_t>(lease.bytes());
  grant.purpose = lease.purpose();
  return grant;
}

// What became of a lease of an earlier process.
void LogFormer(const LeaseGrant& lease, const absl::Status& status) {
  if (!status.ok()) {
    Log(LogLevel::kWarning,
        "an earlier process of this worker has ended, and the planner keeps "
        "its lease",
        {{"lease", lease.id}, {"error", std::string(status.message())}});
    return;
  }
  Log(LogLevel::kInfo,
      "an earlier process of this worker has ended: its lease is released",
      {{"lease", lease.id},
       {"purpose", lease.purpose},
       {"device", lease.device_id},
       {"bytes", lease.bytes}});
}

// A call about a lease. It has a span if it belongs to one of this thread.
OpenSpan CallSpan(const char* method) {
  const std::optional<TraceContext>& trace = CurrentTrace::Get();
  if (!trace.has_value()) return {};
  OpenSpan span(absl::StrCat("plimsoll.v1.PlannerService/", method),
                SpanKind::kClient, trace);
  span.Set("rpc.system", std::string("grpc"));
  return span;
}

void SetLease(const std::string& device_id, int64_t bytes, OpenSpan& span) {
  span.Set("plimsoll.device", device_id);
  span.Set("plimsoll.lease_bytes", bytes);
}

// A request for a plan, without devices.
template <typename Request>
Request RequestFor(const PlannedModel& model) {
  Request request;
  v1::ModelHeader& header = *request.mutable_source()->mutable_header();
  header.set_gguf(model.header);
  header.set_file_bytes(ToUint64(model.file_bytes));
  *request.mutable_options() = ToProto(planner::PlanOptions{model.options});
  request.set_purpose(model.purpose);
  return request;
}

}  // namespace

class PlannerClient::Stub {
 public:
  explicit Stub(const std::shared_ptr<grpc::Channel>& channel)
      : planner_(v1::PlannerService::NewStub(channel)) {}

  // Makes one call, `method` of the stub.
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response& response) {
    return CallAgain(1, method, request, response);
  }

  // Calls until there is an answer, with one deadline for all calls. After the
  // first one they wait for a planner that is starting.
  template <typename Method, typename Request, typename Response>
  absl::Status CallAgain(int max_calls, Method method, const Request& request,
                         Response& response) {
    const absl::Time begin = BootTime();
    const auto deadline = std::chrono::system_clock::now() +
                          absl::ToChronoMilliseconds(kCallDeadline);
    absl::Status status;
    for (int i = 0; i < max_calls; ++i) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      AddTrace(CurrentTrace::Get(), context);
      if (!RequestScope::Id().empty()) {
        context.AddMetadata(std::string(kRequestIdKey), RequestScope::Id());
      }
      context.set_wait_for_ready(i > 0);
      if (!Begin(context)) return NoAnswer();
      grpc::Status answer(grpc::StatusCode::UNAVAILABLE, "");
      if (!PLIMSOLL_FAULT("planner_client.send")) {
        answer = (planner_.get()->*method)(&context, request, &response);
      }
      const bool is_wanted = End(context);
      status = is_wanted && !PLIMSOLL_FAULT("planner_client.answer")
                   ? FromPlanner(answer)
                   : NoAnswer();
      if (!IsSilent(status)) break;
    }
    // Who finds that nothing listens there does not wait for it.
    is_silent_ = IsSilent(status) && BootTime() - begin >= kCallDeadline / 2;
    return status;
  }

  bool is_silent() const { return is_silent_; }

  void Cancel() {
    absl::MutexLock lock(&mu_);
    is_over_ = true;
    for (grpc::ClientContext* context : running_) context->TryCancel();
  }

 private:
  // Both return whether an answer is wanted.
  bool Begin(grpc::ClientContext& context) {
    absl::MutexLock lock(&mu_);
    running_.insert(&context);
    return !is_over_;
  }
  bool End(grpc::ClientContext& context) {
    absl::MutexLock lock(&mu_);
    running_.erase(&context);
    return !is_over_;
  }

  const std::unique_ptr<v1::PlannerService::Stub> planner_;
  std::atomic<bool> is_silent_ = false;
  absl::Mutex mu_;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mu_);
};

PlannerClient::PlannerClient(const std::string& address, LeaseHolder holder,
                             std::function<absl::Time()> clock,
                             const ClientSecurity& security)
    : holder_(std::move(holder.name)),
      clock_(std::move(clock)),
      process_(OwnIdentity()),
      former_(std::move(holder.history.former)),
      secret_(holder.history.secret.empty()
                  ? RandomId()
                  : std::move(holder.history.secret)) {
  grpc::ChannelArguments arguments;
  // A planner that comes back is noticed within a renewal.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  SetKeepalive(arguments);
  stub_ = std::make_unique<Stub>(grpc::CreateCustomChannel(
      address, NewChannelCredentials(security, address), arguments));
}

PlannerClient::~PlannerClient() = default;

bool PlannerClient::is_silent() const { return stub_->is_silent(); }

void PlannerClient::CancelCalls() { stub_->Cancel(); }

absl::Status PlannerClient::RegisterDevice(const std::string& device_id,
                                           planner::DeviceProfile profile,
                                           bool is_unhealthy) {
  profile.id = device_id;
  v1::RegisterDeviceRequest request;
  *request.mutable_profile() = ToProto(profile);
  request.set_holder(holder_);
  request.set_unhealthy(is_unhealthy);
  request.set_never_swapped(profile.kind != "cpu" ||
                            worker::ReadMemorySettings().swap_bytes == 0);
  v1::RegisterDeviceResponse response;
  return stub_->Call(&v1::PlannerService::Stub::RegisterDevice, request,
                     response);
}

absl::StatusOr<v1::MemoryPlan> PlannerClient::Plan(const PlannedModel& model,
                                                   const DeviceBudget& device) {
  auto request = RequestFor<v1::PlanRequest>(model);
  request.set_device_id(device.device_id);
  if (device.bytes.has_value()) {
    request.set_budget_bytes(ToUint64(*device.bytes));
  }
  v1::PlanResponse response;
  RETURN_IF_ERROR(
      stub_->Call(&v1::PlannerService::Stub::Plan, request, response));
  return std::move(*response.mutable_plan());
}

absl::StatusOr<v1::PlanSplitResponse> PlannerClient::PlanSplit(
    const PlannedModel& model, const std::vector<DeviceBudget>& devices) {
  auto request = RequestFor<v1::PlanSplitRequest>(model);
  for (const DeviceBudget& device : devices) {
    v1::SplitDevice& added = *request.add_devices();
    added.set_device_id(device.device_id);
    if (device.bytes.has_value()) {
      added.set_budget_bytes(ToUint64(*device.bytes));
    }
  }
  v1::PlanSplitResponse response;
  RETURN_IF_ERROR(
      stub_->Call(&v1::PlannerService::Stub::PlanSplit, request, response));
  return response;
}

absl::StatusOr<LeaseGrant> PlannerClient::Reserve(const std::string& request_id,
                                                  const std::string& device_id,
                                                  const std::string& purpose,
                                                  int64_t bytes) {
  v1::ReserveRequest request;
  request.set_request_id(request_id);
  request.set_device_id(device_id);
  request.set_holder(holder_);
  request.set_purpose(purpose);
  request.set_bytes(ToUint64(bytes));
  request.set_secret(secret_);
  if (process_.has_value()) {
    *request.mutable_process() = ToMessage(*process_);
  }
  LeaseGrant grant;
  grant.device_id = device_id;
  grant.purpose = purpose;
  grant.asked = clock_();  // before the first call, which may be the one
  v1::ReserveResponse response;
  OpenSpan span = CallSpan("Reserve");
  SetLease(device_id, bytes, span);
  {
    const CurrentTrace current(span.context());
    const absl::Status status =
        stub_->CallAgain(kMaxReserveCalls, &v1::PlannerService::Stub::Reserve,
                         request, response);
    span.End(status.code());
    RETURN_IF_ERROR(status);
  }
  grant.id = response.lease().id();
  grant.epoch = static_cast<int64_t>(response.lease().epoch());
  grant.bytes = static_cast<int64_t>(response.lease().bytes());
  grant.ttl = absl::Seconds(response.lease().ttl().seconds()) +
              absl::Nanoseconds(response.lease().ttl().nanos());
  return grant;
}

absl::Status PlannerClient::Confirm(const LeaseGrant& lease,
                                    int64_t measured_bytes,
                                    int64_t device_free_bytes) {
  v1::ConfirmRequest request;
  request.set_lease_id(lease.id);
  request.set_epoch(ToUint64(lease.epoch));
  request.set_secret(secret_);
  request.set_measured_bytes(ToUint64(measured_bytes));
  request.set_device_free_bytes(ToUint64(device_free_bytes));
  v1::ConfirmResponse response;
  OpenSpan span = CallSpan("Confirm");
  SetLease(lease.device_id, measured_bytes, span);
  const CurrentTrace current(span.context());
  absl::Status status =
      stub_->Call(&v1::PlannerService::Stub::Confirm, request, response);
  span.End(status.code());
  return status;
}

absl::StatusOr<bool> PlannerClient::Renew(
    const LeaseGrant& lease, std::optional<int64_t> device_free_bytes,
    std::optional<int64_t> measured_bytes) {
  v1::RenewRequest request;
  request.set_lease_id(lease.id);
  request.set_epoch(ToUint64(lease.epoch));
  request.set_secret(secret_);
  if (device_free_bytes.has_value()) {
    request.set_device_free_bytes(ToUint64(*device_free_bytes));
  }
  if (measured_bytes.has_value()) {
    v1::PresentedLease& presented = *request.mutable_presented();
    presented.set_device_id(lease.device_id);
    presented.set_holder(holder_);
    presented.set_purpose(lease.purpose);
    presented.set_bytes(ToUint64(lease.bytes));
    presented.set_measured_bytes(ToUint64(*measured_bytes));
    if (process_.has_value()) {
      *presented.mutable_process() = ToMessage(*process_);
    }
  }
  v1::RenewResponse response;
  RETURN_IF_ERROR(
      stub_->Call(&v1::PlannerService::Stub::Renew, request, response));
  return !response.device_unknown();
}

absl::Status PlannerClient::Release(const LeaseGrant& lease,
                                    int64_t shortfall_bytes) {
  v1::ReleaseRequest request;
  request.set_lease_id(lease.id);
  request.set_epoch(ToUint64(lease.epoch));
  request.set_secret(secret_);
  if (shortfall_bytes > 0) {
    request.set_shortfall_bytes(ToUint64(shortfall_bytes));
  }
  v1::ReleaseResponse response;
  OpenSpan span = CallSpan("Release");
  SetLease(lease.device_id, lease.bytes, span);
  const CurrentTrace current(span.context());
  absl::Status status =
      stub_->Call(&v1::PlannerService::Stub::Release, request, response);
  span.End(status.code());
  return status;
}

absl::StatusOr<std::vector<v1::Lease>> PlannerClient::LeasesOf(
    const ProcessIdentity& process) {
  v1::ListLeasesRequest request;
  *request.mutable_process() = ToMessage(process);
  v1::ListLeasesResponse response;
  RETURN_IF_ERROR(
      stub_->Call(&v1::PlannerService::Stub::ListLeases, request, response));
  std::vector<v1::Lease> leases;
  for (const v1::Lease& lease : response.leases()) {
    if (IsSame(lease.process(), process)) leases.push_back(lease);
  }
  return leases;
}

absl::StatusOr<std::vector<LeaseGrant>> PlannerClient::HeldLeases() {
  std::vector<LeaseGrant> leases;
  if (!process_.has_value()) return leases;
  ASSIGN_OR_RETURN(const std::vector<v1::Lease> held, LeasesOf(*process_));
  for (const v1::Lease& lease : held) {
    // A planner that knows who calls has the caller's name in front of the
    // holder.
    const bool is_ours =
        lease.holder() == holder_ ||
        absl::EndsWith(lease.holder(), absl::StrCat(" ", holder_));
    if (is_ours) leases.push_back(ToGrant(lease));
  }
  return leases;
}

absl::Status PlannerClient::ReleaseFormer() {
  for (const ProcessIdentity& process : former_) {
    ASSIGN_OR_RETURN(const std::vector<v1::Lease> left, LeasesOf(process));
    for (const v1::Lease& lease : left) {
      const LeaseGrant grant = ToGrant(lease);
      absl::Status status = Release(grant);
      if (IsSilent(status)) return status;
      LogFormer(grant, status);
    }
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::services
