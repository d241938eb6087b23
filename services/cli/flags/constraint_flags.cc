// Parses the flags that say what a reply must be, and puts them into a request.
#include "services/cli/flags/constraint_flags.h"

#include "base/status_macros.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/wire/generation_from_proto.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {

void AddConstraintFlags(CLI::App& app, ConstraintFlags* flags) {
  const std::string group = "Structured output";
  app.add_option("--json-schema", flags->json_schema,
                 "The reply is JSON that the schema in this file accepts; - is "
                 "standard input")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--grammar", flags->grammar,
                 "The reply is a text of the GBNF grammar in this file; - is "
                 "standard input")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--regex", flags->regex,
                 "The whole reply matches this regular expression")
      ->type_name("PATTERN")
      ->group(group);
  const auto add_flag = [&](const char* name, bool* value, const char* what) {
    app.add_flag(name, *value, what)->group(group);
  };
  add_flag("--closed-objects", &flags->closed_objects,
           "Objects have the listed properties only, unless the schema says "
           "otherwise");
  add_flag("--any-order", &flags->any_order,
           "Listed properties come in any order");
  add_flag("--any-spelling", &flags->any_spelling,
           "Strings and numbers have every spelling of JSON");
  add_flag("--strict-schema", &flags->strict_schema,
           "Refuse keywords and formats that are not known");
  add_flag("--ignore-formats", &flags->ignore_formats,
           "A format says nothing about what is valid");
  app.add_option("--trigger", flags->trigger,
                 "The reply is free until this text; the form follows it")
      ->type_name("TEXT")
      ->group(group);
}

absl::Status CheckConstraintFlags(const ConstraintFlags& flags,
                                  bool ignore_eos) {
  const int n = (flags.json_schema.empty() ? 0 : 1) +
                (flags.grammar.empty() ? 0 : 1) +
                (flags.regex.has_value() ? 1 : 0);
  if (n > 1) {
    return UsageError(
        "a reply has one form: give one of --json-schema, --grammar and "
        "--regex");
  }
  if (flags.HasSchemaOptions() && flags.json_schema.empty()) {
    return UsageError(
        "--closed-objects, --any-order, --any-spelling, --strict-schema and "
        "--ignore-formats say how --json-schema is read; give that too");
  }
  if (n == 0 && !flags.trigger.empty()) {
    return UsageError(
        "--trigger says where a form begins; give --json-schema, --grammar or "
        "--regex too");
  }
  if (n == 1 && ignore_eos) {
    return UsageError(
        "--ignore-eos goes on after the end, but a reply of a given form ends "
        "where it is complete; leave out one or the other");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::OutputConstraint> ConstraintOf(const ConstraintFlags& flags,
                                                  std::istream& in) {
  constexpr int64_t kMaxBytes = worker::Grammar::kMaxSourceBytes;
  v1::OutputConstraint constraint;
  if (!flags.json_schema.empty()) {
    ASSIGN_OR_RETURN(*constraint.mutable_json_schema(),
                     ReadText(flags.json_schema, in, kMaxBytes));
  } else if (!flags.grammar.empty()) {
    ASSIGN_OR_RETURN(*constraint.mutable_gbnf(),
                     ReadText(flags.grammar, in, kMaxBytes));
  } else {
    constraint.set_regex(flags.regex.value_or(""));
  }
  if (flags.HasSchemaOptions()) {
    v1::JsonSchemaOptions& options = *constraint.mutable_schema_options();
    options.set_closed_objects(flags.closed_objects);
    options.set_any_order(flags.any_order);
    options.set_any_spelling(flags.any_spelling);
    options.set_refuse_unknown(flags.strict_schema);
    options.set_ignore_formats(flags.ignore_formats);
  }
  constraint.set_trigger(flags.trigger);
  return constraint;
}

absl::StatusOr<std::optional<v1::OutputConstraint>> ReadConstraint(
    const ConstraintFlags& flags, std::istream& in) {
  if (!flags.IsAny()) return std::nullopt;
  ASSIGN_OR_RETURN(v1::OutputConstraint constraint, ConstraintOf(flags, in));
  // The worker checks this too. The check here saves loading a model for a
  // request that is refused.
  RETURN_IF_ERROR(services::FromProto(constraint).status());
  return constraint;
}

}  // namespace plimsoll::cli
