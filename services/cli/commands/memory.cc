// `plimsoll memory`: shows what was planned beside what was measured.
#include <memory>

#include "base/status_macros.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/views/memory_view.h"
#include "services/wire/model_parts.h"

namespace plimsoll::cli {
namespace {

constexpr char kMemoryDescription[] =
    "Show a loaded model's memory: planned beside measured\n"
    "With --address it is a worker's model. Otherwise --model FILE is loaded "
    "here, measured and unloaded again.";

constexpr char kMemoryFooter[] =
    "Examples:\n"
    "  plimsoll memory --model model.gguf --n-ctx 4096\n"
    "  plimsoll memory --address localhost:7071 -o json";

struct MemoryFlags {
  std::string model;
  LoadFlags load;
  std::string output;
};

absl::StatusOr<v1::GetMemoryResponse> MemoryHere(const MemoryFlags& flags,
                                                 Streams& streams) {
  if (flags.model.empty()) {
    return UsageError(
        "there is no model; give --model FILE to load it here, or --address "
        "HOST:PORT of a worker");
  }
  const InterruptScope interrupts;
  ASSIGN_OR_RETURN(const LoadedModel model,
                   LoadHere(flags.model, {.flags = flags.load}, streams));
  v1::GetMemoryResponse response =
      services::MemoryToProto(*model.engine, model.used_names);
  response.set_model(model.name);
  return response;
}

absl::StatusOr<v1::GetMemoryResponse> MemoryThere(const std::string& model,
                                                  const Endpoint& address) {
  v1::GetMemoryRequest request;
  request.set_model(model);
  v1::GetMemoryResponse response;
  const auto stub = v1::ModelService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->GetMemory(context, &request, &response, std::move(done));
      },
      address));
  return response;
}

absl::Status RunMemory(const MemoryFlags& flags, const Commands& commands) {
  Streams& streams = commands.streams;
  const Endpoint& address = commands.globals.address;
  ASSIGN_OR_RETURN(const v1::GetMemoryResponse response,
                   address.empty() ? MemoryHere(flags, streams)
                                   : MemoryThere(flags.model, address));
  if (flags.output == "json") return PrintJson(response, streams.out);
  streams.out << RenderMemory(response, streams.out_style);
  return absl::OkStatus();
}

}  // namespace

void AddMemory(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("memory", kMemoryDescription);
  command->footer(kMemoryFooter);
  auto flags = std::make_shared<MemoryFlags>();
  command
      ->add_option("--model", flags->model,
                   "A GGUF file, a name in the cache, or with --address a "
                   "configured model")
      ->type_name("FILE");
  AddOutput(*command, &flags->output, {"table", "json"});
  AddLoadFlags(*command, &flags->load);
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunMemory(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
