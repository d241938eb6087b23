// `plimsoll leases`: shows which process holds how much of a planner's devices,
// and releases a lease whose holder is gone.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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
    "List the leases on a planner's devices, with their holders\n"
    "A lease is reserved until its holder has allocated its bytes, then "
    "confirmed. A lease that was not renewed in time is suspect: its bytes "
    "still count as used, until it is released or proven gone. 'pid' is the "
    "holder's process, if the planner can see it end.";

constexpr char kLeasesFooter[] =
    "Examples:\n"
    "  plimsoll leases --planner localhost:7070\n"
    "  plimsoll leases --planner localhost:7070 --device host/cpu -o json\n"
    "  plimsoll leases release 5f0c2a91 --force --reason 'node 7 is off' "
    "--planner localhost:7070";

constexpr char kReleaseDescription[] =
    "Release the lease of a holder that is gone\n"
    "Use it only if you know for certain that the holder's process has ended "
    "and nothing proves it to the planner: its host is off, or its pod was "
    "deleted on another host. If the holder lives all the same, behind a cut "
    "network for example, its bytes may be granted twice; then loads fail, or "
    "the system kills a process for want of memory. The planner refuses while "
    "the holder renews its lease or its process is seen to live, and logs the "
    "caller and the reason. It needs the role admin.";

constexpr char kReleaseFooter[] =
    "Examples:\n"
    "  plimsoll leases release 5f0c2a91 --force --reason 'node 7 is off' "
    "--planner localhost:7070";

// So many digits of a lease's id are shown, and suffice to name it.
constexpr size_t kShownIdDigits = 8;
constexpr size_t kWholeIdDigits = 32;

struct LeasesFlags {
  std::string device;
  std::string lease;  // its id, or the beginning of it
  bool is_forced = false;
  std::string reason;
  std::string output;
};

// Errors: of usage without an address.
absl::StatusOr<Endpoint> PlannerOf(const GlobalFlags& globals) {
  const Endpoint& address =
      globals.planner.empty() ? globals.address : globals.planner;
  if (!address.empty()) return address;
  return UsageError("leases are a planner's; give --planner HOST:PORT");
}

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
  Table table({{"lease"},
               {"device"},
               {"state"},
               {"granted", Align::kRight},
               {"used", Align::kRight},
               {"held for", Align::kRight},
               {"pid", Align::kRight},
               {"model, holder"}});
  for (const v1::Lease& lease : response.leases()) {
    table.AddRow(
        {Printable(lease.id().substr(0, kShownIdDigits)),
         Printable(lease.device_id()), StateText(lease.state()),
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
  ASSIGN_OR_RETURN(const Endpoint address, PlannerOf(commands.globals));
  ASSIGN_OR_RETURN(const v1::ListLeasesResponse response,
                   ListLeases(address, flags.device));
  if (flags.output == "json") {
    return PrintJson(response, commands.streams.out, JsonForm::kPretty,
                     EmptyLists::kPrinted);
  }
  Print(response, commands.streams);
  return absl::OkStatus();
}

// Returns the id of the planner's only lease whose id begins so.
// Errors: kNotFound if there is none; kInvalidArgument if there are several, or
// if `beginning` is too short to be meant.
absl::StatusOr<std::string> WholeId(const Endpoint& address,
                                    const std::string& beginning) {
  if (beginning.size() == kWholeIdDigits) return beginning;
  if (beginning.size() < kShownIdDigits) {
    return UsageError(absl::StrCat("a lease is named by its id, or by the ",
                                   kShownIdDigits,
                                   " digits that 'plimsoll leases' shows"));
  }
  ASSIGN_OR_RETURN(const v1::ListLeasesResponse response,
                   ListLeases(address, ""));
  std::vector<std::string> found;
  for (const v1::Lease& lease : response.leases()) {
    if (absl::StartsWith(lease.id(), beginning)) found.push_back(lease.id());
  }
  if (found.size() == 1) return found[0];
  if (!found.empty()) {
    return UsageError(absl::StrCat(found.size(), " leases begin with ",
                                   beginning, "; '-o json' shows whole ids"));
  }
  return absl::NotFoundError(
      absl::StrCat("no lease is held whose id begins with ", beginning,
                   "\n  try: 'plimsoll leases' lists those that are"));
}

absl::Status RunRelease(const LeasesFlags& flags, const Commands& commands) {
  ASSIGN_OR_RETURN(const Endpoint address, PlannerOf(commands.globals));
  if (!flags.is_forced) {
    return UsageError(
        "a lease is its holder's to release; if the holder is gone for "
        "certain, say so with --force");
  }
  v1::ForceReleaseRequest request;
  ASSIGN_OR_RETURN(*request.mutable_lease_id(), WholeId(address, flags.lease));
  request.set_reason(flags.reason);
  v1::ForceReleaseResponse response;
  const auto stub = v1::PlannerService::NewStub(Connect(address));
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub->async()->ForceRelease(context, &request, &response,
                                    std::move(done));
      },
      address));
  Streams& streams = commands.streams;
  if (flags.output == "json") return PrintJson(response, streams.out);
  const v1::Lease& lease = response.lease();
  streams.out << "  released "
              << FormatBytes(static_cast<int64_t>(lease.bytes())) << " of "
              << Printable(lease.device_id()) << " that "
              << Printable(lease.holder()) << " held\n";
  return absl::OkStatus();
}

void AddRelease(CLI::App& leases, Commands& commands) {
  CLI::App* command = leases.add_subcommand("release", kReleaseDescription);
  command->footer(kReleaseFooter);
  auto flags = std::make_shared<LeasesFlags>();
  command
      ->add_option("LEASE", flags->lease,
                   "The lease's id, or the beginning that 'plimsoll leases' "
                   "shows")
      ->type_name("LEASE")
      ->required();
  command->add_flag("--force", flags->is_forced,
                    "The holder is gone for certain");
  command
      ->add_option(
          "--reason", flags->reason,
          "How you know that it is gone, for the log; at most 256 bytes")
      ->type_name("TEXT")
      ->required();
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunRelease(*flags, commands); };
  });
}

}  // namespace

void AddLeases(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("leases", kLeasesDescription);
  command->footer(kLeasesFooter);
  auto flags = std::make_shared<LeasesFlags>();
  command
      ->add_option("--device", flags->device, "Only the leases of this device")
      ->type_name("ID");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->require_subcommand(0, 1);
  AddRelease(*command, commands);
  command->callback([flags, command, &commands] {
    if (!command->get_subcommands().empty()) return;
    commands.run = [flags, &commands] { return RunLeases(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
