// `plimsoll models`: lists the models in the cache, or those of a worker.
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"
#include "services/wire/to_proto.h"
#include "worker/device/model_file.h"

namespace plimsoll::cli {
namespace {

constexpr char kModelsDescription[] =
    "List the models in the cache, or those of a worker\n"
    "The cache is ${XDG_CACHE_HOME:-~/.cache}/plimsoll/models; a file there "
    "can be named without its folder wherever a model is wanted.";

constexpr char kModelsFooter[] =
    "Examples:\n"
    "  plimsoll models\n"
    "  plimsoll models describe model.gguf\n"
    "  plimsoll models --address localhost:7071 -o json";

v1::ListModelsResponse CachedModelList() {
  v1::ListModelsResponse response;
  for (const std::string& path : CachedModels()) {
    v1::Model& model = *response.add_models();
    model.set_name(std::filesystem::path(path).filename().string());
    model.set_state(v1::MODEL_STATE_ABSENT);
    const auto file = worker::ModelFile::Open(path);
    if (!file.ok()) {
      model.set_last_error(std::string(file.status().message()));
      continue;
    }
    const planner::ModelShape& shape = (*file)->shape();
    model.set_architecture(shape.architecture);
    model.set_display_name(shape.name);
    model.set_n_ctx_train(services::ToUint32(shape.n_ctx_train));
  }
  return response;
}

absl::StatusOr<v1::ListModelsResponse> WorkerModelList(
    const Endpoint& address) {
  const v1::ListModelsRequest request;
  v1::ListModelsResponse response;
  const auto stub = v1::ModelService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ListModels(context, &request, &response,
                                  std::move(done));
      },
      address));
  return response;
}

std::string StateName(v1::ModelState state) {
  absl::string_view name = v1::ModelState_Name(state);
  absl::ConsumePrefix(&name, "MODEL_STATE_");
  return absl::AsciiStrToLower(name);
}

std::string CacheTable(const v1::ListModelsResponse& response,
                       const Style& style) {
  Table table({{"model"},
               {"size", Align::kRight},
               {"context", Align::kRight},
               {"architecture"}});
  for (const v1::Model& model : response.models()) {
    std::error_code error;
    const auto size = std::filesystem::file_size(
        std::filesystem::path(CacheDirectory()) / model.name(), error);
    table.AddRow(
        {Printable(model.name()),
         error ? "" : FormatBytes(static_cast<int64_t>(size)),
         model.has_n_ctx_train() ? FormatCount(model.n_ctx_train()) : "",
         Printable(model.last_error().empty() ? model.architecture()
                                              : model.last_error())});
  }
  return table.Render(style);
}

std::string WorkerTable(const v1::ListModelsResponse& response,
                        const Style& style) {
  Table table({{"model"},
               {"state"},
               {"memory", Align::kRight},
               {"context", Align::kRight},
               {"slots", Align::kRight},
               {"running", Align::kRight},
               {"waiting", Align::kRight},
               {"architecture"}});
  for (const v1::Model& model : response.models()) {
    const bool ready = model.state() == v1::MODEL_STATE_READY;
    table.AddRow(
        {Printable(model.name()), StateName(model.state()),
         ready ? FormatBytes(static_cast<int64_t>(model.total_bytes())) : "",
         ready ? FormatCount(model.n_ctx()) : "",
         ready ? absl::StrCat(model.n_slots()) : "",
         ready ? absl::StrCat(model.running()) : "",
         ready ? absl::StrCat(model.waiting()) : "",
         Printable(model.last_error().empty() ? model.architecture()
                                              : model.last_error())});
  }
  return table.Render(style);
}

absl::Status RunModels(const std::string& output, const Commands& commands) {
  const Endpoint& address = commands.globals.address;
  Streams& streams = commands.streams;
  v1::ListModelsResponse response;
  if (address.empty()) {
    response = CachedModelList();
  } else {
    ASSIGN_OR_RETURN(response, WorkerModelList(address));
  }
  if (output == "json") return PrintJson(response, streams.out);
  if (response.models().empty()) {
    streams.err
        << (address.empty()
                ? absl::StrCat(
                      "no models in ", CacheDirectory(),
                      "; 'plimsoll pull' or scripts/fetch_model.sh gets one\n")
                : "the worker has no models\n");
    return absl::OkStatus();
  }
  streams.out << (address.empty() ? CacheTable(response, streams.out_style)
                                  : WorkerTable(response, streams.out_style));
  return absl::OkStatus();
}

}  // namespace

void AddModels(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("models", kModelsDescription);
  command->footer(kModelsFooter);
  auto output = std::make_shared<std::string>();
  AddOutput(*command, output.get(), {"table", "json"});
  command->require_subcommand(0, 1);
  AddDescribe(*command, commands);
  command->callback([command, output, &commands] {
    if (!command->get_subcommands().empty()) return;
    commands.run = [output, &commands] { return RunModels(*output, commands); };
  });
}

}  // namespace plimsoll::cli
