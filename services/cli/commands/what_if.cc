// `plimsoll what-if`: shows many plans of one model side by side.
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/local_queries.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/commands/what_if_request.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/views/what_if_svg.h"
#include "services/cli/views/what_if_view.h"
#include "services/planner/what_if_queries.h"
#include "services/wire/from_proto.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"

namespace plimsoll::cli {
namespace {

constexpr char kWhatIfDescription[] =
    "Compare many plans of a model: contexts, slots, types, devices\n"
    "Each flag below takes a list; every combination is planned from the "
    "file's header. A map shows how full the device is (for --n-ctx auto: the "
    "tokens that fit); the plans that no other beats are marked with * and "
    "listed. Exit code 3 if nothing fits.";

constexpr char kWhatIfFooter[] =
    "Examples:\n"
    "  plimsoll what-if model.gguf --device-memory 8GiB,12GiB,24GiB\n"
    "  plimsoll what-if model.gguf --n-ctx 8192,auto --slots 1,4,16 \\\n"
    "      --kv-type f16,f32 --weights file,q8_0\n"
    "  plimsoll what-if model.gguf --rows kv-type --columns device -o csv\n"
    "  plimsoll what-if model.gguf --svg map.svg";

absl::Status AskHere(const v1::WhatIfRequest& request,
                     const planner::ModelShape& shape,
                     v1::WhatIfResponse& all) {
  std::vector<planner::WhatIfAxes::Device> devices;
  for (const v1::WhatIfDevice& device : request.devices()) {
    ASSIGN_OR_RETURN(planner::DeviceProfile profile,
                     services::FromProto(device.profile()));
    const int64_t budget = device.has_budget_bytes()
                               ? static_cast<int64_t>(device.budget_bytes())
                               : profile.free_bytes;
    devices.push_back({std::move(profile), budget});
  }
  ASSIGN_OR_RETURN(planner::WhatIf grid,
                   services::ToWhatIf(request, shape, std::move(devices)));
  services::WhatIfMessages messages(std::move(grid));
  while (true) {
    ASSIGN_OR_RETURN(const auto message, messages.Next());
    if (!message.has_value()) return absl::OkStatus();
    all.MergeFrom(*message);
  }
}

absl::Status AskPlanner(const v1::WhatIfRequest& request,
                        const Endpoint& address, v1::WhatIfResponse& all) {
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kUnaryTimeout);
  const auto reader = stub->WhatIf(&context, request);
  v1::WhatIfResponse message;
  while (reader->Read(&message)) all.MergeFrom(message);
  return CallStatus(reader->Finish(), address);
}

absl::StatusOr<GridAnswer> Ask(const WhatIfFlags& flags,
                               const Endpoint& planner) {
  GridAnswer answer;
  const std::string path = ResolveModel(flags.model);
  std::error_code error;
  const bool is_configured =
      !planner.empty() && !std::filesystem::exists(path, error);
  answer.title = std::filesystem::path(path).filename().string();
  if (is_configured) {
    v1::WhatIfRequest request = ToRequest(flags, kMostContext, answer);
    request.mutable_source()->set_model(flags.model);
    RETURN_IF_ERROR(AskPlanner(request, planner, answer.all));
    return answer;
  }
  if (planner.empty()) {
    ASSIGN_OR_RETURN(const services::PlanSource source, OpenPlannable(path));
    const v1::WhatIfRequest request =
        ToRequest(flags, source.shape.n_ctx_train, answer);
    RETURN_IF_ERROR(AskHere(request, source.shape, answer.all));
    return answer;
  }
  ASSIGN_OR_RETURN(RequestedModel model,
                   RequestModel(flags.model, PlanWhere::kPlanner));
  v1::WhatIfRequest request = ToRequest(flags, model.n_ctx_train, answer);
  *request.mutable_source() = std::move(model.source);
  RETURN_IF_ERROR(AskPlanner(request, planner, answer.all));
  return answer;
}

// Returns the rows and columns that the user asked for, else contexts and
// slots. An axis with a single value is replaced by another one that has more.
absl::StatusOr<MapAxes> ChooseAxes(const WhatIfFlags& flags,
                                   const GridAnswer& answer) {
  const auto choose = [&](std::optional<GridAxis> wanted,
                          std::optional<GridAxis> taken, GridAxis usual) {
    if (wanted) return *wanted;
    if (answer.Labels(usual).size() > 1 && usual != taken) return usual;
    for (GridAxis axis :
         {GridAxis::kContext, GridAxis::kSlots, GridAxis::kKvType,
          GridAxis::kWeights, GridAxis::kDevice, GridAxis::kUbatch}) {
      if (axis != taken && answer.Labels(axis).size() > 1) return axis;
    }
    return usual != taken ? usual : GridAxis::kKvType;
  };
  MapAxes axes;
  axes.rows = choose(flags.rows, flags.columns, GridAxis::kContext);
  axes.columns = choose(flags.columns, axes.rows, GridAxis::kSlots);
  if (axes.rows == axes.columns) {
    return UsageError(absl::StrCat("--rows and --columns are both ",
                                   GridAxisName(axes.rows)));
  }
  return axes;
}

absl::Status WriteSvg(const GridAnswer& answer, const MapAxes& axes,
                      const std::vector<GridPanel>& panels,
                      const std::string& path) {
  const auto svg = RenderSvg(answer, axes, panels);
  if (!svg.ok()) {
    return UsageError(absl::StrCat("--svg: ", svg.status().message()));
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << *svg;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("'", Printable(path),
                   "' could not be written; is there such a folder, "
                   "and room on the disk?"));
}

absl::Status RunWhatIf(const WhatIfFlags& flags, const Commands& commands) {
  const GlobalFlags& globals = commands.globals;
  if (flags.model.empty()) {
    return UsageError("there is no model; name a file: plimsoll what-if FILE");
  }
  if (globals.planner.empty() && !globals.address.empty()) {
    return UsageError(
        "a worker does not plan; give --planner HOST:PORT, or no address to "
        "plan in this process");
  }
  if (globals.planner.empty() && !flags.devices.empty()) {
    return UsageError("--device names a planner's device; give --planner too");
  }
  ASSIGN_OR_RETURN(const GridAnswer answer, Ask(flags, globals.planner));
  ASSIGN_OR_RETURN(const MapAxes axes, ChooseAxes(flags, answer));
  ASSIGN_OR_RETURN(const auto panels, PanelsOf(answer, axes));
  if (!flags.svg.empty()) {
    RETURN_IF_ERROR(WriteSvg(answer, axes, panels, flags.svg));
  }
  Streams& streams = commands.streams;
  if (flags.output == "json") {
    RETURN_IF_ERROR(PrintJson(answer.all, streams.out));
  } else if (flags.output == "csv") {
    streams.out << RenderCsv(answer);
  } else {
    streams.out << RenderGrid(answer, axes, panels, streams.out_style);
  }
  if (!answer.all.frontier().empty()) return absl::OkStatus();
  const absl::Status verdict = DoesNotFit("none of the plans fits");
  return flags.output == "table" ? AlreadySaid(verdict) : verdict;
}

}  // namespace

void AddWhatIf(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("what-if", kWhatIfDescription);
  command->footer(kWhatIfFooter);
  auto flags = std::make_shared<WhatIfFlags>();
  command
      ->add_option("FILE,--model", flags->model,
                   "A GGUF file, a name in the cache, or with --planner a "
                   "configured model")
      ->type_name("FILE");
  AddAxisFlags(*command, flags.get());
  AddCount(
      *command, &flags->max_inference_len,
      {.name = "--max-inference-len",
       .min = 1,
       .help =
           "Upper limit on context, KV and every buffer that grows with it"});
  const std::string axes = "n-ctx|slots|kv-type|n-ubatch|weights|device";
  AddParsed(*command, &flags->rows, ParseGridAxis,
            {.name = "--rows",
             .type = axes,
             .help = "Axis of the map's rows (n-ctx)"});
  AddParsed(
      *command, &flags->columns, ParseGridAxis,
      {.name = "--columns",
       .type = axes,
       .help =
           "Axis of the map's columns (slots); the others are maps of their "
           "own"});
  command->add_option("--svg", flags->svg, "Also write the maps as a picture")
      ->type_name("FILE");
  AddOutput(*command, &flags->output, {"table", "csv", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunWhatIf(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
