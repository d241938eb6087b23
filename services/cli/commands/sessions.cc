// `plimsoll sessions`: shows the chats that a worker keeps.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/session.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/age.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr char kSessionsDescription[] =
    "List the chats that a worker keeps, or close one\n"
    "Each reserves a slot of the model until it is closed or nobody used it "
    "for its time to live.";

constexpr char kSessionsFooter[] =
    "Examples:\n"
    "  plimsoll sessions --address localhost:7071\n"
    "  plimsoll sessions --address localhost:7071 --close tuesday";

struct SessionsFlags {
  std::string model;
  std::string close;
  std::string output;
};

std::string SessionTable(const v1::ListSessionsResponse& response,
                         const Style& style) {
  Table table({{"session"},
               {"turns", Align::kRight},
               {"tokens", Align::kRight},
               {"in context", Align::kRight},
               {"reserved", Align::kRight},
               {"age", Align::kRight},
               {"idle", Align::kRight},
               {"time to live", Align::kRight}});
  for (const v1::Session& session : response.sessions()) {
    table.AddRow(
        {Printable(session.session_id()), absl::StrCat(session.turns()),
         FormatCount(static_cast<int64_t>(session.tokens())),
         absl::StrCat(session.live_tokens(), " / ", session.capacity_tokens()),
         FormatBytes(static_cast<int64_t>(session.reserved_bytes())),
         AgeText(session.age()),
         session.busy() ? "busy" : AgeText(session.idle()),
         AgeText(session.ttl())});
  }
  return table.Render(style);
}

absl::Status CloseOne(const SessionsFlags& flags, const Endpoint& address,
                      Streams& streams) {
  v1::CloseSessionRequest request;
  request.set_model(flags.model);
  request.set_session_id(flags.close);
  v1::CloseSessionResponse response;
  const auto stub = v1::SessionService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->CloseSession(context, &request, &response,
                                    std::move(done));
      },
      address));
  streams.err << "closed " << Printable(flags.close) << "\n";
  return absl::OkStatus();
}

absl::Status RunSessions(const SessionsFlags& flags, const Commands& commands) {
  const Endpoint& address = commands.globals.address;
  Streams& streams = commands.streams;
  if (address.empty()) {
    return UsageError("a worker keeps sessions; give --address HOST:PORT");
  }
  if (!flags.close.empty()) return CloseOne(flags, address, streams);
  v1::ListSessionsRequest request;
  request.set_model(flags.model);
  v1::ListSessionsResponse response;
  const auto stub = v1::SessionService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ListSessions(context, &request, &response,
                                    std::move(done));
      },
      address));
  if (flags.output == "json") return PrintJson(response, streams.out);
  if (response.sessions().empty()) {
    streams.err << "the model has no sessions\n";
    return absl::OkStatus();
  }
  streams.out << SessionTable(response, streams.out_style);
  return absl::OkStatus();
}

}  // namespace

void AddSessions(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("sessions", kSessionsDescription);
  command->footer(kSessionsFooter);
  auto flags = std::make_shared<SessionsFlags>();
  command
      ->add_option("--model", flags->model,
                   "A model that the worker was configured with; needed if it "
                   "has several")
      ->type_name("NAME");
  command->add_option("--close", flags->close, "Close this session")
      ->type_name("ID");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunSessions(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
