// Converts a request's input to token ids of one model.
#ifndef PLIMSOLL_SERVICES_GENERATION_PROMPT_H_
#define PLIMSOLL_SERVICES_GENERATION_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plimsoll/v1/common.pb.h"
#include "services/generation/served_model.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/chat/reply_splitter.h"
#include "worker/text/chat/template_frame.h"

namespace plimsoll::services {

struct Prompt {
  std::vector<int32_t> ids;
  // The next fields are set for conversations only.
  std::optional<worker::ReplyReading> reading;  // how its reply is marked
  bool splits_reply = true;                     // splits at these marks
  std::string text;                             // the text for people
  std::string chat_format;                      // the format's name
  std::string chat_format_reason;               // the reason of the choice
};

// True if conversations are rendered by the template of the model's file unless
// a request names a chat format.
bool UsesOwnTemplate(const ServedModel& model);

// Returns the chat format `name` or, if that is null, the model's.
// Errors: kInvalidArgument; kUnimplemented if the model's format is not known.
absl::StatusOr<worker::ChatFormatChoice> ChooseFormat(const ServedModel& model,
                                                      const std::string* name);

// A text that becomes tokens without a chat format.
struct RawText {
  const std::string& text;
  bool adds_bos;
  bool parses_special;  // as Tokenizer::Encode takes it
};

// Errors: kInvalidArgument naming the field; kUnimplemented if the model's chat
// format is not known; kOutOfRange beyond `limits`, as Tokenizer::CheckFits
// returns it; those of limits.stop.
absl::StatusOr<Prompt> FromText(const ServedModel& model,
                                const v1::TextPrompt& prompt,
                                const worker::EncodeLimits& limits = {});
absl::StatusOr<Prompt> FromText(const ServedModel& model, const RawText& raw,
                                const worker::EncodeLimits& limits = {});
absl::StatusOr<Prompt> FromIds(const ServedModel& model,
                               const v1::TokenPrompt& prompt);
absl::StatusOr<Prompt> FromChat(const ServedModel& model,
                                const v1::ChatPrompt& prompt,
                                const worker::EncodeLimits& limits = {});

// Returns the token ids of a user's message in a session: of the text alone, or
// of the turn up to its reply if the model's own template renders the session.
// `session` is a worker::SessionOptions or a worker::SessionInfo.
// Errors: those of worker::EncodeContent and TemplateFrame::EncodeMessage.
template <typename Session>
absl::StatusOr<std::vector<int32_t>> EncodeMessage(
    const Session& session, const worker::Tokenizer& tokenizer,
    const std::string& message, const worker::EncodeLimits& limits) {
  if (session.own_frame != nullptr) {
    return session.own_frame->EncodeMessage(tokenizer, message, limits);
  }
  return worker::EncodeContent(tokenizer, session.format, message, limits);
}

// The error of an encoding within `limits`, with details if the bytes alone are
// too many.
absl::Status EncodeStatus(absl::Status status,
                          const worker::EncodeLimits& limits);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_PROMPT_H_
