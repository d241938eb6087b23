// `plimsoll place`: decides which replica of which model goes on which device.
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "planner/fleet/csv.h"
#include "planner/fleet/device_catalogue.h"
#include "planner/fleet/placement.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/local_queries.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/json.h"
#include "services/cli/views/place_view.h"
#include "services/wire/to_proto.h"

namespace plimsoll::cli {
namespace {

using planner::PlacementProblem;

constexpr char kPlaceDescription[] =
    "Place replicas of models on the devices of a fleet\n"
    "It places as many replicas as fit, higher priorities first, on as few "
    "devices as possible. It reads the files' headers only; every model gets "
    "the context of --n-ctx (4096). Exit code 3 if a replica found no place; "
    "the reason is then shown.";

constexpr char kPlaceFooter[] =
    "Examples:\n"
    "  plimsoll place --device rtx-4090:2 --device 8GiB --model big.gguf:3 \\\n"
    "    --model small.gguf:4\n"
    "  plimsoll place --fleet fleet.csv --model m.gguf:8 --max-per-device 1\n"
    "  plimsoll place --planner localhost:7070 --model gemma:2  # its devices\n"
    "\n"
    "A fleet's file has the lines 'id,device,available_bytes' (the header) "
    "and\n"
    "'node1/0,rtx-4090,' or 'node1/1,rtx-4090,20000000000' for each device.";

struct PlaceFlags {
  std::vector<std::string> models;
  std::vector<std::string> devices;
  std::string fleet;
  std::string catalogue;
  std::optional<int64_t> max_per_device;
  LoadFlags load;
  std::string output;
};

// Takes the number after the last ':' off `text`. Returns `otherwise` if there
// is none. A ':' within a name stays.
absl::StatusOr<int64_t> TakeNumber(std::string& text, int64_t otherwise,
                                   int64_t min, int64_t max) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 == text.size()) return otherwise;
  const std::string number = text.substr(colon + 1);
  const bool is_number =
      number.find_first_not_of("-0123456789") == std::string::npos;
  if (!is_number) return otherwise;
  const auto value = ParseCount(number, min, max);
  if (!value.ok()) {
    return UsageError(absl::StrCat(text, ": ", value.status().message()));
  }
  text.resize(colon);
  return *value;
}

// Parses FILE[:REPLICAS[:PRIORITY]]. Adds the model's name to `names`.
absl::StatusOr<v1::ModelToPlace> ParseModel(const std::string& text,
                                            const PlaceFlags& flags,
                                            PlanWhere where,
                                            std::set<std::string>& names) {
  constexpr int64_t kPriority = std::numeric_limits<int32_t>::max();
  std::string shorter = text;
  ASSIGN_OR_RETURN(const int64_t last,
                   TakeNumber(shorter, 1, -kPriority, kPriority));
  std::string shortest = shorter;
  int64_t replicas = last;
  int64_t priority = 0;
  if (shorter != text) {
    ASSIGN_OR_RETURN(
        const int64_t first,
        TakeNumber(shortest, 0, 1, PlacementProblem::kMaxReplicas));
    if (first > 0) {
      replicas = first;
      priority = last;
    }
  }
  if (replicas < 1 || replicas > PlacementProblem::kMaxReplicas) {
    return UsageError(absl::StrCat("--model ", text, ": replicas must be 1 to ",
                                   PlacementProblem::kMaxReplicas));
  }
  ASSIGN_OR_RETURN(const RequestedModel requested,
                   RequestModel(shortest, where));
  v1::ModelToPlace model;
  const std::string file = std::filesystem::path(shortest).filename().string();
  const std::string name(absl::StripSuffix(file, ".gguf"));
  model.set_name(name);
  for (int copy = 2; !names.insert(model.name()).second; ++copy) {
    model.set_name(absl::StrCat(name, "#", copy));
  }
  *model.mutable_source() = requested.source;
  model.set_n_replicas(services::ToUint32(replicas));
  model.set_priority(static_cast<int32_t>(priority));
  const planner::PlanOptions options =
      ToPlanOptions(flags.load, requested.n_ctx_train, ContextDefault::kShort);
  *model.mutable_options() = services::ToProto(options);
  return model;
}

// Parses NAME[:COUNT] of all --device flags; the ids are NAME, or NAME/1,
// NAME/2, ...
absl::Status AddDevices(const std::vector<std::string>& devices,
                        v1::PlaceModelsRequest& request) {
  std::vector<std::pair<std::string, int64_t>> counted;
  std::map<std::string, int64_t> totals;
  int64_t n_devices = 0;
  for (std::string name : devices) {
    ASSIGN_OR_RETURN(const int64_t count,
                     TakeNumber(name, 1, 1, PlacementProblem::kMaxDevices));
    n_devices += count;
    totals[name] += count;
    counted.emplace_back(name, count);
    if (n_devices > PlacementProblem::kMaxDevices) {
      return UsageError(absl::StrCat(
          "more than ", PlacementProblem::kMaxDevices, " devices"));
    }
  }
  std::map<std::string, int64_t> next;
  for (const auto& [name, count] : counted) {
    for (int64_t i = 0; i < count; ++i) {
      v1::DeviceToFill& device = *request.add_devices();
      RequestDevice(name, device);
      device.set_id(totals[name] == 1 ? name
                                      : absl::StrCat(name, "/", ++next[name]));
    }
  }
  return absl::OkStatus();
}

absl::Status AddFleet(const std::string& path, std::istream& in,
                      v1::PlaceModelsRequest& request) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadText(path, in, planner::CsvRow::kMaxTextBytes));
  const auto fleet = planner::ParseFleet(text);
  if (!fleet.ok()) return Prefixed(absl::StrCat(path, ": "), fleet.status());
  for (const planner::FleetDevice& entry : *fleet) {
    v1::DeviceToFill& device = *request.add_devices();
    RequestDevice(entry.device, device);
    device.set_id(entry.id);
    if (entry.available_bytes) {
      device.set_available_bytes(services::ToUint64(*entry.available_bytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::PlaceModelsRequest> ToRequest(const PlaceFlags& flags,
                                                 const Commands& commands) {
  v1::PlaceModelsRequest request;
  const PlanWhere where =
      commands.globals.planner.empty() ? PlanWhere::kHere : PlanWhere::kPlanner;
  std::set<std::string> names;
  for (const std::string& model : flags.models) {
    ASSIGN_OR_RETURN(*request.add_models(),
                     ParseModel(model, flags, where, names));
  }
  RETURN_IF_ERROR(AddDevices(flags.devices, request));
  if (!flags.fleet.empty()) {
    RETURN_IF_ERROR(AddFleet(flags.fleet, commands.streams.in, request));
  }
  if (flags.max_per_device) {
    request.set_max_replicas_per_device(
        services::ToUint32(*flags.max_per_device));
  }
  return request;
}

absl::StatusOr<v1::PlaceModelsResponse> Ask(
    const v1::PlaceModelsRequest& request, const Endpoint& address) {
  v1::PlaceModelsResponse response;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->PlaceModels(context, &request, &response,
                                   std::move(done));
      },
      address));
  return response;
}

absl::Status CheckFlags(const PlaceFlags& flags, const GlobalFlags& globals) {
  if (flags.models.empty()) {
    return UsageError("there is no model; name one: --model FILE[:REPLICAS]");
  }
  if (flags.load.n_ctx.kind == ContextFlag::Kind::kAuto) {
    return UsageError(
        "models that share devices leave no longest context that fits; give "
        "--n-ctx N or max");
  }
  if (globals.planner.empty() && !globals.address.empty()) {
    return UsageError(
        "a worker does not place models; give --planner HOST:PORT, or no "
        "address to place them in this process");
  }
  if (globals.planner.empty() && flags.devices.empty() && flags.fleet.empty()) {
    return UsageError(
        "there is no device; name some: --device NAME[:COUNT] or --fleet FILE");
  }
  if (!globals.planner.empty() && !flags.catalogue.empty()) {
    return UsageError("a planner has its own catalogue; drop --catalogue");
  }
  return absl::OkStatus();
}

absl::Status RunPlace(const PlaceFlags& flags, const Commands& commands) {
  const GlobalFlags& globals = commands.globals;
  RETURN_IF_ERROR(CheckFlags(flags, globals));
  ASSIGN_OR_RETURN(const v1::PlaceModelsRequest request,
                   ToRequest(flags, commands));
  v1::PlaceModelsResponse placement;
  if (globals.planner.empty()) {
    ASSIGN_OR_RETURN(const services::PlacementQueries queries,
                     LocalQueries(flags.catalogue));
    RETURN_IF_ERROR(queries.PlaceModels(request, placement));
  } else {
    ASSIGN_OR_RETURN(placement, Ask(request, globals.planner));
  }
  return Show({.message = placement,
               .text = RenderPlacement(placement, commands.streams.out_style),
               .verdict = placement.unplaced().empty()
                              ? absl::OkStatus()
                              : DoesNotFit(Certificates(placement))},
              flags.output, commands.streams);
}

}  // namespace

void AddPlace(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("place", kPlaceDescription);
  command->footer(kPlaceFooter);
  auto flags = std::make_shared<PlaceFlags>();
  command
      ->add_option("--model", flags->models,
                   "A GGUF file, a name in the cache or, with --planner, a "
                   "configured model; replicas (1); priority (0), a higher one "
                   "goes first. May be given several times")
      ->type_name("FILE[:N[:P]]")
      ->allow_extra_args(false);
  command
      ->add_option("--device", flags->devices,
                   "A device of the catalogue, or a size such as 24GiB, and "
                   "how many of it. May be given several times")
      ->type_name("NAME[:COUNT]")
      ->allow_extra_args(false);
  command
      ->add_option("--fleet", flags->fleet,
                   "A CSV file of devices, or - for standard input")
      ->type_name("FILE");
  command
      ->add_option("--catalogue", flags->catalogue,
                   "A CSV file of devices beside those that are known")
      ->type_name("FILE");
  AddCount(*command, &flags->max_per_device,
           {.name = "--max-per-device",
            .min = 1,
            .max = PlacementProblem::kMaxReplicas,
            .help = "Replicas of one model on one device at most"});
  AddPlanFlags(*command, &flags->load);
  // The memory is the devices' own, so this flag would mean nothing.
  command->remove_option(command->get_option("--device-memory"));
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunPlace(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
