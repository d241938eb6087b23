// `plimsoll constraint`: whether a constraint compiles, and which texts fit it.
#include "worker/text/schema/constraint.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "services/cli/commands/commands.h"
#include "services/cli/flags/constraint_flags.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/json.h"
#include "services/host/clock.h"
#include "services/wire/generation_from_proto.h"
#include "worker/text/schema/schema_check.h"

namespace plimsoll::cli {
namespace {

constexpr char kConstraintDescription[] =
    "Say whether a constraint compiles, and check texts against it\n"
    "No model is needed. The answer is that of a worker for the same "
    "constraint: its cost, and the parts that count as annotations. With "
    "--check, JSON may have any order of members, white space and spelling; it "
    "is laid out as a reply would be, and the grammar decides.";

constexpr char kConstraintFooter[] =
    "Examples:\n"
    "  plimsoll constraint --json-schema person.json\n"
    "  plimsoll constraint --json-schema person.json --check replies.jsonl\n"
    "  plimsoll constraint --regex '[0-9]{4}-[0-9]{2}'\n"
    "\n"
    "Each line to check is {\"text\": ...}; for each a line\n"
    "{\"accepted\": true|false, \"at\": byte} is printed, where byte is how "
    "far\n"
    "the text fits. Exit code 1 with the reason if it does not compile.";

struct CheckFlags {
  ConstraintFlags constraint;
  std::string check;
};

// A constraint that texts are checked against.
struct Checked {
  std::shared_ptr<const worker::Grammar> grammar;
  worker::SchemaNotes notes;
  std::unique_ptr<worker::SchemaCheck> schema;  // if it is one, from the start

  worker::Verdict Check(absl::string_view text) const {
    return schema != nullptr ? schema->Check(text)
                             : worker::CheckText(grammar, text);
  }
};

absl::StatusOr<Checked> CompileFor(const v1::OutputConstraint& message) {
  ASSIGN_OR_RETURN(const worker::ConstraintSource source,
                   services::SourceFromProto(message));
  Checked checked;
  if (source.form == worker::ConstraintSource::Form::kJsonSchema &&
      source.frame.trigger.empty()) {
    auto schema = worker::SchemaCheck::Make(source.text, source.options);
    if (!schema.ok()) {
      return Prefixed("constraint.json_schema: ", schema.status());
    }
    checked.schema = *std::move(schema);
    checked.grammar = checked.schema->grammar();
    checked.notes = checked.schema->notes();
    return checked;
  }
  ASSIGN_OR_RETURN(worker::Constraint made, services::FromProto(message));
  checked.grammar = std::move(made.grammar);
  checked.notes = std::move(made.notes);
  return checked;
}

absl::Status CheckLines(const Checked& checked, std::istream& lines,
                        std::ostream& out) {
  for (int64_t number = 1;; ++number) {
    ASSIGN_OR_RETURN(const std::optional<std::string> line,
                     ReadLine(lines, kMaxLineBytes));
    if (!line) return absl::OkStatus();
    if (line->empty()) continue;
    const auto text = JsonStringField(*line, "text");
    if (!text.ok()) {
      return Prefixed(absl::StrCat("line ", number, ": "), text.status());
    }
    const worker::Verdict verdict = checked.Check(*text);
    out << "{\"accepted\": " << (verdict.is_accepted ? "true" : "false")
        << ", \"at\": " << verdict.at << "}\n";
  }
}

absl::Status RunConstraint(const CheckFlags& flags, const Commands& commands) {
  if (!flags.constraint.IsAny()) {
    return UsageError(
        "there is no constraint; give --json-schema FILE, --grammar FILE or "
        "--regex PATTERN");
  }
  RETURN_IF_ERROR(CheckConstraintFlags(flags.constraint, /*ignore_eos=*/false));
  Streams& streams = commands.streams;
  ASSIGN_OR_RETURN(const v1::OutputConstraint message,
                   ConstraintOf(flags.constraint, streams.in));
  const absl::Time begin = services::BootTime();
  ASSIGN_OR_RETURN(const Checked checked, CompileFor(message));
  const absl::Duration time = services::BootTime() - begin;
  // The verdicts are for programs, so they stand alone.
  std::ostream& said = flags.check.empty() ? streams.out : streams.err;
  said << absl::StrFormat(
      "It compiles: %d instructions, %.1f KiB, in %.1f ms.\n",
      checked.grammar->program.size(),
      static_cast<double>(worker::GrammarBytes(*checked.grammar)) / 1024,
      absl::ToDoubleMilliseconds(time));
  for (const std::string& note : checked.notes) said << "  " << note << "\n";
  if (flags.check.empty()) return absl::OkStatus();
  if (flags.check == "-") {
    return CheckLines(checked, streams.in, streams.out);
  }
  std::ifstream file(flags.check);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(flags.check, ": it cannot be opened"));
  }
  return CheckLines(checked, file, streams.out);
}

}  // namespace

void AddConstraint(CLI::App& app, Commands& commands) {
  CLI::App* command = app.add_subcommand("constraint", kConstraintDescription);
  command->footer(kConstraintFooter);
  auto flags = std::make_shared<CheckFlags>();
  AddConstraintFlags(*command, &flags->constraint);
  command
      ->add_option("--check", flags->check,
                   "Check the text of each line of this file; - is standard "
                   "input")
      ->type_name("FILE");
  command->callback([flags, &commands] {
    commands.run = [flags, &commands] {
      return RunConstraint(*flags, commands);
    };
  });
}

}  // namespace plimsoll::cli
