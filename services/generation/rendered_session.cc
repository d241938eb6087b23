#include "services/generation/rendered_session.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "services/generation/prompt.h"
#include "services/wire/chat_tools.h"
#include "worker/cache/roll_plan.h"
#include "worker/text/chat/reply_format.h"
#include "worker/text/text_stream.h"

namespace plimsoll::services {
namespace {

using worker::ChatMessage;
using worker::ChatRole;
using worker::ChatTurn;
using worker::ChatTurns;

// How a rendering ends: for people to go on, or for the model to reply.
enum class RenderingEnds { kWithTurns, kWithReplyOpening };

// The turns of a chat that fit.
struct FittedChat {
  size_t first = 0;  // the oldest one
  EncodedChat chat = {};
  // What left with the turns before, by tokens of a rendering of all turns.
  int64_t n_left_tokens = 0;
  int64_t first_left = 0;
};

// Renders the chats of one session.
class SessionRenderer {
 public:
  // All arguments outlive the object.
  SessionRenderer(const worker::Engine& engine, worker::ChatFormat format,
                  const worker::SessionChat& chat, StopCheck stop)
      : engine_(engine), format_(format), chat_(chat), stop_(stop) {}

  absl::StatusOr<EncodedChat> Render(
      std::span<const std::shared_ptr<const ChatTurn>> turns,
      RenderingEnds end) const {
    ChatInput conversation = {
        .messages = {},
        .tools = chat_.tools,
        .add_generation_prompt = end == RenderingEnds::kWithReplyOpening,
        .template_arguments = chat_.template_arguments};
    std::vector<ChatMessage>& messages = conversation.messages;
    if (chat_.system) messages.push_back({ChatRole::kSystem, *chat_.system});
    for (const auto& turn : turns) {
      messages.insert(messages.end(), turn->begin(), turn->end());
    }
    const worker::Tokenizer& tokenizer = engine_.tokenizer();
    const worker::EncodeLimits limits = {.stop = stop_};
    if (chat_.own_template == nullptr) {
      return EncodeConversation(tokenizer, format_, conversation, limits);
    }
    return EncodeConversation(tokenizer, {*chat_.own_template, chat_.now},
                              conversation, limits);
  }

  // The turns that stay of `turns`, which are not empty: all if they have at
  // most `most` tokens. Otherwise the newest ones with evict_to tokens at most,
  // or the newest turn alone.
  absl::StatusOr<FittedChat> Fit(const ChatTurns& turns, int64_t most,
                                 RenderingEnds end) const {
    const auto render = [&](size_t first) {
      return Render(std::span(turns).subspan(first), end);
    };
    FittedChat fitted = {.first = FirstWithinBytes(turns)};
    ASSIGN_OR_RETURN(fitted.chat, render(fitted.first));
    size_t low = fitted.first + 1;
    size_t high = turns.size() - 1;
    if (std::ssize(fitted.chat.ids) <= most || low > high) return fitted;
    const std::vector<int32_t> whole = std::move(fitted.chat.ids);
    bool is_rendered = false;  // fitted.chat is the one from `high` on
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      ASSIGN_OR_RETURN(EncodedChat chat, render(middle));
      if (std::ssize(chat.ids) > chat_.evict_to) {
        low = middle + 1;
        continue;
      }
      high = middle;
      fitted.chat = std::move(chat);
      is_rendered = true;
    }
    if (!is_rendered) {
      ASSIGN_OR_RETURN(fitted.chat, render(high));
    }
    fitted.first = high;
    const std::vector<int32_t>& kept = fitted.chat.ids;
    fitted.n_left_tokens =
        std::max<int64_t>(std::ssize(whole) - std::ssize(kept), 0);
    fitted.first_left =
        std::mismatch(whole.begin(), whole.end(), kept.begin(), kept.end())
            .first -
        whole.begin();
    return fitted;
  }

 private:
  // The oldest turn that a session may keep by the limits of texts.
  static size_t FirstWithinBytes(const ChatTurns& turns) {
    size_t first = turns.size() - 1;
    int64_t n_bytes = worker::TextBytes(*turns[first]);
    int64_t n_messages = std::ssize(*turns[first]) + 1;  // the system's
    while (first > 0) {
      n_bytes += worker::TextBytes(*turns[first - 1]);
      n_messages += std::ssize(*turns[first - 1]);
      if (n_bytes > worker::SessionChat::kMaxBytes ||
          n_messages > worker::kMaxChatMessages) {
        break;
      }
      --first;
    }
    return first;
  }

  const worker::Engine& engine_;
  const worker::ChatFormat format_;
  const worker::SessionChat& chat_;
  const StopCheck stop_;
};

std::shared_ptr<const ChatTurn> TurnOf(const std::string& message) {
  return std::make_shared<const ChatTurn>(ChatTurn{{ChatRole::kUser, message}});
}

// The text of a reply that is given as tokens.
// Errors: kInvalidArgument for ids that are none.
absl::StatusOr<std::string> TextOfIds(
    const worker::Tokenizer& tokenizer, const v1::TokenPrompt& tokens,
    const std::optional<worker::ReplyReading>& reading) {
  std::vector<int32_t> shown;
  if (reading) shown = worker::TokensToShow(reading->format, tokenizer);
  worker::TextStream stream({});
  std::string text;
  std::string bytes;
  for (const uint32_t id : tokens.ids()) {
    if (id >= static_cast<uint32_t>(tokenizer.vocab_size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "turns.tokens.ids: ", id, " is outside the vocabulary of ",
          tokenizer.vocab_size(), " tokens"));
    }
    const auto token = static_cast<int32_t>(id);
    bytes.clear();
    tokenizer.AppendBytes(token,
                          worker::RenderSpecialIf(std::binary_search(
                              shown.begin(), shown.end(), token)),
                          bytes);
    stream.Push(bytes, text);
  }
  stream.Finish(text);
  return text;
}

// The turns that a request says were said before.
absl::StatusOr<ChatTurns> TurnsOf(
    const v1::OpenSessionRequest& request, const worker::Tokenizer& tokenizer,
    const std::optional<worker::ReplyReading>& reading) {
  ChatTurns turns;
  turns.reserve(static_cast<size_t>(request.turns_size()));
  for (const v1::SessionTurn& said : request.turns()) {
    ChatTurn turn = {{ChatRole::kUser, said.message()}};
    if (said.has_tokens()) {
      ASSIGN_OR_RETURN(const std::string text,
                       TextOfIds(tokenizer, said.tokens(), reading));
      turn.push_back(worker::ReadReply(reading, text));
    } else {
      turn.push_back({ChatRole::kAssistant, said.text()});
    }
    turns.push_back(std::make_shared<const ChatTurn>(std::move(turn)));
  }
  return turns;
}

absl::Status TooLong(size_t n_tokens, const worker::Engine& engine) {
  return absl::OutOfRangeError(absl::StrCat(
      "the chat's opening and its newest turn have ", n_tokens,
      " tokens, the context of the session ", engine.n_ctx(),
      ": shorten the message, or load the model with a larger n_ctx"));
}

// The responses of tools to the calls at the end of a chat.
absl::StatusOr<ChatTurn> ResponsesOf(const v1::ChatRequest& request,
                                     const ChatTurns& said) {
  if (!request.message().empty()) {
    return absl::InvalidArgumentError(
        "message: tool_responses are said in its place; send one or the other");
  }
  const size_t n_calls = said.empty() || said.back()->empty()
                             ? 0
                             : said.back()->back().tool_calls.size();
  if (n_calls != static_cast<size_t>(request.tool_responses_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("tool_responses: the last reply has ", n_calls,
                     " calls, got ", request.tool_responses_size()));
  }
  const std::vector<worker::ToolCall>& calls = said.back()->back().tool_calls;
  ChatTurn responses;
  for (size_t i = 0; i < n_calls; ++i) {
    const v1::ToolResponse& response =
        request.tool_responses(static_cast<int>(i));
    if (response.tool_name() != calls[i].name) {
      return absl::InvalidArgumentError(
          absl::StrCat("tool_responses.tool_name: call ", i + 1, " is one of ",
                       calls[i].name, ", got '", response.tool_name(), "'"));
    }
    responses.push_back({.role = ChatRole::kTool,
                         .content = response.content(),
                         .tool_name = response.tool_name()});
  }
  return responses;
}

// Adds what is said now to the turns of a chat.
absl::Status AddMessage(const v1::ChatRequest& request,
                        const worker::Engine& engine,
                        worker::RenderedChat& chat) {
  ChatTurn message = {{ChatRole::kUser, request.message()}};
  chat.begins_turn = request.tool_responses_size() == 0;
  if (!chat.begins_turn) {
    ASSIGN_OR_RETURN(message, ResponsesOf(request, chat.turns));
  } else if (request.message().empty()) {
    return absl::InvalidArgumentError("message: it is empty");
  }
  const worker::Tokenizer& tokenizer = engine.tokenizer();
  for (const ChatMessage& one : message) {
    RETURN_IF_ERROR(
        tokenizer.CheckFits(tokenizer.LeastBytes(one.content), engine.n_ctx()));
  }
  if (!chat.begins_turn) {
    ChatTurn turn = *chat.turns.back();
    turn.insert(turn.end(), std::make_move_iterator(message.begin()),
                std::make_move_iterator(message.end()));
    message = std::move(turn);
    chat.turns.pop_back();
  }
  chat.turns.push_back(std::make_shared<const ChatTurn>(std::move(message)));
  return absl::OkStatus();
}

}  // namespace

absl::Status KeepTexts(const ServedModel& model,
                       const v1::OpenSessionRequest& request,
                       TextsWanted wanted, worker::SessionOptions& options) {
  const worker::Engine& engine = *model.engine;
  auto chat = std::make_shared<worker::SessionChat>();
  chat->reason = std::move(wanted.reason);
  if (request.has_system()) chat->system = request.system();
  ASSIGN_OR_RETURN(chat->tools, ToolsFrom(request.tools(), "tools"));
  if (!request.has_chat_format() && UsesOwnTemplate(model)) {
    chat->own_template = model.own_template;
  }
  chat->template_arguments = request.template_arguments();
  chat->now = absl::Now();
  ASSIGN_OR_RETURN(chat->evict_to,
                   worker::EvictTo(options.evict_to, engine.n_ctx()));
  options.chat = chat;
  const SessionRenderer renderer(engine, options.format, *chat, wanted.stop);
  // Shows whether the template takes such a chat, and how it opens a reply.
  const ChatTurns probe = {TurnOf("hello")};
  ASSIGN_OR_RETURN(const EncodedChat opening,
                   renderer.Render(probe, RenderingEnds::kWithReplyOpening));
  if (std::ssize(opening.ids) > engine.n_ctx()) {
    return TooLong(opening.ids.size(), engine);
  }
  ASSIGN_OR_RETURN(options.said,
                   TurnsOf(request, engine.tokenizer(), opening.reading));
  if (options.said.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const FittedChat fitted,
      renderer.Fit(options.said, engine.n_ctx(), RenderingEnds::kWithTurns));
  options.said.erase(
      options.said.begin(),
      options.said.begin() + static_cast<ptrdiff_t>(fitted.first));
  return absl::OkStatus();
}

absl::StatusOr<RenderedMessage> RenderMessage(
    const worker::Engine& engine, const worker::SessionInfo& session,
    const v1::ChatRequest& request, const ReplyLimits& limits) {
  auto chat = std::make_shared<worker::RenderedChat>();
  chat->before = session.said;
  chat->turns = *session.said;
  RETURN_IF_ERROR(AddMessage(request, engine, *chat));
  int64_t n_room = engine.n_ctx() - session.chat->evict_to;
  if (limits.max_tokens > 0) n_room = std::min(n_room, limits.max_tokens);
  const SessionRenderer renderer(engine, session.format, *session.chat,
                                 limits.stop);
  ASSIGN_OR_RETURN(FittedChat fitted,
                   renderer.Fit(chat->turns, engine.n_ctx() - n_room,
                                RenderingEnds::kWithReplyOpening));
  if (std::ssize(fitted.chat.ids) > engine.n_ctx()) {
    return TooLong(fitted.chat.ids.size(), engine);
  }
  chat->turns.erase(chat->turns.begin(),
                    chat->turns.begin() + static_cast<ptrdiff_t>(fitted.first));
  chat->n_left_tokens = fitted.n_left_tokens;
  chat->first_left = fitted.first_left;
  chat->reading = std::move(fitted.chat.reading);
  return RenderedMessage{std::move(fitted.chat.ids), std::move(chat)};
}

}  // namespace plimsoll::services
