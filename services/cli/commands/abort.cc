// `plimsoll abort`: ends requests of a worker.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"

namespace plimsoll::cli {
namespace {

constexpr char kAbortDescription[] =
    "End requests that run or wait on a worker\n"
    "Their clients get ABORTED and the reason, their slots are free within two "
    "steps. 'plimsoll top' lists the ids; a client names its own with the "
    "metadata x-request-id.";

constexpr char kAbortFooter[] =
    "Examples:\n"
    "  plimsoll abort 5f3c --address localhost:7071\n"
    "  plimsoll abort --all --reason 'maintenance' --address localhost:7071";

struct AbortFlags {
  std::vector<std::string> request_ids;
  bool all = false;
  std::string reason;
  std::string output;
};

// Errors: kNotFound if a request that was named does not exist.
absl::Status VerdictOf(const v1::AbortResponse& response) {
  const auto& unknown = response.unknown_request_ids();
  if (unknown.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("no such request: ", absl::StrJoin(unknown, ", "),
                   "\n  try: 'plimsoll top' lists those that run and wait"));
}

absl::Status RunAbort(const AbortFlags& flags, const Commands& commands) {
  const Endpoint& address = commands.globals.address;
  if (address.empty()) {
    return UsageError("the requests are a worker's; give --address HOST:PORT");
  }
  if (flags.all != flags.request_ids.empty()) {
    return UsageError("give the ids of requests, or --all");
  }
  v1::AbortRequest request;
  for (const std::string& id : flags.request_ids) request.add_request_ids(id);
  request.set_all(flags.all);
  request.set_reason(flags.reason);
  v1::AbortResponse response;
  const auto stub = v1::AdminService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->Abort(context, &request, &response, std::move(done));
      },
      address));
  Streams& streams = commands.streams;
  if (flags.output == "json") {
    RETURN_IF_ERROR(PrintJson(response, streams.out));
  } else if (response.aborted() > 0 || flags.all) {
    streams.out << "  aborted " << response.aborted()
                << (response.aborted() == 1 ? " request\n" : " requests\n");
  }
  return VerdictOf(response);
}

}  // namespace

void AddAbort(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("abort", kAbortDescription);
  command->footer(kAbortFooter);
  auto flags = std::make_shared<AbortFlags>();
  command
      ->add_option("REQUEST_ID", flags->request_ids,
                   "Ids of the requests to end")
      ->type_name("REQUEST_ID");
  command->add_flag("--all", flags->all, "Every request of every model");
  command
      ->add_option("--reason", flags->reason,
                   "The reason for the clients; at most 256 bytes")
      ->type_name("TEXT");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunAbort(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
