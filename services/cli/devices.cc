// `plimsoll devices`: this machine's CPU, or the devices of a planner, once or
// for as long as they change.
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/bytes.h"
#include "services/cli/commands.h"
#include "services/cli/device_watch.h"
#include "services/cli/failure.h"
#include "services/cli/json.h"
#include "services/cli/remote.h"
#include "services/cli/table.h"
#include "services/common/to_proto.h"
#include "worker/device.h"

namespace plimsoll::cli {
namespace {

constexpr char kDescription[] =
    "List this machine's device, or the devices of a planner\n"
    "'available' is what a new model could get now: without a planner what the "
    "system and its cgroup leave, with one what its leases leave.";

constexpr char kFooter[] =
    "Examples:\n"
    "  plimsoll devices\n"
    "  plimsoll devices --planner localhost:7070 -o json\n"
    "  plimsoll devices --planner localhost:7070 --watch";

struct DevicesFlags {
  std::string output;
  bool watch = false;
};

v1::ListDevicesResponse LocalDevices() {
  v1::ListDevicesResponse response;
  v1::Device& device = *response.add_devices();
  *device.mutable_profile() = services::ToProto(worker::LocalCpuProfile());
  device.set_available_bytes(device.profile().free_bytes());
  return response;
}

absl::StatusOr<v1::ListDevicesResponse> PlannerDevices(
    const std::string& address) {
  const v1::ListDevicesRequest request;
  v1::ListDevicesResponse response;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ListDevices(context, &request, &response,
                                   std::move(done));
      },
      address));
  return response;
}

template <typename Devices>
std::string DeviceTable(const Devices& devices, const Style& style) {
  Table table({{"device"},
               {"total", Align::kRight},
               {"held", Align::kRight},
               {"available", Align::kRight},
               {"name"}});
  for (const v1::Device& device : devices) {
    const std::string name = Printable(device.profile().name());
    table.AddRow(
        {Printable(device.profile().id()),
         FormatBytes(static_cast<int64_t>(device.profile().total_bytes())),
         FormatBytes(static_cast<int64_t>(device.held_bytes())),
         FormatBytes(static_cast<int64_t>(device.available_bytes())),
         device.unhealthy() ? absl::StrCat(name, " (unhealthy)") : name});
  }
  return table.Render(style);
}

absl::Status RunWatch(const DevicesFlags& flags, const Commands& commands) {
  if (commands.globals.planner.empty()) {
    return UsageError("--watch needs a planner; give --planner HOST:PORT");
  }
  Streams& streams = commands.streams;
  const auto show = [&](const v1::WatchDevicesResponse& devices) {
    if (flags.output == "json") {
      auto json = ToJson(devices, JsonForm::kLine, /*keep_empty=*/true);
      if (!json.ok()) return json.status();
      streams.out << *json;
    } else {
      streams.out << DeviceTable(devices.devices(), streams.out_style) << "\n";
    }
    streams.out.flush();
    // A pipe that nobody reads any more ends the watch.
    return streams.out.good() ? absl::OkStatus()
                              : absl::DataLossError("the output was closed");
  };
  return WatchDevices(commands.globals.planner, show);
}

absl::Status RunDevices(const DevicesFlags& flags, const Commands& commands) {
  const GlobalFlags& globals = commands.globals;
  if (flags.watch) return RunWatch(flags, commands);
  if (globals.planner.empty() && !globals.address.empty()) {
    return UsageError(
        "a worker does not list devices; give --planner HOST:PORT, or no "
        "address for this machine");
  }
  v1::ListDevicesResponse response;
  if (globals.planner.empty()) {
    response = LocalDevices();
  } else {
    ASSIGN_OR_RETURN(response, PlannerDevices(globals.planner));
  }
  Streams& streams = commands.streams;
  if (flags.output == "json") {
    ASSIGN_OR_RETURN(const std::string json,
                     ToJson(response, JsonForm::kPretty));
    streams.out << json;
    return absl::OkStatus();
  }
  streams.out << DeviceTable(response.devices(), streams.out_style);
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("devices", kDescription);
  command->footer(kFooter);
  auto flags = std::make_shared<DevicesFlags>();
  AddOutput(*command, &flags->output, {"table", "json"});
  command->add_flag("--watch", flags->watch,
                    "Go on, and show the planner's devices after every change "
                    "(as JSON: one line each)");
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunDevices(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
