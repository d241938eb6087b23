// Writes messages as JSON: proto JSON with the protos' own names.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_JSON_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_JSON_H_

#include <google/protobuf/message.h>

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

enum class JsonForm { kPretty, kLine };
// Whether lists without elements are printed.
enum class EmptyLists { kLeftOut, kPrinted };

// Returns `message` as JSON that ends with a newline, with snake_case names and
// 64-bit integers as strings. Absent fields are left out.
// Errors: kInternal for a string that is not UTF-8.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message,
                                   JsonForm form,
                                   EmptyLists empty = EmptyLists::kLeftOut);
// Writes the JSON to `out`.
absl::Status PrintJson(const google::protobuf::Message& message,
                       std::ostream& out, JsonForm form = JsonForm::kPretty,
                       EmptyLists empty = EmptyLists::kLeftOut);

// A command's answer, for programs and for people.
struct CommandAnswer {
  const google::protobuf::Message& message;
  std::string text;  // already includes the verdict's message
  absl::Status verdict = absl::OkStatus();
};

// Prints the message as JSON if `output` is "json", else the text. Returns the
// verdict.
absl::Status Show(const CommandAnswer& answer, const std::string& output,
                  Streams& streams);

// Returns the string field `name` of the JSON object `text`; other fields are
// ignored.
// Errors: kInvalidArgument if it is not an object or has no such string.
absl::StatusOr<std::string> JsonStringField(absl::string_view text,
                                            const std::string& name);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_JSON_H_
