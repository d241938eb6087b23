#include "services/http/planner_queries.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/http/http_errors.h"
#include "services/http/json.h"
#include "services/http/json_call.h"

namespace plimsoll::services {
namespace {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

constexpr absl::string_view kQueries[] = {
    "BatchPlan",   "DescribeModel", "FindDevices", "GetBounds", "ListCatalogue",
    "ListDevices", "Plan",          "PlaceModels", "PlanSet",   "PlanSplit"};

// Bytes of memory that a byte of JSON may become in a message: "{}," in a list
// becomes an empty message.
constexpr int64_t kMessagePerByte = 32;

absl::StatusOr<const MethodDescriptor*> FindQuery(const std::string& method) {
  if (std::find(std::begin(kQueries), std::end(kQueries), method) ==
      std::end(kQueries)) {
    return absl::NotFoundError(absl::StrCat(
        "the planner answers over HTTP: ", absl::StrJoin(kQueries, ", "),
        "; not ", method));
  }
  const MethodDescriptor* found =
      v1::PlanRequest::descriptor()->file()->pool()->FindMethodByName(
          absl::StrCat("plimsoll.v1.PlannerService.", method));
  PLIMSOLL_CHECK(found != nullptr, "the service has the query");
  return found;
}

std::unique_ptr<Message> NewMessage(
    const google::protobuf::Descriptor& descriptor) {
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(&descriptor)
          ->New());
}

absl::Status ReadMessage(const std::string& json, Message& message) {
  const auto read = google::protobuf::util::JsonStringToMessage(json, &message);
  if (read.ok()) return absl::OkStatus();
  // Further lines of the error repeat the text.
  const std::string error(read.message().data(), read.message().size());
  return absl::InvalidArgumentError(absl::StrCat(
      message.GetTypeName(), ": ", error.substr(0, error.find('\n'))));
}

absl::StatusOr<Json> ToJson(const Message& message, ByteBudget::Share& held) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto written =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!written.ok()) {
    return absl::InternalError(absl::StrCat("JSON: ", written.ToString()));
  }
  RETURN_IF_ERROR(held.Grow(kJsonPerByte * static_cast<int64_t>(text.size())));
  return ReadBody(text);
}

absl::StatusOr<Json> AnswerQuery(HttpModels& models, JsonFields& /*fields*/,
                                 const TokenCaller& caller) {
  PlannerQueries* const planner = models.planner();
  if (planner == nullptr) {
    return absl::NotFoundError(
        "no planner is here; start the gateway with --planner HOST:PORT");
  }
  const std::string method(
      absl::StripPrefix(caller.request.path, kPlannerPath));
  ASSIGN_OR_RETURN(const MethodDescriptor* const query, FindQuery(method));
  const auto n_bytes = static_cast<int64_t>(caller.request.body.size());
  RETURN_IF_ERROR(caller.held.Grow(kMessagePerByte * n_bytes));
  const auto request = NewMessage(*query->input_type());
  RETURN_IF_ERROR(ReadMessage(caller.request.body, *request));
  const auto response = NewMessage(*query->output_type());
  RETURN_IF_ERROR(planner->Ask(method, *request, *response, caller));
  return ToJson(*response, caller.held);
}

}  // namespace

void AnswerPlannerQuery(const HttpRoom& room, HttpRequest request,
                        std::shared_ptr<HttpReply> reply) {
  AnswerJson(room,
             {.answer = AnswerQuery, .error = ErrorResponse, .is_long = true},
             std::move(request), std::move(reply));
}

}  // namespace plimsoll::services
