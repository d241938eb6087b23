// Flags for the form of a reply, and their conversion for a request.
#ifndef PLIMSOLL_SERVICES_CLI_FLAGS_CONSTRAINT_FLAGS_H_
#define PLIMSOLL_SERVICES_CLI_FLAGS_CONSTRAINT_FLAGS_H_

#include <CLI/CLI.hpp>
#include <istream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "plimsoll/v1/generation.pb.h"

namespace plimsoll::cli {

struct ConstraintFlags {
  std::string json_schema;           // a file, or - for standard input
  std::string grammar;               // a file, or - for standard input
  std::optional<std::string> regex;  // the expression itself
  bool closed_objects = false;
  bool any_order = false;
  bool any_spelling = false;
  bool strict_schema = false;
  bool ignore_formats = false;
  std::string trigger;

  bool HasSchemaOptions() const {
    return closed_objects || any_order || any_spelling || strict_schema ||
           ignore_formats;
  }
  bool IsAny() const {
    return !json_schema.empty() || !grammar.empty() || regex.has_value();
  }
};

// Adds --json-schema, --grammar and --regex, and the flags for reading them.
void AddConstraintFlags(CLI::App& app, ConstraintFlags* flags);

// Checks the flags. Errors: UsageError if there is more than one constraint, or
// if end tokens do not end a reply.
absl::Status CheckConstraintFlags(const ConstraintFlags& flags,
                                  bool ignore_eos);

// Makes the message of flags that have a constraint.
// Errors: those of ReadText.
absl::StatusOr<v1::OutputConstraint> ConstraintOf(const ConstraintFlags& flags,
                                                  std::istream& in);

// Reads the constraint, and its file if it has one; absent without a flag.
// Errors: those of ReadText; kInvalidArgument naming the fault or the
// unsupported feature.
absl::StatusOr<std::optional<v1::OutputConstraint>> ReadConstraint(
    const ConstraintFlags& flags, std::istream& in);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_FLAGS_CONSTRAINT_FLAGS_H_
