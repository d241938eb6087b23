// `plimsoll leases`: shows which process holds how much of a planner's devices.
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/age.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr char kLeasesDescription[] =
    "List who holds how much of which device of a planner\n"
    "A lease is reserved until its holder has allocated, then confirmed. One "
    "that was not renewed in time is suspect: its bytes still count as used, "
    "until it is released or proven gone. 'pid' is the holder's process where "
    "the planner sees it end.";

constexpr char kLeasesFooter[] =
    "Examples:\n"
    "  plimsoll leases --planner localhost:7070\n"
    "  plimsoll leases --planner localhost:7070 --device host/cpu -o json";

struct LeasesFlags {
  std::string device;
  std::string output;
};

absl::StatusOr<v1::ListLeasesResponse> ListLeases(const Endpoint& address,
                                                  const std::string& device) {
  v1::ListLeasesRequest request;
  request.set_device_id(device);
  v1::ListLeasesResponse response;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ListLeases(context, &request, &response,
                                  std::move(done));
      },
      address));
  return response;
}

std::string StateText(v1::LeaseState state) {
  switch (state) {
    case v1::LEASE_STATE_RESERVED:
      return "reserved";
    case v1::LEASE_STATE_CONFIRMED:
      return "confirmed";
    case v1::LEASE_STATE_SUSPECT:
      return "suspect";
    default:
      return "unknown";
  }
}

void Print(const v1::ListLeasesResponse& response, Streams& streams) {
  Table table({{"device"},
               {"state"},
               {"granted", Align::kRight},
               {"used", Align::kRight},
               {"held for", Align::kRight},
               {"pid", Align::kRight},
               {"model, holder"}});
  for (const v1::Lease& lease : response.leases()) {
    table.AddRow(
        {Printable(lease.device_id()), StateText(lease.state()),
         FormatBytes(static_cast<int64_t>(lease.bytes())),
         FormatBytes(static_cast<int64_t>(lease.measured_bytes())),
         AgeText(lease.held_for()),
         lease.has_watched_pid() ? absl::StrCat(lease.watched_pid()) : "-",
         absl::StrCat(Printable(lease.purpose()), ", ",
                      Printable(lease.holder()))});
  }
  if (response.leases_size() > 0) {
    streams.out << table.Render(streams.out_style);
  } else {
    streams.out << "  nothing is held\n";
  }
  if (response.has_recovery_left()) {
    streams.out << "  the planner has just started: it grants nothing for "
                << response.recovery_left().seconds() + 1
                << " s, so that workers can present their leases\n";
  }
  if (response.journal() == v1::JOURNAL_STATE_FAILED) {
    streams.out << Paint(streams.out_style, Color::kRed,
                         "  the planner cannot write its journal: it grants "
                         "nothing")
                << "\n";
  }
}

absl::Status RunLeases(const LeasesFlags& flags, const Commands& commands) {
  const GlobalFlags& globals = commands.globals;
  const Endpoint& address =
      globals.planner.empty() ? globals.address : globals.planner;
  if (address.empty()) {
    return UsageError("leases are a planner's; give --planner HOST:PORT");
  }
  ASSIGN_OR_RETURN(const v1::ListLeasesResponse response,
                   ListLeases(address, flags.device));
  if (flags.output == "json") {
    return PrintJson(response, commands.streams.out, JsonForm::kPretty,
                     /*keep_empty=*/true);
  }
  Print(response, commands.streams);
  return absl::OkStatus();
}

}  // namespace

void AddLeases(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("leases", kLeasesDescription);
  command->footer(kLeasesFooter);
  auto flags = std::make_shared<LeasesFlags>();
  command->add_option("--device", flags->device, "Only those of this device")
      ->type_name("ID");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunLeases(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
