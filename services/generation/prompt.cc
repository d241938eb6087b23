#include "services/generation/prompt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/wire/chat_tools.h"
#include "services/wire/errors.h"

namespace plimsoll::services {

bool UsesOwnTemplate(const ServedModel& model) {
  return !model.chat_format.ok() && model.own_template != nullptr;
}

absl::StatusOr<worker::ChatFormatChoice> ChooseFormat(const ServedModel& model,
                                                      const std::string* name) {
  if (name == nullptr) return model.chat_format;
  ASSIGN_OR_RETURN(const worker::ChatFormat format,
                   worker::ParseChatFormat(*name));
  return worker::ChatFormatChoice{format, "the request's chat_format"};
}

absl::StatusOr<Prompt> FromText(const ServedModel& model,
                                const v1::TextPrompt& prompt,
                                const worker::EncodeLimits& limits) {
  if (prompt.content_case() == v1::TextPrompt::CONTENT_NOT_SET) {
    return absl::InvalidArgumentError("text.content is needed");
  }
  return FromText(
      model,
      RawText{.text = prompt.has_raw_text() ? prompt.raw_text() : prompt.text(),
              .adds_bos = !prompt.has_add_bos() || prompt.add_bos(),
              .parses_special = prompt.parse_special()},
      limits);
}

absl::StatusOr<Prompt> FromText(const ServedModel& model, const RawText& raw,
                                const worker::EncodeLimits& limits) {
  const worker::Tokenizer& tokenizer = model.engine->tokenizer();
  RETURN_IF_ERROR(
      tokenizer.CheckFits(tokenizer.LeastBytes(raw.text), limits.max_tokens));
  Prompt result;
  ASSIGN_OR_RETURN(
      result.ids,
      raw.adds_bos ? tokenizer.EncodeWithBos(
                         raw.text, worker::ParseSpecialIf(raw.parses_special),
                         limits.stop)
                   : tokenizer.Encode(
                         raw.text, worker::ParseSpecialIf(raw.parses_special),
                         limits.stop));
  return result;
}

absl::StatusOr<Prompt> FromIds(const ServedModel& model,
                               const v1::TokenPrompt& prompt) {
  const auto vocab_size =
      static_cast<uint32_t>(model.engine->tokenizer().vocab_size());
  Prompt result;
  result.ids.reserve(static_cast<size_t>(prompt.ids_size()));
  for (const uint32_t id : prompt.ids()) {
    if (id >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens.ids: ", id, " is outside the vocabulary of ",
                       vocab_size, " tokens"));
    }
    result.ids.push_back(static_cast<int32_t>(id));
  }
  return result;
}

absl::StatusOr<Prompt> FromChat(const ServedModel& model,
                                const v1::ChatPrompt& prompt,
                                const worker::EncodeLimits& limits) {
  Prompt result;
  if (!prompt.has_chat_format() && UsesOwnTemplate(model)) {
    ASSIGN_OR_RETURN(EncodedChat chat,
                     EncodeTemplatePrompt(model.engine->tokenizer(),
                                          {*model.own_template, absl::Now()},
                                          prompt, limits));
    result.ids = std::move(chat.ids);
    result.text = std::move(chat.text);
    result.reading = std::move(chat.reading);
    result.splits_reply = chat.splits_reply;
    result.chat_format = std::string(worker::kTemplateFormat);
    result.chat_format_reason = "the file's template";
    return result;
  }
  ASSIGN_OR_RETURN(
      const worker::ChatFormatChoice choice,
      ChooseFormat(model,
                   prompt.has_chat_format() ? &prompt.chat_format() : nullptr));
  ASSIGN_OR_RETURN(EncodedChat chat,
                   EncodeChatPrompt(model.engine->tokenizer(), choice.format,
                                    prompt, limits));
  result.ids = std::move(chat.ids);
  result.text = std::move(chat.text);
  result.reading = std::move(chat.reading);
  result.chat_format = std::string(worker::ChatFormatName(choice.format));
  result.chat_format_reason = choice.reason;
  return result;
}

absl::Status EncodeStatus(absl::Status status,
                          const worker::EncodeLimits& limits) {
  if (!absl::IsOutOfRange(status) || HasDetails(status)) return status;
  return WithDetails(std::move(status),
                     {v1::ERROR_REASON_PROMPT_TOO_LONG,
                      {{"n_ctx", absl::StrCat(limits.max_tokens)}},
                      std::nullopt});
}

}  // namespace plimsoll::services
