#include "services/cli/chat/chat_console.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "services/cli/chat/chat_file.h"
#include "services/cli/chat/chat_settings.h"
#include "services/cli/chat/reply_view.h"
#include "services/cli/flags/request.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/failure.h"
#include "services/cli/terminal/input.h"
#include "services/cli/terminal/interrupt.h"
#include "services/cli/terminal/table.h"
#include "services/cli/views/memory_view.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {
namespace {

constexpr char kPrompt[] = "> ";
constexpr char kNextPrompt[] = ". ";

class PlainReader final : public LineReader {
 public:
  explicit PlainReader(Streams& streams) : streams_(streams) {}

  absl::StatusOr<std::optional<std::string>> Read(
      const std::string& prompt) override {
    if (streams_.err_style.is_tty && streams_.out_style.is_tty) {
      streams_.err << Paint(streams_.err_style, Color::kBold, prompt)
                   << std::flush;
    }
    return ReadLine(streams_.in, kMaxLineBytes);
  }

 private:
  Streams& streams_;
};

std::string EvictionText(const v1::Eviction& eviction) {
  return absl::StrCat("the context was full: ",
                      eviction.has_turns()
                          ? absl::StrCat(eviction.turns(), " oldest turns, ")
                          : "",
                      eviction.tokens(), " tokens, left it");
}

std::string SessionText(const v1::Session& session) {
  return absl::StrCat("session ", Printable(session.session_id()), ": ",
                      session.turns(), " turns, ", session.live_turns(),
                      " of them in the context, ", session.live_tokens(),
                      " of ", session.capacity_tokens(), " tokens");
}

// "38 tokens, 41.2 tokens/s, the first after 0.13 s".
std::string SpeedText(const v1::GenerateResponse& response) {
  const v1::GenerationTiming& timing = response.timing();
  std::string text =
      absl::StrCat(response.usage().generated_tokens(), " tokens");
  if (timing.has_decode_tokens_per_s()) {
    absl::StrAppendFormat(&text, ", %.1f tokens/s",
                          timing.decode_tokens_per_s());
  }
  if (timing.has_first_token()) {
    absl::StrAppendFormat(
        &text, ", the first after %.2f s",
        static_cast<double>(timing.first_token().seconds()) +
            static_cast<double>(timing.first_token().nanos()) / 1e9);
  }
  return text;
}

std::string ContextText(const v1::Session& session) {
  const auto left = static_cast<int64_t>(session.capacity_tokens()) -
                    static_cast<int64_t>(session.live_tokens());
  return absl::StrCat(FormatCount(std::max<int64_t>(left, 0)), " of ",
                      FormatCount(Signed(session.capacity_tokens())),
                      " tokens of context left");
}

std::string ChangeText(const ChatSetting& was, absl::string_view is) {
  return absl::StrCat(was.name, ": was ", was.value, ", is ", is);
}

// "1 message", "2 messages"; each is one with its reply.
std::string MessagesText(size_t n) {
  return absl::StrCat(n, n == 1 ? " message" : " messages");
}

// The beginning of a message, on one line.
std::string Beginning(absl::string_view message) {
  constexpr size_t kShownBytes = 48;
  const absl::string_view line = message.substr(0, message.find('\n'));
  if (line.size() == message.size() && line.size() <= kShownBytes) {
    return Printable(line);
  }
  // Not within a code point.
  size_t end = std::min(line.size(), kShownBytes);
  while (end > 0 && end < line.size() &&
         (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) {
    --end;
  }
  return absl::StrCat(Printable(line.substr(0, end)), "...");
}

// The path that a user means: "~/" is the home.
std::string PathOf(const std::string& typed) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || !absl::StartsWith(typed, "~/")) return typed;
  return absl::StrCat(home, typed.substr(1));
}

}  // namespace

std::unique_ptr<LineReader> NewPlainReader(Streams& streams) {
  return std::make_unique<PlainReader>(streams);
}

ChatConsole::ChatConsole(ChatConsoleOptions options, Generator& generator,
                         LineReader& reader, Streams& streams)
    : options_(std::move(options)),
      reader_(reader),
      streams_(streams),
      is_terminal_(streams.in_is_tty && streams.err_style.is_tty),
      generator_(generator),
      conversation_(options_.conversation, generator) {}

void ChatConsole::Note(absl::string_view text) {
  streams_.err << text << "\n" << std::flush;
}

void ChatConsole::ShowNotes() {
  for (const std::string& note : conversation_.TakeNotes()) {
    Note(Paint(streams_.err_style, Color::kDim, absl::StrCat("(", note, ")")));
  }
}

absl::Status ChatConsole::Run() {
  {
    const InterruptScope interrupts;
    RETURN_IF_ERROR(conversation_.Begin(options_.system));
  }
  if (conversation_.was_taken_up()) {
    ASSIGN_OR_RETURN(const v1::Session session, conversation_.Info());
    Note(absl::StrCat("going on with ", SessionText(session)));
    if (options_.system.has_value()) {
      Note(
          "the session keeps its own instructions; /reset begins anew with "
          "those of --system");
    }
  } else if (is_terminal_) {
    Note(Paint(streams_.err_style, Color::kDim, "(/help lists the commands)"));
  }
  ShowNotes();
  MessageLines lines;
  while (true) {
    const auto line = reader_.Read(lines.IsOpen() ? kNextPrompt : kPrompt);
    if (IsInterruptedError(line.status())) {
      RETURN_IF_ERROR(AfterInterrupt(line.status()));
      lines.Clear();
      continue;
    }
    RETURN_IF_ERROR(line.status());
    if (!line->has_value()) break;
    const auto is_whole = lines.Add(**line);
    if (!is_whole.ok()) {
      RETURN_IF_ERROR(AfterMessage(is_whole.status()));
      continue;
    }
    if (!*is_whole) continue;
    const MessageLines::Message message = lines.Take();
    if (message.text.empty()) continue;
    ASSIGN_OR_RETURN(const bool goes_on, Handle(message));
    if (!goes_on) return failed_;
  }
  if (lines.IsOpen()) {
    return absl::InvalidArgumentError(
        "the input ended within a message, which was not sent");
  }
  return failed_;
}

absl::StatusOr<bool> ChatConsole::Handle(const MessageLines::Message& message) {
  if (!message.is_block && IsChatCommand(message.text)) {
    return RunCommand(message.text);
  }
  const absl::string_view text =
      message.is_block ? message.text : WithoutEscape(message.text);
  if (!worker::IsValidUtf8(text)) {
    Note("that message is not UTF-8 and was left out");
    return true;
  }
  n_regenerated_ = 0;
  RETURN_IF_ERROR(Answer(std::string(text), 0));
  return true;
}

absl::StatusOr<bool> ChatConsole::RunCommand(absl::string_view text) {
  const auto line = ParseChatCommand(text);
  if (!line.ok()) {
    RETURN_IF_ERROR(AfterCommand(line.status()));
    return true;
  }
  if (line->command == ChatCommand::kExit) return false;
  if (line->command == ChatCommand::kRegenerate) {
    RETURN_IF_ERROR(Regenerate());
    return true;
  }
  const InterruptScope interrupts;
  const absl::Status status = Execute(*line);
  ShowNotes();
  RETURN_IF_ERROR(AfterCommand(status));
  return true;
}

absl::Status ChatConsole::Execute(const ChatCommandLine& line) {
  switch (line.command) {
    case ChatCommand::kHelp:
      Help();
      break;
    case ChatCommand::kSystem:
      return System(line.argument);
    case ChatCommand::kUndo:
      return Undo(line.argument);
    case ChatCommand::kReset:
      return Reset();
    case ChatCommand::kSave:
      return Save(PathOf(line.argument));
    case ChatCommand::kLoad:
      return Load(PathOf(line.argument));
    case ChatCommand::kSet:
      return Set(line.argument);
    case ChatCommand::kInfo:
      return Info();
    case ChatCommand::kMemory:
      return Memory();
    case ChatCommand::kRegenerate:
    case ChatCommand::kExit:
      break;  // RunCommand knows them
  }
  return absl::OkStatus();
}

absl::Status ChatConsole::AfterInterrupt(const absl::Status& status) {
  if (!is_terminal_ || Terminated()) return status;
  ForgetInterrupt();
  return absl::OkStatus();
}

absl::Status ChatConsole::AfterMessage(const absl::Status& status) {
  if (status.ok()) return status;
  if (IsInterruptedError(status)) return AfterInterrupt(status);
  if (!is_terminal_ && !absl::IsOutOfRange(status)) return status;
  Report(status, streams_);
  return absl::OkStatus();
}

absl::Status ChatConsole::AfterCommand(const absl::Status& status) {
  if (status.ok()) return status;
  if (IsInterruptedError(status)) {
    RETURN_IF_ERROR(AfterInterrupt(status));
    Note(Paint(streams_.err_style, Color::kDim, "(stopped)"));
    return absl::OkStatus();
  }
  Report(status, streams_);
  if (!is_terminal_ && failed_.ok()) failed_ = AlreadySaid(status);
  return absl::OkStatus();
}

absl::Status ChatConsole::Answer(const std::string& message,
                                 uint64_t seed_step) {
  const InterruptScope interrupts;
  v1::StreamGenerateRequest how =
      ToRequest(options_.sampling, options_.draft_tokens);
  how.mutable_sampling()->set_seed(options_.sampling.sampling.seed + seed_step);
  ReplyView view(streams_.out_style, options_.columns());
  const ChatReply reply = conversation_.Say(
      message, how, [&](ReplyPiece piece, absl::string_view text) {
        view.SetWidth(options_.columns());
        const bool is_answer = piece == ReplyPiece::kAnswer;
        streams_.out << (is_answer ? view.Push(text) : view.PushReasoning(text))
                     << std::flush;
      });
  was_taken_ = reply.was_taken;
  if (was_taken_) streams_.out << view.Finish() << std::flush;
  const bool is_stopped = IsInterruptedError(reply.status);
  RETURN_IF_ERROR(AfterMessage(reply.status));
  if (reply.status.ok()) {
    ShowReply(reply.response);
  } else if (is_stopped) {
    Note(Paint(streams_.err_style, Color::kDim, "(stopped)"));
  }
  ShowNotes();
  return absl::OkStatus();
}

void ChatConsole::ShowReply(const v1::GenerateResponse& response) {
  const auto note = [this](absl::string_view text) {
    Note(Paint(streams_.err_style, Color::kDim, absl::StrCat("(", text, ")")));
  };
  for (const v1::Eviction& eviction : response.evictions()) {
    note(EvictionText(eviction));
  }
  if (!streams_.err_style.is_tty) return;
  const auto session = conversation_.Info();
  note(absl::StrCat(
      SpeedText(response),
      session.ok() ? absl::StrCat("; ", ContextText(*session)) : ""));
}

void ChatConsole::Help() {
  Table table({{"command"}, {"what it does"}});
  for (const ChatCommandHelp& help : ChatCommands()) {
    const std::string argument =
        help.argument == Argument::kOptional
            ? absl::StrCat(" [", help.argument_name, "]")
            : absl::StrCat(help.argument_name.empty() ? "" : " ",
                           help.argument_name);
    table.AddRow({absl::StrCat(help.name, argument), std::string(help.text)});
  }
  table.AddRow({"//...", "Send a message that begins with one slash"});
  table.AddRow({"...\\", "The message goes on in the next line"});
  table.AddRow({"\"\"\"", "Begins and ends a message of several lines"});
  table.AddRow({"Ctrl-C", "Stop the reply, or drop the line"});
  table.AddRow({"Ctrl-D", "End the chat"});
  Note(absl::StripTrailingAsciiWhitespace(table.Render(streams_.err_style)));
}

absl::Status ChatConsole::CheckAllKnown() const {
  if (!conversation_.was_taken_up()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "an earlier command began this chat: its instructions and first messages "
      "are not known here, so nothing can be taken back or replaced; /reset "
      "begins anew");
}

absl::Status ChatConsole::System(absl::string_view text) {
  const std::optional<std::string>& now = conversation_.transcript().system;
  if (text.empty()) {
    RETURN_IF_ERROR(CheckAllKnown());
    Note(now.has_value() ? Printable(*now)
                         : "(none but what the chat format has by itself)");
    return absl::OkStatus();
  }
  if (!worker::IsValidUtf8(text)) {
    return absl::InvalidArgumentError("the instructions are not UTF-8");
  }
  RETURN_IF_ERROR(CheckAllKnown());
  Transcript next = conversation_.transcript();
  next.system.reset();
  if (text != "\"\"") next.system = std::string(text);
  RETURN_IF_ERROR(conversation_.Replace(std::move(next)));
  Note(absl::StrCat(
      now.has_value() ? "the instructions are changed"
                      : "the instructions are taken away",
      "; messages that stay: ", conversation_.transcript().turns.size()));
  return absl::OkStatus();
}

absl::Status ChatConsole::ForgetNewest(size_t n) {
  RETURN_IF_ERROR(CheckAllKnown());
  Transcript next = conversation_.transcript();
  if (next.turns.size() < n) {
    return absl::InvalidArgumentError(
        next.turns.empty() ? "nothing was said yet"
                           : absl::StrCat("the chat has only ",
                                          MessagesText(next.turns.size())));
  }
  next.turns.resize(next.turns.size() - n);
  return conversation_.Replace(std::move(next));
}

absl::Status ChatConsole::Undo(absl::string_view count) {
  int64_t n = 1;
  if (!count.empty()) {
    ASSIGN_OR_RETURN(n, ParseCount(count, 1, Transcript::kMaxTurns));
  }
  const std::deque<ChatTurn>& turns = conversation_.transcript().turns;
  const size_t first =
      turns.size() - std::min(static_cast<size_t>(n), turns.size());
  const std::string message =
      first < turns.size() ? Beginning(turns[first].message) : "";
  RETURN_IF_ERROR(ForgetNewest(static_cast<size_t>(n)));
  Note(absl::StrCat("forgot ", MessagesText(static_cast<size_t>(n)),
                    n == 1 ? ": " : ", from: ", message));
  return absl::OkStatus();
}

absl::Status ChatConsole::Regenerate() {
  const Transcript before = conversation_.transcript();
  {
    const InterruptScope interrupts;
    const absl::Status status = ForgetNewest(1);
    if (!status.ok()) return AfterCommand(status);
  }
  ++n_regenerated_;
  const worker::SamplingOptions& sampling = options_.sampling.sampling;
  Note(
      Paint(streams_.err_style, Color::kDim,
            sampling.temperature == 0
                ? "(at temperature 0 the reply is the same again)"
                : absl::StrCat("(seed ", sampling.seed + n_regenerated_, ")")));
  absl::Status answered = Answer(before.turns.back().message, n_regenerated_);
  if (was_taken_) return answered;
  // The old reply is better than none.
  const InterruptScope interrupts;
  RETURN_IF_ERROR(AfterCommand(conversation_.Replace(before)));
  return answered;
}

absl::Status ChatConsole::Reset() {
  const bool was_taken_up = conversation_.was_taken_up();
  Transcript next;
  next.system =
      was_taken_up ? options_.system : conversation_.transcript().system;
  RETURN_IF_ERROR(conversation_.Replace(std::move(next)));
  Note(was_taken_up ? "forgot all messages and the session's instructions"
                    : "forgot all messages");
  return absl::OkStatus();
}

absl::Status ChatConsole::Save(const std::string& path) {
  const Transcript& transcript = conversation_.transcript();
  RETURN_IF_ERROR(SaveChat(
      {conversation_.model_name(), transcript, ChatSettings(options_.sampling)},
      path));
  Note(absl::StrCat("saved ", MessagesText(transcript.turns.size()), " to ",
                    Printable(path)));
  if (conversation_.was_taken_up()) {
    Note(absl::StrCat("without the session's instructions and its first ",
                      conversation_.n_unknown_turns(),
                      " turns, which are not known here"));
  }
  return absl::OkStatus();
}

absl::Status ChatConsole::Load(const std::string& path) {
  RETURN_IF_ERROR(CheckAllKnown());
  ASSIGN_OR_RETURN(SavedChat saved, LoadChat(path));
  SamplingFlags sampling = options_.sampling;
  for (const ChatSetting& setting : saved.settings) {
    RETURN_IF_ERROR(ChangeChatSetting(setting.name, setting.value, sampling));
  }
  RETURN_IF_ERROR(conversation_.Replace(std::move(saved.transcript)));
  n_regenerated_ = 0;
  Note(absl::StrCat(
      "loaded ", MessagesText(conversation_.transcript().turns.size()),
      " from ", Printable(path),
      saved.model.empty() || saved.model == conversation_.model_name()
          ? ""
          : absl::StrCat(", of a chat with ", Printable(saved.model))));
  const std::vector<ChatSetting> was = ChatSettings(options_.sampling);
  const std::vector<ChatSetting> is = ChatSettings(sampling);
  for (size_t i = 0; i < is.size(); ++i) {
    if (was[i].value != is[i].value) Note(ChangeText(was[i], is[i].value));
  }
  options_.sampling = std::move(sampling);
  return absl::OkStatus();
}

absl::Status ChatConsole::Set(absl::string_view argument) {
  if (argument.empty()) {
    Table table({{"setting"}, {"value", Align::kRight}});
    for (const ChatSetting& setting : ChatSettings(options_.sampling)) {
      table.AddRow({setting.name, setting.value});
    }
    Note(absl::StripTrailingAsciiWhitespace(table.Render(streams_.err_style)));
    return absl::OkStatus();
  }
  const std::vector<absl::string_view> words = absl::StrSplit(
      argument, absl::ByAnyChar(" \t\n="), absl::SkipWhitespace());
  if (words.empty() || words.size() > 2) {
    return absl::InvalidArgumentError("write /set NAME VALUE");
  }
  ASSIGN_OR_RETURN(const ChatSetting was,
                   ChatSettingOf(words[0], options_.sampling));
  if (words.size() == 1) {
    Note(absl::StrCat(was.name, ": ", was.value));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ChangeChatSetting(words[0], words[1], options_.sampling));
  ASSIGN_OR_RETURN(const ChatSetting is,
                   ChatSettingOf(words[0], options_.sampling));
  Note(ChangeText(was, is.value));
  return absl::OkStatus();
}

absl::Status ChatConsole::Info() {
  ASSIGN_OR_RETURN(const v1::Session session, conversation_.Info());
  Note(SessionText(session));
  return absl::OkStatus();
}

absl::Status ChatConsole::Memory() {
  v1::GetMemoryRequest request;
  request.set_model(conversation_.model());
  ASSIGN_OR_RETURN(const v1::GetMemoryResponse memory,
                   generator_.GetMemory(request));
  ASSIGN_OR_RETURN(const v1::Session session, conversation_.Info());
  Note(absl::StrCat(RenderMemory(memory, streams_.err_style), "  this chat: ",
                    FormatBytes(static_cast<int64_t>(session.reserved_bytes())),
                    " of keys and values are reserved, ", session.live_tokens(),
                    " of ", session.capacity_tokens(),
                    " tokens are in its context"));
  return absl::OkStatus();
}

}  // namespace plimsoll::cli
