// `plimsoll doctor`: checks this machine, servers and models, and says what to
// do.
#include "services/cli/doctor/doctor.h"

#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/doctor/report.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"

namespace plimsoll::cli {
namespace {

constexpr char kDoctorDescription[] =
    "Check this machine, servers and models, and say what to do\n"
    "It looks at the kernels' instruction path, CPUs, GPUs, memory, the "
    "cgroup's limits, swap, huge pages, open files, threads and clocks, and "
    "reads the header of each model: those that are named, or those in the "
    "cache. A server is asked whether it answers if --planner or --address "
    "names it. Nothing is loaded or changed, and it takes about a second.\n"
    "Exit code 1 means that a check found an error: something does not work. A "
    "warning means that it works, but not as well as it could. Each has a line "
    "that says what to do. A check that was left out is 'skipped'.";

constexpr char kDoctorFooter[] =
    "Examples:\n"
    "  plimsoll doctor\n"
    "  plimsoll doctor model.gguf other.gguf\n"
    "  plimsoll doctor --planner localhost:7070 --address localhost:7071\n"
    "  plimsoll doctor -o json";

struct DoctorFlags {
  std::vector<std::string> models;
  std::string output;
};

absl::Status RunDoctor(const DoctorFlags& flags, const Commands& commands) {
  const InterruptScope interrupts;
  ASSIGN_OR_RETURN(const std::vector<Diagnosis> diagnoses,
                   Diagnose(flags.models, commands.globals));
  const absl::Status verdict =
      HasError(diagnoses)
          ? AlreadySaid(absl::FailedPreconditionError("a check found an error"))
          : absl::OkStatus();
  Streams& streams = commands.streams;
  return Show({.message = ReportObject(diagnoses),
               .text = RenderReport(diagnoses, streams.out_style),
               .verdict = verdict},
              flags.output, streams);
}

}  // namespace

void AddDoctor(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("doctor", kDoctorDescription);
  command->footer(kDoctorFooter);
  auto flags = std::make_shared<DoctorFlags>();
  command
      ->add_option("FILE,--model", flags->models,
                   "GGUF files, each the first of several, or names in the "
                   "cache; without any: all models in the cache")
      ->type_name("FILE");
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunDoctor(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
