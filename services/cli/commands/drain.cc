// `plimsoll drain`: a worker refuses new calls and ends those that run.
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/views/activity_view.h"

namespace plimsoll::cli {
namespace {

constexpr char kDrainDescription[] =
    "Make a worker refuse new calls and finish those that run\n"
    "From then on it is not ready. The process stays until a signal ends it; a "
    "drain cannot be undone. --wait returns once nothing is in flight, however "
    "long that takes.";

constexpr char kDrainFooter[] =
    "Examples:\n"
    "  plimsoll drain --address localhost:7071\n"
    "  plimsoll drain --wait --address localhost:7071 && kill $WORKER";

struct DrainFlags {
  bool wait = false;
  std::string output;
};

absl::Status RunDrain(const DrainFlags& flags, const Commands& commands) {
  const Endpoint& address = commands.globals.address;
  if (address.empty()) {
    return UsageError("a worker drains; give --address HOST:PORT");
  }
  v1::DrainRequest request;
  request.set_wait(flags.wait);
  v1::DrainResponse response;
  const auto stub = v1::AdminService::NewStub(Connect(address));
  const auto start = [&](grpc::ClientContext* context,
                         std::function<void(grpc::Status)> done) {
    stub->async()->Drain(context, &request, &response, std::move(done));
  };
  RETURN_IF_ERROR(flags.wait ? Call(start, address, std::nullopt)
                             : Call(start, address));
  const std::string models = RenderActivity(response.models(), std::nullopt,
                                            commands.streams.out_style);
  const std::string text =
      absl::StrCat("  draining: ", CallsText(response.running_calls()), "\n",
                   models.empty() ? "" : "\n", models);
  return Show({.message = response, .text = text}, flags.output,
              commands.streams);
}

}  // namespace

void AddDrain(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("drain", kDrainDescription);
  command->footer(kDrainFooter);
  auto flags = std::make_shared<DrainFlags>();
  command->add_flag("--wait", flags->wait,
                    "Return only once nothing is in flight");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunDrain(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
