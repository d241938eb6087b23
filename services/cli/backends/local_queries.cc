// Supplies the planner's queries about devices and fleets.
#include "services/cli/backends/local_queries.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status_macros.h"
#include "planner/layout/device_profile.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/host/runtime/runtime_key.h"
#include "services/sources/catalogue_file.h"
#include "services/sources/header_bytes.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {

v1::ListDevicesResponse LocalDevices() {
  v1::ListDevicesResponse response;
  v1::Device& device = *response.add_devices();
  *device.mutable_profile() = services::ToProto(
      services::LocalProfile({.n_threads = worker::UsableThreads()}));
  device.set_available_bytes(device.profile().free_bytes());
  return response;
}

absl::StatusOr<services::PlacementQueries> LocalQueries(
    const std::string& catalogue_path) {
  ASSIGN_OR_RETURN(planner::DeviceCatalogue catalogue,
                   services::LoadCatalogue(catalogue_path));
  services::PlacementSources sources{
      .shape_of = [](const v1::ModelSource& source)
          -> absl::StatusOr<std::shared_ptr<const planner::ModelShape>> {
        ASSIGN_OR_RETURN(
            planner::ModelShape shape,
            services::ShapeFromHeaderBytes(source.header().gguf(),
                                           source.header().file_bytes()));
        return std::make_shared<const planner::ModelShape>(std::move(shape));
      },
      .list_devices =
          [](v1::ListDevicesResponse& devices) {
            devices = LocalDevices();
            return absl::OkStatus();
          }};
  return services::PlacementQueries(std::move(sources), std::move(catalogue));
}

absl::StatusOr<RequestedModel> RequestModel(const std::string& model,
                                            PlanWhere where) {
  RequestedModel requested;
  const std::string path = ResolveModel(model);
  std::error_code error;
  if (where == PlanWhere::kPlanner && !std::filesystem::exists(path, error)) {
    requested.source.set_model(model);
    requested.n_ctx_train = std::numeric_limits<uint32_t>::max();
    return requested;
  }
  ASSIGN_OR_RETURN(const services::PlanSource source, OpenPlannable(path));
  v1::ModelHeader& header = *requested.source.mutable_header();
  header.set_gguf(services::HeaderBytes(source.header, source.shape.vocab));
  // If there is no file, the size is at least that of the header.
  header.set_file_bytes(std::max<uint64_t>(
      services::ToUint64(source.header.file_bytes), header.gguf().size()));
  requested.n_ctx_train = source.shape.n_ctx_train;
  return requested;
}

std::optional<int64_t> SizeOfDevice(absl::string_view name) {
  // Some devices have numbers as names: "4090" does not mean 4,090 bytes.
  if (name.empty() ||
      absl::ascii_isdigit(static_cast<unsigned char>(name.back()))) {
    return std::nullopt;
  }
  const auto bytes = ParseBytes(name);
  if (!bytes.ok()) return std::nullopt;
  return *bytes;
}

void RequestDevice(const std::string& name, v1::DeviceToFill& device) {
  const std::optional<int64_t> bytes = SizeOfDevice(name);
  if (!bytes) {
    device.set_catalogue_name(name);
    return;
  }
  planner::DeviceProfile profile = planner::CommittedCpuProfile();
  profile.id = name;
  profile.name = name;
  profile.total_bytes = *bytes;
  profile.free_bytes = *bytes;
  *device.mutable_profile() = services::ToProto(profile);
}

}  // namespace plimsoll::cli
