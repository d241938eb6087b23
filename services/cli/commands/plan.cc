// `plimsoll plan`: shows what a model would take of a device's memory.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "planner/layout/runtime_profile.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/local_queries.h"
#include "services/cli/backends/plan_many.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/views/plan_view.h"
#include "services/cli/views/pod_view.h"
#include "services/host/device_list.h"
#include "services/sources/catalogue_file.h"
#include "services/sources/header_bytes.h"
#include "services/wire/to_proto.h"
#include "worker/device/compute_device.h"
#include "worker/device/host_resources.h"
#include "worker/graph/decoder/runnable.h"

namespace plimsoll::cli {
namespace {

constexpr char kPlanDescription[] =
    "Plan a model's memory: every byte, the longest context, what to try\n"
    "Reads the file's header only. Without --n-ctx it finds the longest "
    "context that fits; without --device-memory the budget is what this "
    "machine has available now. Exit code 3 if the model does not fit.";

constexpr char kPlanFooter[] =
    "Examples:\n"
    "  plimsoll plan model.gguf --device-memory 12GiB\n"
    "  plimsoll plan model.gguf --device rtx-4090 --n-ctx 8192 --slots 4\n"
    "  plimsoll plan model.gguf --kv-type f32 --max-inference-len 32 -o json\n"
    "  plimsoll plan big-00001-of-00003.gguf --device-memory 80GiB\n"
    "  plimsoll plan repo/config.json --device-memory 24GiB  # no weights\n"
    "  plimsoll plan big.gguf --with draft.gguf --device-memory 24GiB\n"
    "  plimsoll plan gemma-4b.gguf --projector mmproj.gguf\n"
    "  plimsoll plan big.gguf --split 24GiB,24GiB\n"
    "  plimsoll plan big.gguf --device rtx-4090,rtx-4090,cpu\n"
    "  plimsoll plan gemma --planner localhost:7070   # a configured model\n"
    "  plimsoll plan model.gguf --n-ctx 8192 --slots 4 --threads 4 -o k8s";

struct PlanFlags {
  std::string model;
  LoadFlags load;
  std::string device;
  std::vector<std::string> with;
  std::string projector;
  std::vector<int64_t> split;
  std::string output;
};

struct Planned {
  v1::MemoryPlan plan;
  std::string title;
};

// Returns true if --device names a device of this machine.
bool IsLocal(absl::string_view device) {
  return device.empty() || device == "cpu" || absl::StartsWith(device, "cuda:");
}

// Returns the devices of --device: one, or those that share the layers, in
// order.
std::vector<std::string> NamesOf(const PlanFlags& flags) {
  if (flags.device.empty()) return {"cpu"};
  return absl::StrSplit(flags.device, ',');
}

// A device with the memory that may be used. It is a device of the catalogue,
// with all of its memory, if that has the name; else one of this machine.
struct Here {
  std::string name;
  // Null if it is not of this machine.
  std::unique_ptr<worker::ComputeDevice> device;
  planner::SplitDevice target;
};
absl::StatusOr<Here> DeviceHere(const std::string& name,
                                const planner::ModelShape& shape,
                                const LoadFlags& flags,
                                std::optional<int64_t> budget_bytes) {
  if (IsLocal(name)) {
    ASSIGN_OR_RETURN(services::ComputeDevices devices,
                     OpenDevices({name}, flags));
    planner::SplitDevice target =
        BudgetHere(shape, flags, *devices.front(), budget_bytes);
    return Here{target.profile.name, std::move(devices.front()),
                std::move(target)};
  }
  ASSIGN_OR_RETURN(const planner::DeviceCatalogue catalogue,
                   services::LoadCatalogue(""));
  ASSIGN_OR_RETURN(const planner::CatalogueDevice device, catalogue.Get(name));
  return Here{device.title,
              nullptr,
              {planner::ProfileOf(device),
               std::min(device.memory_bytes,
                        budget_bytes.value_or(device.memory_bytes))}};
}

// The options for a plan on this device. The host of a device of the catalogue
// is not known.
planner::PlanOptions OptionsFor(const PlanFlags& flags,
                                const planner::ModelShape& shape,
                                const Here& here) {
  planner::PlanOptions options = ToPlanOptions(
      flags.load, shape.n_ctx_train, ContextDefault::kLongestThatFits);
  options.host_budget_bytes =
      worker::HostBudgetBytes(options, here.device.get());
  return options;
}

absl::StatusOr<Planned> PlanEmbedded(const PlanFlags& flags) {
  const std::string path = ResolveModel(flags.model);
  ASSIGN_OR_RETURN(const auto memory, MemoryOfEach(flags.load, 1));
  ASSIGN_OR_RETURN(const services::PlanSource source, OpenPlannable(path));
  ASSIGN_OR_RETURN(const Here here,
                   DeviceHere(NamesOf(flags).front(), source.shape, flags.load,
                              memory.front()));
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(source.shape, OptionsFor(flags, source.shape, here),
                      here.target.profile, here.target.budget_bytes));
  return Planned{services::ToProto(plan),
                 absl::StrCat(std::filesystem::path(path).filename().string(),
                              " on ", here.name)};
}

// Plans one model over the devices of --device. A device of the catalogue may
// be named several times, a device of this machine only once.
absl::StatusOr<v1::PlanSplitResponse> PlanDevices(
    const PlanFlags& flags, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const auto memory, MemoryOfEach(flags.load, names.size()));
  std::vector<std::string> local;
  for (const std::string& name : names) {
    if (IsLocal(name)) local.push_back(name);
  }
  if (!local.empty()) {
    const auto checked = services::ParseDevices(absl::StrJoin(local, ","));
    if (!checked.ok()) return UsageError(checked.status().message());
  }
  ASSIGN_OR_RETURN(const services::PlanSource source,
                   OpenPlannable(ResolveModel(flags.model)));
  std::vector<planner::SplitDevice> devices;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const Here here,
                     DeviceHere(names[i], source.shape, flags.load, memory[i]));
    devices.push_back(here.target);
  }
  ASSIGN_OR_RETURN(
      const planner::SplitPlan split,
      planner::SplitLayers(source.shape,
                           ToPlanOptions(flags.load, source.shape.n_ctx_train,
                                         ContextDefault::kLongestThatFits),
                           devices));
  return services::ToProto(split, devices);
}

absl::StatusOr<v1::PlanRequest> ToRequest(const PlanFlags& flags) {
  v1::PlanRequest request;
  ASSIGN_OR_RETURN(RequestedModel model,
                   RequestModel(flags.model, PlanWhere::kPlanner));
  *request.mutable_source() = std::move(model.source);
  *request.mutable_options() = services::ToProto(ToPlanOptions(
      flags.load, model.n_ctx_train, ContextDefault::kLongestThatFits));
  if (!flags.device.empty()) {
    request.set_device_id(flags.device);
  } else {
    *request.mutable_profile() = services::ToProto(worker::LocalCpuProfile());
  }
  ASSIGN_OR_RETURN(const auto memory, MemoryOfEach(flags.load, 1));
  if (memory.front().has_value()) {
    request.set_budget_bytes(services::ToUint64(*memory.front()));
  }
  return request;
}

absl::StatusOr<Planned> PlanRemote(const PlanFlags& flags,
                                   const Endpoint& address) {
  ASSIGN_OR_RETURN(const v1::PlanRequest request, ToRequest(flags));
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  v1::PlanResponse response;
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->Plan(context, &request, &response, std::move(done));
      },
      address));
  return Planned{
      response.plan(),
      absl::StrCat(std::filesystem::path(flags.model).filename().string(),
                   " on ",
                   flags.device.empty() ? worker::LocalCpuProfile().name
                                        : flags.device)};
}

// Returns the verdict for several models, or for one model on several devices.
template <typename Plan>
absl::Status VerdictOf(const Plan& plan) {
  return plan.fits() ? absl::OkStatus() : DoesNotFit("the plan does not fit");
}

// Plans several models, or one model on several devices. The command does this
// only in this process and refuses --planner.
absl::Status RunMany(const PlanFlags& flags, const Commands& commands) {
  const std::vector<std::string> names = NamesOf(flags);
  if (!commands.globals.planner.empty()) {
    return UsageError(
        "--with, --split and several devices plan in this process; leave out "
        "--planner (the calls are PlanSet and PlanSplit)");
  }
  const int n_ways = (flags.with.empty() ? 0 : 1) +
                     (flags.split.empty() ? 0 : 1) + (names.size() > 1 ? 1 : 0);
  if (n_ways > 1) {
    return UsageError(
        "of --with, --split and several devices in --device only one goes");
  }
  Streams& streams = commands.streams;
  if (names.size() > 1) {
    ASSIGN_OR_RETURN(const v1::PlanSplitResponse split,
                     PlanDevices(flags, names));
    return Show(
        {.message = split,
         .text = RenderSplit(split, names, streams.out_style),
         .verdict = split.fits() ? absl::OkStatus() : DoesNotFit(split, names)},
        flags.output, streams);
  }
  if (!flags.split.empty()) {
    ASSIGN_OR_RETURN(const v1::PlanSplitResponse split,
                     PlanSplitHere(flags.model, flags.split, flags.load));
    return Show({.message = split,
                 .text = RenderSplit(split, {}, streams.out_style),
                 .verdict = VerdictOf(split)},
                flags.output, streams);
  }
  std::vector<std::string> models = {flags.model};
  models.insert(models.end(), flags.with.begin(), flags.with.end());
  ASSIGN_OR_RETURN(const v1::PlanSetResponse set,
                   PlanSetHere(models, flags.load));
  return Show({.message = set,
               .text = RenderSet(set, models, streams.out_style),
               .verdict = VerdictOf(set)},
              flags.output, streams);
}

// Plans the model as the worker of a new pod does.
absl::StatusOr<std::string> PlanPod(const PlanFlags& flags) {
  const std::string path = ResolveModel(flags.model);
  const std::string file = std::filesystem::path(path).filename().string();
  if (const absl::Status status = CheckPodFile(file); !status.ok()) {
    return UsageError(status.message());
  }
  ASSIGN_OR_RETURN(const auto memory, MemoryOfEach(flags.load, 1));
  ASSIGN_OR_RETURN(const services::PlanSource source, OpenPlannable(path));
  ASSIGN_OR_RETURN(Here here, DeviceHere(NamesOf(flags).front(), source.shape,
                                         flags.load, memory.front()));
  planner::DeviceProfile& profile = here.target.profile;
  const planner::RuntimeLoad load = {.n_threads = flags.load.threads > 0
                                                      ? flags.load.threads
                                                      : worker::UsableThreads(),
                                     .n_slots = flags.load.slots,
                                     .n_rows = flags.load.n_ubatch,
                                     .n_vocab = source.shape.vocab_size};
  const PodModel model = {.file = file,
                          .device = profile.kind == "cpu" ? "cpu" : "cuda:0",
                          .n_threads = load.n_threads,
                          .runtime_bytes = PlanAsWorker(load, profile)};
  ASSIGN_OR_RETURN(
      const planner::MemoryPlan plan,
      planner::Layout(source.shape, OptionsFor(flags, source.shape, here),
                      profile, here.target.budget_bytes));
  RETURN_IF_ERROR(worker::CheckRunnable(source.shape, plan));
  if (!plan.fits) return DoesNotFit(services::ToProto(plan));
  return RenderPod(plan, model);
}

absl::Status RunPod(const PlanFlags& flags, const Commands& commands) {
  if (!commands.globals.planner.empty() || !flags.with.empty() ||
      !flags.split.empty() || NamesOf(flags).size() > 1) {
    return UsageError(
        "-o k8s is for one model on one device and plans in this process; "
        "leave out --planner, --with and --split, and name one --device");
  }
  ASSIGN_OR_RETURN(const std::string manifests, PlanPod(flags));
  commands.streams.out << manifests;
  return absl::OkStatus();
}

absl::Status RunPlan(PlanFlags flags, const Commands& commands) {
  const GlobalFlags& globals = commands.globals;
  if (flags.model.empty()) {
    return UsageError("there is no model; name a file: plimsoll plan FILE");
  }
  if (!flags.projector.empty()) {
    ASSIGN_OR_RETURN(flags.load.projector, OpenProjector(flags.projector));
  }
  if (flags.output == "k8s") return RunPod(flags, commands);
  if (!flags.with.empty() || !flags.split.empty() ||
      NamesOf(flags).size() > 1) {
    return RunMany(flags, commands);
  }
  if (globals.planner.empty() && !globals.address.empty()) {
    return UsageError(
        "a worker does not plan; give --planner HOST:PORT, or no address to "
        "plan in this process");
  }
  ASSIGN_OR_RETURN(const Planned planned,
                   globals.planner.empty()
                       ? PlanEmbedded(flags)
                       : PlanRemote(flags, globals.planner));
  Streams& streams = commands.streams;
  return Show(
      {.message = planned.plan,
       .text = RenderPlan(planned.plan, planned.title, streams.out_style),
       .verdict =
           planned.plan.fits() ? absl::OkStatus() : DoesNotFit(planned.plan)},
      flags.output, streams);
}

}  // namespace

void AddPlan(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("plan", kPlanDescription);
  command->footer(kPlanFooter);
  auto flags = std::make_shared<PlanFlags>();
  command
      ->add_option("FILE,--model", flags->model,
                   "A GGUF file or the first of several, a config.json, a name "
                   "in the cache, or with --planner a configured model")
      ->type_name("FILE");
  AddPlanFlags(*command, &flags->load);
  AddEngineFlags(*command, &flags->load);
  command
      ->add_option(
          "--device", flags->device,
          "A device of the catalogue ('plimsoll devices --catalogue'), or of "
          "this machine: cpu, cuda:0; several with commas share the layers in "
          "this order; with --planner a registered one")
      ->type_name("NAME[,...]")
      ->group("Memory");
  command
      ->add_option("--with", flags->with,
                   "Another model in the same process, such as a draft; may be "
                   "given several times")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group("Memory");
  command
      ->add_option("--projector", flags->projector,
                   "The model's multimodal projector, an mmproj GGUF file")
      ->type_name("FILE")
      ->group("Memory");
  AddParsed(
      *command, &flags->split, ParseBudgets,
      {.name = "--split",
       .type = "BYTES,...",
       .help = "Layers over several devices with these budgets, in order"})
      ->group("Memory");
  AddThreads(*command, &flags->load);
  AddOutput(*command, &flags->output, {"table", "json", "k8s"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunPlan(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
