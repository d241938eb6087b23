// `plimsoll memory`: shows what was planned beside what was measured.
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/model.grpc.pb.h"
#include "services/cli/backends/embedded.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"
#include "services/cli/views/plan_view.h"
#include "services/wire/model_parts.h"

namespace plimsoll::cli {
namespace {

constexpr char kMemoryDescription[] =
    "Show a loaded model's memory: planned beside measured\n"
    "With --address of a worker's model; else --model FILE is loaded here, "
    "measured and left again.";

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
                   LoadHere(flags.model, flags.load, ChatWish(), streams));
  v1::GetMemoryResponse response =
      services::MemoryToProto(*model.engine, model.used_names);
  response.set_model(model.name);
  return response;
}

absl::StatusOr<v1::GetMemoryResponse> MemoryThere(const std::string& model,
                                                  const std::string& address) {
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

// Returns a table of the arenas of a model on several devices; empty if it is
// on one.
std::string PartsTable(const v1::GetMemoryResponse& response,
                       const Style& style) {
  if (response.parts().empty()) return "";
  Table table({{"device"},
               {"layers"},
               {"plan", Align::kRight},
               {"arena planned", Align::kRight},
               {"measured", Align::kRight}});
  const auto count = [](uint64_t bytes) {
    return FormatCount(static_cast<int64_t>(bytes));
  };
  for (const v1::ModelPart& part : response.parts()) {
    table.AddRow({Printable(part.device_id()),
                  absl::StrCat(part.first_layer(), "-",
                               part.first_layer() + part.n_layers() - 1),
                  count(part.total_bytes()),
                  count(part.measured().planned_bytes()),
                  count(part.measured().allocated_bytes())});
  }
  return absl::StrCat(table.Render(style), "\n");
}

std::string PlannedBesideMeasured(const v1::GetMemoryResponse& response,
                                  const Style& style) {
  const v1::MemoryReport& measured = response.measured();
  Table table({{""},
               {"planned", Align::kRight},
               {"measured", Align::kRight},
               {"planned - measured", Align::kRight}});
  const auto add = [&](const char* name, uint64_t planned, uint64_t got) {
    const auto plan = static_cast<int64_t>(planned);
    const auto is = static_cast<int64_t>(got);
    table.AddRow(
        {name, FormatCount(plan), FormatCount(is), FormatCount(plan - is)});
  };
  uint64_t vocab = 0;
  for (const v1::MemoryRegion& region : response.plan().regions()) {
    if (region.name() == "vocab") vocab = region.bytes();
  }
  add("arena", measured.planned_bytes(), measured.allocated_bytes());
  add("vocab", vocab, measured.vocab_bytes());
  // The reply does not say which of several devices is the host.
  if (response.parts().empty()) {
    add("peak resident", response.plan().total_bytes(),
        measured.peak_rss_bytes());
  }
  return absl::StrCat(
      table.Render(style), "\n  device allocations after load: ",
      measured.device_allocations_after_load(), "\n  resident now: ",
      FormatCount(static_cast<int64_t>(response.rss_bytes())), "\n");
}

absl::Status RunMemory(const MemoryFlags& flags, const Commands& commands) {
  Streams& streams = commands.streams;
  const std::string& address = commands.globals.address;
  ASSIGN_OR_RETURN(const v1::GetMemoryResponse response,
                   address.empty() ? MemoryHere(flags, streams)
                                   : MemoryThere(flags.model, address));
  if (flags.output == "json") return PrintJson(response, streams.out);
  const std::string title =
      response.parts().empty()
          ? response.model()
          : absl::StrCat(response.model(), " on ",
                         response.parts(0).device_id(), ", its first device");
  streams.out << RenderPlan(response.plan(), title, streams.out_style) << "\n"
              << PartsTable(response, streams.out_style)
              << PlannedBesideMeasured(response, streams.out_style);
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
