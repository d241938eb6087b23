#include "services/planner/placement_queries.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/fleet/bounds.h"
#include "planner/fleet/placement.h"
#include "planner/layout/memory_plan.h"
#include "services/planner/request_shapes.h"
#include "services/wire/errors.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

using planner::PlacementProblem;

// A device that a request names.
using Target = planner::TargetDevice;

absl::StatusOr<Target> RegisteredTarget(const std::string& id,
                                        const v1::ListDevicesResponse& known) {
  for (const v1::Device& device : known.devices()) {
    if (device.profile().id() != id) continue;
    ASSIGN_OR_RETURN(planner::DeviceProfile profile,
                     FromProto(device.profile()));
    ASSIGN_OR_RETURN(const int64_t available,
                     Signed(device.available_bytes(), "available_bytes"));
    return Target{std::move(profile), available, std::nullopt};
  }
  return NoSuchDevice(absl::NotFoundError("no such device is registered"), id);
}

absl::StatusOr<Target> CatalogueTarget(
    const std::string& name, const planner::DeviceCatalogue& catalogue) {
  const auto device = catalogue.Get(name);
  if (!device.ok()) return NoSuchDevice(device.status(), name);
  return Target{planner::ProfileOf(*device), device->memory_bytes,
                device->bandwidth_bytes_per_s};
}

absl::StatusOr<Target> ProfileTarget(const v1::DeviceProfile& message) {
  ASSIGN_OR_RETURN(planner::DeviceProfile profile, FromProto(message));
  const int64_t free_bytes = profile.free_bytes;
  return Target{std::move(profile), free_bytes, std::nullopt};
}

// Returns the device of a DeviceToFill or a GetBoundsRequest.
template <typename Message>
absl::StatusOr<Target> TargetOf(const Message& message,
                                const v1::ListDevicesResponse& registered,
                                const planner::DeviceCatalogue& catalogue) {
  switch (message.device_case()) {
    case Message::kDeviceId:
      return RegisteredTarget(message.device_id(), registered);
    case Message::kCatalogueName:
      return CatalogueTarget(message.catalogue_name(), catalogue);
    case Message::kProfile:
      return ProfileTarget(message.profile());
    default:
      return absl::InvalidArgumentError(
          "device: a device_id, a catalogue_name or a profile is needed");
  }
}

absl::Status CheckName(absl::string_view name, absl::string_view field) {
  if (!name.empty() && name.size() <= PlacementQueries::kMaxNameBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, " must have 1 to ", PlacementQueries::kMaxNameBytes, " bytes"));
}

absl::Status CheckCount(int count, int64_t max, absl::string_view field) {
  if (count <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": more than ", max, " of them"));
}

// Holds the devices of a request for the pure planner, and adds them to the
// problem. Devices for which all plans are equal are in one class.
class Fleet {
 public:
  // `problem` must outlive this object.
  explicit Fleet(PlacementProblem& problem) : problem_(problem) {}

  absl::Status Add(const std::string& id, Target target) {
    v1::DeviceProfile kind = ToProto(target.profile);
    kind.clear_id();
    kind.clear_name();
    kind.clear_total_bytes();
    kind.clear_free_bytes();
    kind.clear_runtime_note();
    const auto [found, is_new] = classes_.try_emplace(
        kind.SerializeAsString(), static_cast<int64_t>(profiles_.size()));
    if (is_new) profiles_.push_back(target.profile);
    if (profiles_.size() > static_cast<size_t>(PlacementProblem::kMaxClasses)) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices: more than ", PlacementProblem::kMaxClasses,
                       " different kinds"));
    }
    problem_.devices.push_back({id, found->second, target.budget_bytes});
    problem_.n_classes = static_cast<int64_t>(profiles_.size());
    names_.push_back(std::move(target.profile.name));
    return absl::OkStatus();
  }

  // Returns the profiles of one device of each class.
  const std::vector<planner::DeviceProfile>& profiles() const {
    return profiles_;
  }
  // Returns the name of device `index`.
  const std::string& Name(size_t index) const { return names_[index]; }

 private:
  PlacementProblem& problem_;
  std::map<std::string, int64_t> classes_;
  std::vector<planner::DeviceProfile> profiles_;
  std::vector<std::string> names_;
};

// Adds all devices of the request or, if it has none, those that are
// registered.
absl::Status AddDevices(const v1::PlaceModelsRequest& request,
                        const v1::ListDevicesResponse& registered,
                        const planner::DeviceCatalogue& catalogue,
                        Fleet& fleet) {
  RETURN_IF_ERROR(CheckCount(request.devices_size(),
                             PlacementProblem::kMaxDevices, "devices"));
  for (const v1::DeviceToFill& device : request.devices()) {
    ASSIGN_OR_RETURN(Target target, TargetOf(device, registered, catalogue));
    if (device.has_available_bytes()) {
      ASSIGN_OR_RETURN(target.budget_bytes,
                       Signed(device.available_bytes(), "available_bytes"));
    }
    const std::string& id =
        device.id().empty() ? device.device_id() : device.id();
    RETURN_IF_ERROR(CheckName(id, "devices.id"));
    RETURN_IF_ERROR(fleet.Add(id, std::move(target)));
  }
  if (request.devices_size() > 0) return absl::OkStatus();
  for (const v1::Device& device : registered.devices()) {
    const std::string& id = device.profile().id();
    ASSIGN_OR_RETURN(Target target, RegisteredTarget(id, registered));
    RETURN_IF_ERROR(fleet.Add(id, std::move(target)));
  }
  return absl::OkStatus();
}

// A model as it is to be loaded.
struct Replica {
  const planner::ModelShape& shape;
  planner::PlanOptions options;
};

// Sets the bytes of one replica on each class of device.
absl::Status FillBytes(Replica replica, const Fleet& fleet, StopCheck stop,
                       planner::PlacementModel& model) {
  if (!replica.options.n_ctx) {
    replica.options.n_ctx =
        std::min(replica.shape.n_ctx_train, PlacementQueries::kDefaultContext);
  }
  for (size_t c = 0; c < fleet.profiles().size(); ++c) {
    RETURN_IF_ERROR(stop());
    const auto plan =
        planner::Layout(replica.shape, replica.options, fleet.profiles()[c],
                        PlacementProblem::kMaxBytes);
    if (!plan.ok()) {
      return absl::Status(
          plan.status().code(),
          absl::StrCat(model.name, ": ", plan.status().message()));
    }
    if (plan->not_runnable.empty()) model.bytes[c] = plan->total_bytes;
  }
  return absl::OkStatus();
}

v1::UnplacedModel Describe(const planner::UnplacedModel& unplaced,
                           const PlacementProblem& problem) {
  v1::UnplacedModel message;
  message.set_name(problem.models[static_cast<size_t>(unplaced.model)].name);
  message.set_n_replicas(ToUint32(unplaced.n_replicas));
  message.set_n_cannot_run(ToUint32(unplaced.n_cannot_run));
  message.set_n_spread_limit(ToUint32(unplaced.n_spread_limit));
  message.set_n_too_small(ToUint32(unplaced.n_too_small));
  message.set_n_full(ToUint32(unplaced.n_full));
  message.set_reason(unplaced.reason);
  if (unplaced.closest_device < 0) return message;
  message.set_closest_device_id(
      problem.devices[static_cast<size_t>(unplaced.closest_device)].id);
  message.set_closest_free_bytes(ToUint64(unplaced.closest_free_bytes));
  message.set_needed_bytes(ToUint64(unplaced.needed_bytes));
  message.set_missing_bytes(ToUint64(unplaced.missing_bytes));
  return message;
}

void FillResponse(const PlacementProblem& problem, const Fleet& fleet,
                  const planner::Placement& placement,
                  v1::PlaceModelsResponse& response) {
  for (size_t d = 0; d < problem.devices.size(); ++d) {
    v1::FilledDevice& device = *response.add_devices();
    device.set_id(problem.devices[d].id);
    device.set_name(fleet.Name(d));
    device.set_available_bytes(ToUint64(problem.devices[d].available_bytes));
    device.set_used_bytes(ToUint64(placement.used_bytes[d]));
  }
  for (size_t m = 0; m < problem.models.size(); ++m) {
    const planner::PlacementModel& model = problem.models[m];
    const std::vector<int64_t>& devices = placement.devices_of[m];
    // Replicas on one device are adjacent.
    for (size_t first = 0; first < devices.size();) {
      const int64_t d = devices[first];
      size_t last = first;
      while (last < devices.size() && devices[last] == d) ++last;
      const int64_t device_class =
          problem.devices[static_cast<size_t>(d)].device_class;
      v1::PlacedModel& placed =
          *response.mutable_devices(static_cast<int>(d))->add_models();
      placed.set_name(model.name);
      placed.set_n_replicas(static_cast<uint32_t>(last - first));
      placed.set_bytes(
          ToUint64(model.bytes[static_cast<size_t>(device_class)].value_or(0)));
      first = last;
    }
  }
  for (const planner::UnplacedModel& unplaced : placement.unplaced) {
    *response.add_unplaced() = Describe(unplaced, problem);
  }
  response.set_n_wanted(ToUint32(placement.n_wanted));
  response.set_n_placed(ToUint32(placement.n_placed));
  response.set_n_devices_used(ToUint32(placement.n_devices_used));
  response.set_max_placed_bound(ToUint32(placement.max_placed_bound));
  response.set_min_devices_bound(ToUint32(placement.min_devices_bound));
  response.set_is_optimal(placement.is_optimal);
  response.set_wanted_bytes(ToUint64(placement.wanted_bytes));
  response.set_available_bytes(ToUint64(placement.available_bytes));
}

v1::CatalogueDevice Describe(const planner::CatalogueDevice& device) {
  v1::CatalogueDevice message;
  message.set_name(device.name);
  message.set_title(device.title);
  message.set_kind(device.kind);
  message.set_memory_bytes(ToUint64(device.memory_bytes));
  message.set_memory_basis(device.memory_basis == planner::MemoryBasis::kDriver
                               ? v1::MEMORY_BASIS_DRIVER
                               : v1::MEMORY_BASIS_NOMINAL);
  message.set_bandwidth_bytes_per_s(ToUint64(device.bandwidth_bytes_per_s));
  message.set_year(ToUint32(device.year));
  message.set_source(device.source);
  return message;
}

v1::DeviceBounds Describe(const planner::DeviceBounds& bounds) {
  v1::DeviceBounds message;
  const v1::MemoryPlan plan = ToProto(bounds.plan);
  message.set_n_ctx(plan.n_ctx());
  message.set_n_ctx_limit(plan.n_ctx_limit());
  message.set_total_bytes(plan.total_bytes());
  message.set_max_sessions(ToUint32(bounds.max_sessions));
  if (bounds.tokens_per_gib) {
    message.set_tokens_per_gib(ToUint64(*bounds.tokens_per_gib));
  }
  if (bounds.decode) {
    v1::DecodeBound& decode = *message.mutable_decode();
    decode.set_basis(v1::BASIS_ESTIMATED);
    decode.set_weight_bytes(ToUint64(bounds.decode->weight_bytes));
    decode.set_kv_bytes(ToUint64(bounds.decode->kv_bytes));
    decode.set_tokens_per_s(bounds.decode->tokens_per_s);
  }
  return message;
}

// Returns the error of a plan that does not fit.
absl::Status DoesNotFit(const planner::ModelShape& shape,
                        const planner::PlanOptions& options,
                        const Target& target) {
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(shape, options, target.profile, target.budget_bytes));
  return WithDetails(absl::ResourceExhaustedError(absl::StrCat(
                         "the model does not fit: wants ", plan.total_bytes,
                         " bytes, there are ", plan.budget_bytes)),
                     {v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED,
                      {{"wanted_bytes", absl::StrCat(plan.total_bytes)},
                       {"available_bytes", absl::StrCat(plan.budget_bytes)},
                       {"missing_bytes", absl::StrCat(plan.missing_bytes)}},
                      std::nullopt});
}

}  // namespace

absl::StatusOr<std::vector<PlacementQueries::Shape>> PlacementQueries::ShapesOf(
    const v1::PlaceModelsRequest& request, int64_t n_classes,
    StopCheck stop) const {
  RequestShapes shapes(sources_.shape_of);
  std::vector<Shape> all;
  int64_t n_layers = 0;
  for (const v1::ModelToPlace& message : request.models()) {
    RETURN_IF_ERROR(stop());
    ASSIGN_OR_RETURN(all.emplace_back(), shapes.Get(message.source()));
    n_layers += all.back()->n_layers;
    const int64_t n_layer_plans =
        n_layers * n_classes + shapes.n_made_layers() * kShapeLayerPlans;
    if (n_layer_plans <= kMaxLayerPlans) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        all.size(), " of the models on ", n_classes,
        " kinds of devices need plans of ", n_layer_plans,
        " layers, shapes included, at most ", kMaxLayerPlans,
        " are made; place fewer models or on fewer kinds at a time"));
  }
  return all;
}

absl::Status PlacementQueries::PlaceModels(
    const v1::PlaceModelsRequest& request, v1::PlaceModelsResponse& response,
    StopCheck stop) const {
  RETURN_IF_ERROR(CheckCount(request.models_size(),
                             PlacementProblem::kMaxModels, "models"));
  v1::ListDevicesResponse registered;
  RETURN_IF_ERROR(sources_.list_devices(registered));
  PlacementProblem problem;
  Fleet fleet(problem);
  RETURN_IF_ERROR(AddDevices(request, registered, catalogue_, fleet));
  const int64_t n_plans = request.models_size() * problem.n_classes;
  if (n_plans > kMaxPlans) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.models_size(), " models on ", problem.n_classes,
        " kinds of devices need ", n_plans, " plans, at most ", kMaxPlans,
        " are made; place fewer models or on fewer kinds at a time"));
  }
  for (const v1::ModelToPlace& message : request.models()) {
    RETURN_IF_ERROR(CheckName(message.name(), "models.name"));
    planner::PlacementModel model;
    model.name = message.name();
    model.priority = message.priority();
    if (message.has_n_replicas()) model.n_replicas = message.n_replicas();
    model.bytes.resize(fleet.profiles().size());
    problem.models.push_back(std::move(model));
  }
  if (request.has_max_replicas_per_device()) {
    problem.max_replicas_per_device = request.max_replicas_per_device();
  }
  // Plans cost more than all else, so mistakes in the request are found before
  // any plan is made.
  RETURN_IF_ERROR(planner::ValidatePlacement(problem));
  ASSIGN_OR_RETURN(const std::vector<Shape> shapes,
                   ShapesOf(request, problem.n_classes, stop));
  for (size_t m = 0; m < shapes.size(); ++m) {
    ASSIGN_OR_RETURN(const planner::PlanOptions options,
                     FromProto(request.models(static_cast<int>(m)).options()));
    RETURN_IF_ERROR(
        FillBytes({*shapes[m], options}, fleet, stop, problem.models[m]));
  }
  ASSIGN_OR_RETURN(const planner::Placement placement,
                   planner::PlaceModels(problem, stop));
  FillResponse(problem, fleet, placement, response);
  return absl::OkStatus();
}

absl::Status PlacementQueries::ListCatalogue(
    v1::ListCatalogueResponse& response) const {
  for (const planner::CatalogueDevice& device : catalogue_.devices()) {
    *response.add_devices() = Describe(device);
  }
  return absl::OkStatus();
}

absl::Status PlacementQueries::FindDevices(
    const v1::FindDevicesRequest& request, v1::FindDevicesResponse& response,
    StopCheck stop) const {
  ASSIGN_OR_RETURN(const auto shape, sources_.shape_of(request.source()));
  ASSIGN_OR_RETURN(const planner::PlanOptions options,
                   FromProto(request.options()));
  ASSIGN_OR_RETURN(const std::vector<planner::FittingDevice> fitting,
                   planner::FittingDevices(*shape, options, catalogue_, stop));
  for (const planner::FittingDevice& device : fitting) {
    v1::FittingDevice& message = *response.add_devices();
    *message.mutable_device() = Describe(device.device);
    *message.mutable_bounds() = Describe(device.bounds);
  }
  return absl::OkStatus();
}

absl::Status PlacementQueries::GetBounds(
    const v1::GetBoundsRequest& request,
    v1::GetBoundsResponse& response) const {
  ASSIGN_OR_RETURN(const auto shape, sources_.shape_of(request.source()));
  ASSIGN_OR_RETURN(const planner::PlanOptions options,
                   FromProto(request.options()));
  v1::ListDevicesResponse registered;
  RETURN_IF_ERROR(sources_.list_devices(registered));
  ASSIGN_OR_RETURN(Target target, TargetOf(request, registered, catalogue_));
  if (request.has_budget_bytes()) {
    ASSIGN_OR_RETURN(target.budget_bytes,
                     Signed(request.budget_bytes(), "budget_bytes"));
  }
  if (request.has_bandwidth_bytes_per_s()) {
    ASSIGN_OR_RETURN(
        target.bandwidth_bytes_per_s,
        Signed(request.bandwidth_bytes_per_s(), "bandwidth_bytes_per_s"));
  }
  ASSIGN_OR_RETURN(const std::optional<planner::DeviceBounds> bounds,
                   planner::BoundsOn(*shape, options, target));
  if (!bounds) return DoesNotFit(*shape, options, target);
  *response.mutable_bounds() = Describe(*bounds);
  return absl::OkStatus();
}

}  // namespace plimsoll::services
