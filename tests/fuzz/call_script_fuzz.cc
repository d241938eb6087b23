// Arbitrary bytes as messages of calls, one after the other, as gRPC hands them
// to planner and worker. Each call ends with an error that says why, or with a
// reply that clients can read. A message of the script is a byte that says what
// it is, two bytes for its length, and the message.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "planner/fleet/device_catalogue.h"
#include "planner/fleet/what_if.h"
#include "planner/layout/device_profile.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/planner.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "services/host/clock.h"
#include "services/planner/ledger.h"
#include "services/planner/placement_queries.h"
#include "services/planner/planner.h"
#include "services/planner/what_if_queries.h"
#include "services/wire/chat_tools.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/generation_from_proto.h"
#include "services/wire/to_proto.h"
#include "worker/engine/generate_options.h"
#include "worker/sampling/sampler.h"

namespace plimsoll::services {
namespace {

constexpr int kMaxCalls = 32;

// Ends the work of a call after so many checks, as if its client had left.
class Patience {
 public:
  static constexpr int kMaxChecks = 500;

  absl::Status operator()() const {
    return ++n_checks_ <= kMaxChecks ? absl::OkStatus()
                                     : absl::CancelledError("it took long");
  }

 private:
  mutable int n_checks_ = 0;
};

// A refusal comes to the client with its reason.
void CheckRefusal(const absl::Status& status) {
  PLIMSOLL_CHECK(!status.message().empty(), "a refusal says why");
  PLIMSOLL_CHECK(!absl::IsInternal(status) && !absl::IsUnknown(status),
                 "no message shows a bug");
  const absl::Status read = FromGrpc(ToGrpc(status, "request"));
  PLIMSOLL_CHECK(read.code() == status.code(), "the code is the same");
  PLIMSOLL_CHECK(DetailsOf(read).reason != v1::ERROR_REASON_UNSPECIFIED,
                 "the error has a reason");
}

// Clients read only texts that are UTF-8.
template <typename Message>
void CheckReply(const absl::Status& status, const Message& reply) {
  if (!status.ok()) return CheckRefusal(status);
  std::string bytes;
  Message copy;
  PLIMSOLL_CHECK(reply.SerializeToString(&bytes) && copy.ParseFromString(bytes),
                 "a client can read the reply");
}

// A planner that knows a device "d" and a model "m".
class Calls {
 public:
  Calls() {
    planner::DeviceProfile device = planner::CommittedCpuProfile();
    device.id = "d";
    device.total_bytes = int64_t{1} << 40;
    v1::RegisterDeviceRequest request;
    *request.mutable_profile() = ToProto(device);
    v1::RegisterDeviceResponse response;
    PLIMSOLL_CHECK(ledger_.RegisterDevice(request, response).ok(),
                   "the device is good");
    v1::ModelSource source;
    v1::Hyperparameters& shape = *source.mutable_hyperparameters();
    shape.set_architecture("llama");
    shape.set_n_layers(2);
    shape.set_model_dim(64);
    shape.set_n_heads(2);
    shape.set_ffn_dim(64);
    shape.set_vocab_size(64);
    shape.set_n_ctx_train(1'024);
    shape.set_weight_type(v1::ELEMENT_TYPE_F16);
    const auto model = planner_.ShapeOf(source);
    PLIMSOLL_CHECK(model.ok(), "the model is good");
    planner_.SetModels({{"m", *model}});
  }

  // Makes the call that `kind` says; `bytes` need not be its message.
  void Make(uint8_t kind, absl::string_view bytes) {
    using Call = void (Calls::*)(absl::string_view);
    constexpr Call kCalls[] = {
        &Calls::Register, &Calls::Reserve,     &Calls::Confirm,
        &Calls::Renew,    &Calls::Release,     &Calls::ListLeases,
        &Calls::Describe, &Calls::Plan,        &Calls::PlanSet,
        &Calls::Split,    &Calls::BatchPlan,   &Calls::WhatIf,
        &Calls::Place,    &Calls::Find,        &Calls::Bounds,
        &Calls::Generate, &Calls::OpenSession, &Calls::ForceRelease};
    (this->*kCalls[kind % std::size(kCalls)])(bytes);
  }

 private:
  // Parses the message and, if it is one, answers it.
  template <typename Request, typename Response, typename Answer>
  static void Run(absl::string_view bytes, const Answer& answer) {
    Request request;
    if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return;
    }
    Response response;
    const absl::Status status = answer(request, response);
    CheckReply(status, response);
  }

  // A call about a lease that names none is about the newest one.
  template <typename Request>
  void NameLease(Request& request) const {
    if (!request.lease_id().empty()) return;
    request.set_lease_id(newest_.id());
    if (request.epoch() == 0) request.set_epoch(newest_.epoch());
  }

  void Register(absl::string_view bytes) {
    Run<v1::RegisterDeviceRequest, v1::RegisterDeviceResponse>(
        bytes, [&](const auto& request, auto& response) {
          return ledger_.RegisterDevice(request, response);
        });
  }
  void Reserve(absl::string_view bytes) {
    Run<v1::ReserveRequest, v1::ReserveResponse>(
        bytes, [&](const auto& request, auto& response) {
          const absl::Status status = ledger_.Reserve(request, response);
          if (status.ok()) newest_ = response.lease();
          return status;
        });
  }
  void Confirm(absl::string_view bytes) {
    Run<v1::ConfirmRequest, v1::ConfirmResponse>(
        bytes, [&](auto& request, auto& response) {
          NameLease(request);
          return ledger_.Confirm(request, response);
        });
  }
  void Renew(absl::string_view bytes) {
    Run<v1::RenewRequest, v1::RenewResponse>(
        bytes, [&](auto& request, auto& response) {
          NameLease(request);
          return ledger_.Renew(request, response);
        });
  }
  void Release(absl::string_view bytes) {
    Run<v1::ReleaseRequest, v1::ReleaseResponse>(
        bytes, [&](auto& request, auto& response) {
          NameLease(request);
          return ledger_.Release(request, response);
        });
  }
  void ForceRelease(absl::string_view bytes) {
    Run<v1::ForceReleaseRequest, v1::ForceReleaseResponse>(
        bytes, [&](auto& request, auto& response) {
          if (request.lease_id().empty()) request.set_lease_id(newest_.id());
          return ledger_.ForceRelease(request, response, "a caller");
        });
  }
  void ListLeases(absl::string_view bytes) {
    Run<v1::ListLeasesRequest, v1::ListLeasesResponse>(
        bytes, [&](const auto& request, auto& response) {
          return ledger_.ListLeases(request, response);
        });
  }

  void Describe(absl::string_view bytes) {
    Run<v1::DescribeModelRequest, v1::DescribeModelResponse>(
        bytes, [&](const auto& request, auto& response) {
          return planner_.DescribeModel(request, response);
        });
  }
  void Plan(absl::string_view bytes) {
    Run<v1::PlanRequest, v1::PlanResponse>(
        bytes, [&](const auto& request, auto& response) {
          return planner_.Plan(request, response);
        });
  }
  void PlanSet(absl::string_view bytes) {
    Run<v1::PlanSetRequest, v1::PlanSetResponse>(
        bytes, [&](const auto& request, auto& response) {
          return planner_.PlanSet(request, response, Patience());
        });
  }
  void Split(absl::string_view bytes) {
    Run<v1::PlanSplitRequest, v1::PlanSplitResponse>(
        bytes, [&](const auto& request, auto& response) {
          return planner_.PlanSplit(request, response, Patience());
        });
  }
  void BatchPlan(absl::string_view bytes) {
    Run<v1::BatchPlanRequest, v1::BatchPlanResponse>(
        bytes, [&](const auto& request, auto& response) {
          return services::BatchPlan(planner_, request, response, Patience());
        });
  }
  void WhatIf(absl::string_view bytes) {
    Run<v1::WhatIfRequest, v1::WhatIfResponse>(
        bytes, [&](const auto& request, auto& response) -> absl::Status {
          ASSIGN_OR_RETURN(const auto shape,
                           planner_.ShapeOf(request.source()));
          std::vector<planner::WhatIfAxes::Device> devices;
          for (const v1::WhatIfDevice& device : request.devices()) {
            ASSIGN_OR_RETURN(auto target, planner_.TargetOf(device));
            devices.push_back({std::move(target.profile), target.budget_bytes});
          }
          const Patience patience;
          ASSIGN_OR_RETURN(auto grid, ToWhatIf(request, *shape,
                                               std::move(devices), patience));
          WhatIfMessages messages(std::move(grid));
          ASSIGN_OR_RETURN(const auto first, messages.Next(patience));
          if (first.has_value()) response = *first;
          return absl::OkStatus();
        });
  }
  void Place(absl::string_view bytes) {
    Run<v1::PlaceModelsRequest, v1::PlaceModelsResponse>(
        bytes, [&](const auto& request, auto& response) {
          return placement_.PlaceModels(request, response, Patience());
        });
  }
  void Find(absl::string_view bytes) {
    Run<v1::FindDevicesRequest, v1::FindDevicesResponse>(
        bytes, [&](const auto& request, auto& response) {
          return placement_.FindDevices(request, response, Patience());
        });
  }
  void Bounds(absl::string_view bytes) {
    Run<v1::GetBoundsRequest, v1::GetBoundsResponse>(
        bytes, [&](const auto& request, auto& response) {
          return placement_.GetBounds(request, response);
        });
  }

  // What the worker reads of a request for text.
  void Generate(absl::string_view bytes) {
    Run<v1::GenerateRequest, v1::GenerateResponse>(
        bytes, [](const auto& request, auto&) -> absl::Status {
          ASSIGN_OR_RETURN(
              worker::GenerateOptions options,
              FromProto(request.sampling(), request.stopping(),
                        request.response(), request.context_policy()));
          RETURN_IF_ERROR(FillRoll(request.roll(), options));
          RETURN_IF_ERROR(
              FillConstraint(request, options, Patience()).status());
          CheckOptions(options);
          if (!request.has_chat()) return absl::OkStatus();
          RETURN_IF_ERROR(FromProto(request.chat()).status());
          return ToolsFrom(request.chat().tools(), "chat.tools").status();
        });
  }
  void OpenSession(absl::string_view bytes) {
    Run<v1::OpenSessionRequest, v1::OpenSessionResponse>(
        bytes,
        [](const auto& request, auto&) { return FromProto(request).status(); });
  }

  static void CheckOptions(const worker::GenerateOptions& options) {
    using worker::GenerateOptions;
    PLIMSOLL_CHECK(worker::ValidateSampling(options.sampling).ok(),
                   "what a message says is a way to draw");
    PLIMSOLL_CHECK(
        std::ssize(options.stop_strings) <= GenerateOptions::kMaxStopStrings &&
            std::ssize(options.stop_tokens) <= GenerateOptions::kMaxStopTokens,
        "what ends a reply is limited");
    PLIMSOLL_CHECK(options.top_logprobs <= GenerateOptions::kMaxTopLogprobs &&
                       options.max_tokens >= 0 &&
                       options.draft_tokens.value_or(0) >= 0,
                   "counts are within their limits");
  }

  static planner::DeviceCatalogue Catalogue() {
    auto catalogue = planner::DeviceCatalogue::Parse(
        "name,title,kind,memory_bytes,memory_basis,bandwidth_bytes_per_s,year,"
        "source\n"
        "small,Small,gpu,8589934592,nominal,100000000000,2020,a page\n");
    PLIMSOLL_CHECK(catalogue.ok(), "the catalogue is good");
    return *std::move(catalogue);
  }

  Ledger ledger_{BootTime};
  Planner planner_{{}, ledger_};
  PlacementQueries placement_{{[this](const v1::ModelSource& source) {
                                 return planner_.ShapeOf(source);
                               },
                               [this](v1::ListDevicesResponse& devices) {
                                 return ledger_.ListDevices(devices);
                               }},
                              Catalogue()};
  v1::Lease newest_;
};

}  // namespace
}  // namespace plimsoll::services

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  google::protobuf::SetLogHandler(nullptr);  // most messages are broken
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 3;
  plimsoll::services::Calls calls;
  size_t at = 0;
  for (int i = 0; i < plimsoll::services::kMaxCalls && at + kHead <= size;
       ++i) {
    const uint8_t kind = data[at];
    const size_t n_bytes = std::min<size_t>(
        data[at + 1] + size_t{256} * data[at + 2], size - at - kHead);
    at += kHead;
    calls.Make(kind, {reinterpret_cast<const char*>(data + at), n_bytes});
    at += n_bytes;
  }
  return 0;
}
