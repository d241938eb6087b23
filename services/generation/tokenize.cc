#include "services/generation/tokenize.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "services/generation/message_bytes.h"
#include "services/generation/prompt.h"
#include "services/wire/to_proto.h"

namespace plimsoll::services {
namespace {

// Ids of one Detokenize call.
constexpr int kMaxDetokenizeIds = 1 << 20;
constexpr char kFewerIds[] = "send fewer ids at a time";

}  // namespace

absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const ServedModel& model, const v1::TokenizeRequest& request,
    StopCheck stop, ByteBudget::Share& held) {
  RETURN_IF_ERROR(held.Grow(WorkBytes(request)));
  if (request.content_case() == v1::TokenizeRequest::CONTENT_NOT_SET) {
    return absl::InvalidArgumentError("content: text or raw_text is needed");
  }
  ASSIGN_OR_RETURN(
      const Prompt result,
      FromText(model,
               RawText{.text = request.has_raw_text() ? request.raw_text()
                                                      : request.text(),
                       .adds_bos = request.add_bos(),
                       .parses_special = request.parse_special()},
               {.stop = stop}));
  RETURN_IF_ERROR(CheckReplyBytes(WireBytes(result.ids) + kReplyFrameBytes,
                                  "tokenize the text in pieces"));
  v1::TokenizeResponse response;
  response.mutable_ids()->Reserve(static_cast<int>(result.ids.size()));
  for (const int32_t id : result.ids) response.add_ids(ToUint32(id));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const ServedModel& model, const v1::DetokenizeRequest& request,
    StopCheck stop, ByteBudget::Share& held) {
  if (request.ids_size() > kMaxDetokenizeIds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ids: has ", request.ids_size(), " ids, at most ", kMaxDetokenizeIds));
  }
  RETURN_IF_ERROR(stop());
  RETURN_IF_ERROR(held.Grow(DetokenizeBytes(request.ids_size(), 0)));
  v1::TokenPrompt prompt;
  *prompt.mutable_ids() = request.ids();
  ASSIGN_OR_RETURN(const Prompt checked, FromIds(model, prompt));
  // Looked at before the text is made: a few ids may stand for a long one.
  const worker::Tokenizer& tokenizer = model.engine->tokenizer();
  ASSIGN_OR_RETURN(
      const int64_t text_bytes,
      TextBytes(tokenizer, checked.ids, request.render_special(), stop));
  RETURN_IF_ERROR(CheckReplyBytes(text_bytes + kReplyFrameBytes, kFewerIds));
  RETURN_IF_ERROR(held.Grow(DetokenizeBytes(request.ids_size(), text_bytes)));
  v1::DetokenizeResponse response;
  ASSIGN_OR_RETURN(
      *response.mutable_text(),
      tokenizer.Decode(checked.ids,
                       worker::RenderSpecialIf(request.render_special()),
                       stop));
  // Ill-formed bytes may have become longer than they were counted.
  RETURN_IF_ERROR(CheckReplyBytes(
      static_cast<int64_t>(response.text().size()) + kReplyFrameBytes,
      kFewerIds));
  return response;
}

}  // namespace plimsoll::services
