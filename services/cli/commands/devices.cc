// `plimsoll devices`: shows this machine's CPU, the devices of a planner (once,
// or every change), or those of the catalogue.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/device_watch.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/local_queries.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"
#include "services/cli/views/catalogue_view.h"
#include "services/wire/to_proto.h"

namespace plimsoll::cli {
namespace {

constexpr char kDevicesDescription[] =
    "List this machine's device, a planner's, or those of the catalogue\n"
    "'available' is the memory that a new model could get now. Without a "
    "planner it is what the system and its cgroup leave; with a planner, what "
    "its leases and the headroom, which is kept free, leave. --catalogue lists "
    "the real devices that are known by name. --fits lists those of them that "
    "a model fits on, with its largest context there.";

constexpr char kDevicesFooter[] =
    "Examples:\n"
    "  plimsoll devices\n"
    "  plimsoll devices --planner localhost:7070 -o json\n"
    "  plimsoll devices --planner localhost:7070 --watch\n"
    "  plimsoll devices --catalogue\n"
    "  plimsoll devices --fits model.gguf --n-ctx 8192 --catalogue mine.csv";

struct DevicesFlags {
  bool wants_catalogue = false;
  std::string catalogue;  // the user's own file; may be empty
  std::string fits;       // a model
  LoadFlags load;
  std::string output;
  bool watch = false;
};

absl::StatusOr<v1::ListDevicesResponse> PlannerDevices(
    const Endpoint& address) {
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

// Asks the planner with `remote`, or this process with `local`.
template <typename Response, typename Local, typename Remote>
absl::StatusOr<Response> AskCatalogue(const DevicesFlags& flags,
                                      const GlobalFlags& globals,
                                      const Local& local,
                                      const Remote& remote) {
  Response response;
  if (globals.planner.empty()) {
    ASSIGN_OR_RETURN(const services::PlacementQueries queries,
                     LocalQueries(flags.catalogue));
    RETURN_IF_ERROR(local(queries, response));
    return response;
  }
  if (!flags.catalogue.empty()) {
    return UsageError("a planner has its own catalogue; name no file");
  }
  const auto stub = v1::PlannerService::NewStub(Connect(globals.planner));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        remote(*stub->async(), context, &response, std::move(done));
      },
      globals.planner));
  return response;
}

absl::Status RunCatalogue(const DevicesFlags& flags, const Commands& commands) {
  const v1::ListCatalogueRequest request;
  ASSIGN_OR_RETURN(
      const auto response,
      AskCatalogue<v1::ListCatalogueResponse>(
          flags, commands.globals,
          [](const services::PlacementQueries& queries, auto& answer) {
            return queries.ListCatalogue(answer);
          },
          [&request](auto& async, auto* context, auto* answer, auto done) {
            async.ListCatalogue(context, &request, answer, std::move(done));
          }));
  Streams& streams = commands.streams;
  if (flags.output == "json") return PrintJson(response, streams.out);
  streams.out << RenderCatalogue(response, streams.out_style);
  return absl::OkStatus();
}

absl::Status RunFits(const DevicesFlags& flags, const Commands& commands) {
  const PlanWhere where =
      commands.globals.planner.empty() ? PlanWhere::kHere : PlanWhere::kPlanner;
  ASSIGN_OR_RETURN(RequestedModel model, RequestModel(flags.fits, where));
  v1::FindDevicesRequest request;
  *request.mutable_source() = std::move(model.source);
  *request.mutable_options() = services::ToProto(ToPlanOptions(
      flags.load, model.n_ctx_train, ContextDefault::kLongestThatFits));
  ASSIGN_OR_RETURN(
      const auto response,
      AskCatalogue<v1::FindDevicesResponse>(
          flags, commands.globals,
          [&request](const services::PlacementQueries& queries, auto& answer) {
            return queries.FindDevices(request, answer);
          },
          [&request](auto& async, auto* context, auto* answer, auto done) {
            async.FindDevices(context, &request, answer, std::move(done));
          }));
  absl::Status verdict =
      response.devices().empty()
          ? DoesNotFit("the model fits on no device of the catalogue")
          : absl::OkStatus();
  Streams& streams = commands.streams;
  if (flags.output == "json") {
    RETURN_IF_ERROR(PrintJson(response, streams.out));
  } else if (verdict.ok()) {
    streams.out << RenderFitting(response, streams.out_style);
  }
  return verdict;
}

template <typename Devices>
std::string DeviceTable(const Devices& devices, const Style& style) {
  Table table({{"device"},
               {"total", Align::kRight},
               {"held", Align::kRight},
               {"headroom", Align::kRight},
               {"available", Align::kRight},
               {"name"}});
  for (const v1::Device& device : devices) {
    const std::string name = Printable(device.profile().name());
    table.AddRow(
        {Printable(device.profile().id()),
         FormatBytes(static_cast<int64_t>(device.profile().total_bytes())),
         FormatBytes(static_cast<int64_t>(device.held_bytes())),
         FormatBytes(static_cast<int64_t>(device.headroom_bytes())),
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
      RETURN_IF_ERROR(PrintJson(devices, streams.out, JsonForm::kLine,
                                EmptyLists::kPrinted));
    } else {
      streams.out << DeviceTable(devices.devices(), streams.out_style) << "\n";
    }
    streams.out.flush();
    // A pipe whose reader has gone ends the watch.
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
  if (!flags.fits.empty()) return RunFits(flags, commands);
  if (flags.wants_catalogue) return RunCatalogue(flags, commands);
  v1::ListDevicesResponse response;
  if (globals.planner.empty()) {
    response = LocalDevices();
  } else {
    ASSIGN_OR_RETURN(response, PlannerDevices(globals.planner));
  }
  Streams& streams = commands.streams;
  if (flags.output == "json") return PrintJson(response, streams.out);
  streams.out << DeviceTable(response.devices(), streams.out_style);
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("devices", kDevicesDescription);
  command->footer(kDevicesFooter);
  auto flags = std::make_shared<DevicesFlags>();
  CLI::Option* catalogue =
      command
          ->add_option("--catalogue", flags->catalogue,
                       "The devices that are known by name; FILE adds your own "
                       "to them")
          ->type_name("[FILE]")
          ->expected(0, 1);
  command
      ->add_option("--fits", flags->fits,
                   "Only devices of the catalogue that this model fits on, the "
                   "smallest first")
      ->type_name("MODEL");
  AddPlanFlags(*command, &flags->load);
  // The memory is the devices' own, so this flag would mean nothing.
  command->remove_option(command->get_option("--device-memory"));
  AddOutput(*command, &flags->output, {"table", "json"});
  command->add_flag("--watch", flags->watch,
                    "Go on, and show the planner's devices after every change "
                    "(as JSON: one line each)");
  command->callback([flags, catalogue, &commands] {
    flags->wants_catalogue = catalogue->count() > 0;
    commands.run = [flags, &commands] { return RunDevices(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
