// `plimsoll top`: shows what a worker does now, once or repeatedly.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "plimsoll/v1/admin.grpc.pb.h"
#include "services/cli/backends/remote.h"
#include "services/cli/commands/commands.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/views/activity_view.h"
#include "services/host/clock.h"

namespace plimsoll::cli {
namespace {

constexpr char kTopDescription[] =
    "Show what a worker does: models, and the requests that run and wait\n"
    "'running' counts slots, 'waiting' the queue, and 'kv pages' the cache. "
    "Tokens count from the model's load; with --interval, from the second time "
    "on, the table has those in a second. A request is parked while its client "
    "does not read.";

constexpr char kTopFooter[] =
    "Examples:\n"
    "  plimsoll top --address localhost:7071\n"
    "  plimsoll top --address localhost:7071 --interval 2\n"
    "  plimsoll top --address localhost:7071 -o json";

constexpr int64_t kMaxIntervalSeconds = 86'400;

struct TopFlags {
  std::optional<int64_t> interval;  // seconds; absent = once
  std::string output;
};

// What a worker said, and when.
struct Look {
  v1::GetLoadResponse load;
  absl::Time time;
};

std::string Render(const Look& look, const std::optional<Look>& before,
                   const Style& style) {
  const v1::GetLoadResponse& load = look.load;
  const std::string calls =
      absl::StrCat("  ", load.draining() ? "draining: " : "",
                   CallsText(load.running_calls()),
                   load.models().empty() ? ", no model is loaded" : "", "\n");
  const std::string models =
      RenderActivity(load.models(),
                     before ? std::optional(RatesBetween(
                                  before->load, load, look.time - before->time))
                            : std::nullopt,
                     style);
  return models.empty() ? calls : absl::StrCat(calls, "\n", models);
}

// Shows what the worker does now. `last` is what it did the last time, if it
// was asked before.
absl::Status ShowOnce(v1::AdminService::Stub& stub, const TopFlags& flags,
                      const Commands& commands, std::optional<Look>& last) {
  const v1::GetLoadRequest request;
  Look look;
  RETURN_IF_ERROR(Call(
      [&](grpc::ClientContext* context,
          std::function<void(grpc::Status)> done) {
        stub.async()->GetLoad(context, &request, &look.load, std::move(done));
      },
      commands.globals.address));
  look.time = services::BootTime();
  Streams& streams = commands.streams;
  if (flags.output == "json") {
    const JsonForm form =
        flags.interval.has_value() ? JsonForm::kLine : JsonForm::kPretty;
    return PrintJson(look.load, streams.out, form, EmptyLists::kPrinted);
  }
  streams.out << Render(look, last, streams.out_style);
  last = std::move(look);
  return absl::OkStatus();
}

// Waits until the time is over or the user interrupts.
void Pause(absl::Duration duration) {
  const absl::Time end = services::BootTime() + duration;
  for (absl::Time now = services::BootTime(); now < end && !Interrupted();
       now = services::BootTime()) {
    absl::SleepFor(std::min(end - now, kInterruptPoll));
  }
}

absl::Status RunTop(const TopFlags& flags, const Commands& commands) {
  const Endpoint& address = commands.globals.address;
  if (address.empty()) {
    return UsageError("the load is a worker's; give --address HOST:PORT");
  }
  const auto stub = v1::AdminService::NewStub(Connect(address));
  std::optional<Look> last;
  if (!flags.interval.has_value()) {
    return ShowOnce(*stub, flags, commands, last);
  }
  const InterruptScope interrupts;
  std::ostream& out = commands.streams.out;
  while (true) {
    RETURN_IF_ERROR(ShowOnce(*stub, flags, commands, last));
    if (flags.output != "json") out << "\n";
    out.flush();
    // A pipe whose reader has gone ends the command.
    if (!out.good()) return absl::DataLossError("the output was closed");
    Pause(absl::Seconds(*flags.interval));
    if (Interrupted()) return InterruptedError();
  }
}

}  // namespace

void AddTop(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("top", kTopDescription);
  command->footer(kTopFooter);
  auto flags = std::make_shared<TopFlags>();
  AddCount(*command, &flags->interval,
           {.name = "--interval",
            .min = 1,
            .max = kMaxIntervalSeconds,
            .type = "SECONDS",
            .help = "Show it again after this time, until interrupted (as "
                    "JSON: one line each)"});
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunTop(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
