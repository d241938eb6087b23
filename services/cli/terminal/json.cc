// Writes messages as JSON: proto JSON with the protos' own names.
#include "services/cli/terminal/json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/cli/terminal/failure.h"

namespace plimsoll::cli {

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message,
                                   JsonForm form, EmptyLists empty) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = form == JsonForm::kPretty;
  options.always_print_primitive_fields = empty == EmptyLists::kPrinted;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("JSON: ", status.ToString()));
  }
  if (json.empty() || json.back() != '\n') json.push_back('\n');
  return json;
}

absl::Status PrintJson(const google::protobuf::Message& message,
                       std::ostream& out, JsonForm form, EmptyLists empty) {
  ASSIGN_OR_RETURN(const std::string json, ToJson(message, form, empty));
  out << json;
  return absl::OkStatus();
}

absl::Status Show(const CommandAnswer& answer, const std::string& output,
                  Streams& streams) {
  if (output == "json") {
    RETURN_IF_ERROR(PrintJson(answer.message, streams.out));
    return answer.verdict;
  }
  streams.out << answer.text;
  return answer.verdict.ok() ? answer.verdict : AlreadySaid(answer.verdict);
}

absl::StatusOr<std::string> JsonStringField(absl::string_view text,
                                            const std::string& name) {
  google::protobuf::Struct object;
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(text), &object);
  if (!status.ok()) {
    // Further lines of the error message repeat the text.
    const std::string message(status.message().data(), status.message().size());
    return absl::InvalidArgumentError(absl::StrCat(
        "not a JSON object: ", message.substr(0, message.find('\n'))));
  }
  const auto field = object.fields().find(name);
  if (field == object.fields().end() ||
      field->second.kind_case() != google::protobuf::Value::kStringValue) {
    return absl::InvalidArgumentError(
        absl::StrCat("no string \"", name, "\" in it"));
  }
  return field->second.string_value();
}

}  // namespace plimsoll::cli
