// `plimsoll verify`: checks a model's file, and what is computed from it.
#include "services/cli/backends/verify.h"

#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/model_path.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/json.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr char kVerifyDescription[] =
    "Check a model's file, and whether what it computes is sane\n"
    "It reads every tensor (values that are not finite, absurdly large or all "
    "zero), encodes and decodes texts with the tokenizer, and runs a few "
    "tokens through the CPU's kernels and through the slow reference kernels, "
    "whose log-probabilities must agree. The perplexity of a plain English "
    "text tells a trained model from a random one. For a large model the "
    "reference may take minutes, with fewer tokens; --no-forward leaves all of "
    "these passes out.\n"
    "Exit code 1 means that a check FAILED. A note is worth reading: it says "
    "what looks odd, or what could not be checked here.";

constexpr char kVerifyFooter[] =
    "Examples:\n"
    "  plimsoll verify model.gguf\n"
    "  plimsoll verify model-00001-of-00003.gguf --no-forward\n"
    "  plimsoll verify model.gguf -o json";

struct VerifyFlags {
  std::string model;
  bool no_forward = false;
  int64_t threads = 0;
  std::string output;
};

bool AnyFailed(const std::vector<Check>& checks) {
  return std::ranges::any_of(checks, [](const Check& check) {
    return check.state == CheckState::kFailed;
  });
}

// The state as programs read it; people read FAILED.
std::string StateKey(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kNote:
      return "note";
    case CheckState::kFailed:
      return "failed";
  }
  return "";
}

std::string CheckTable(const std::vector<Check>& checks, const Style& style) {
  Table table({{"check"}, {"result"}, {"found"}});
  for (const Check& check : checks) {
    const bool has_failed = check.state == CheckState::kFailed;
    table.AddRow({check.name, has_failed ? "FAILED" : StateKey(check.state),
                  Printable(check.text)});
    for (const std::string& finding : check.findings) {
      table.AddRow({"", "", Printable(absl::StrCat("- ", finding))});
    }
  }
  return table.Render(style);
}

google::protobuf::Struct CheckObject(const Check& check) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  fields["name"].set_string_value(check.name);
  fields["state"].set_string_value(StateKey(check.state));
  fields["text"].set_string_value(check.text);
  auto& findings = *fields["findings"].mutable_list_value();
  for (const std::string& finding : check.findings) {
    findings.add_values()->set_string_value(finding);
  }
  for (const auto& [name, figure] : check.figures) {
    if (const bool* flag = std::get_if<bool>(&figure)) {
      fields[name].set_bool_value(*flag);
    } else if (const double number = std::get<double>(figure);
               std::isfinite(number)) {
      fields[name].set_number_value(number);
    }
  }
  return object;
}

google::protobuf::Struct VerifyObject(const std::string& name,
                                      const std::vector<Check>& checks) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  fields["model"].set_string_value(name);
  fields["ok"].set_bool_value(!AnyFailed(checks));
  auto& list = *fields["checks"].mutable_list_value();
  for (const Check& check : checks) {
    *list.add_values()->mutable_struct_value() = CheckObject(check);
  }
  return object;
}

absl::Status RunVerify(const VerifyFlags& flags, const Commands& commands) {
  if (flags.model.empty()) {
    return UsageError("there is no model; name a file: plimsoll verify FILE");
  }
  const GlobalFlags& globals = commands.globals;
  if (!globals.address.empty() || !globals.planner.empty()) {
    return UsageError(
        "verify reads a file in this process; leave out --address and "
        "--planner");
  }
  const InterruptScope interrupts;
  Streams& streams = commands.streams;
  ASSIGN_OR_RETURN(const std::vector<Check> checks,
                   Verify(flags.model,
                          {.has_forward = !flags.no_forward,
                           .n_threads = static_cast<int>(flags.threads)},
                          streams));
  const std::string name =
      std::filesystem::path(ResolveModel(flags.model)).filename().string();
  const absl::Status verdict =
      AnyFailed(checks)
          ? AlreadySaid(absl::DataLossError("a check of the model failed"))
          : absl::OkStatus();
  return Show({.message = VerifyObject(name, checks),
               .text = CheckTable(checks, streams.out_style),
               .verdict = verdict},
              flags.output, streams);
}

}  // namespace

void AddVerify(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("verify", kVerifyDescription);
  command->footer(kVerifyFooter);
  auto flags = std::make_shared<VerifyFlags>();
  command
      ->add_option("FILE,--model", flags->model,
                   "A GGUF file, the first of several, or a name in the cache")
      ->type_name("FILE");
  command->add_flag("--no-forward", flags->no_forward,
                    "Run no forward pass: check the file and the tokenizer "
                    "only");
  AddCount(
      *command, &flags->threads,
      {.name = "--threads",
       .max = worker::EngineOptions::kMaxThreads,
       .type = "T",
       .help = "Threads that compute; 0: as many as this process may use (0)"});
  AddOutput(*command, &flags->output, {"table", "json"});
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] { return RunVerify(*flags, commands); };
  });
}

}  // namespace plimsoll::cli
