// The loop of `plimsoll chat`: lines become messages and commands.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_CHAT_CONSOLE_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_CHAT_CONSOLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/cli/backends/generator.h"
#include "services/cli/chat/chat_commands.h"
#include "services/cli/chat/conversation.h"
#include "services/cli/chat/line_editor.h"
#include "services/cli/chat/message_lines.h"
#include "services/cli/flags/flags.h"
#include "services/cli/terminal/streams.h"

namespace plimsoll::cli {

struct ChatConsoleOptions {
  ConversationOptions conversation;
  std::optional<std::string> system;
  SamplingFlags sampling;
  std::optional<int64_t> draft_tokens;
  // Returns the present columns of the window that shows replies.
  std::function<int64_t()> columns;
};

// Returns a reader of the lines of `streams.in`, which need not be a terminal.
std::unique_ptr<LineReader> NewPlainReader(Streams& streams);

// At a terminal, errors are shown and the chat continues, and Ctrl-C ends the
// reply. Otherwise an error of a reply ends the chat; an error of a command, or
// a message that is too long, does not end it. Not thread-safe.
class ChatConsole {
 public:
  // The referenced objects outlive this one.
  ChatConsole(ChatConsoleOptions options, Generator& generator,
              LineReader& reader, Streams& streams);

  // Runs until /exit or the end of the lines. Errors: those of the session and
  // of a reply; the error of a failed command, which was shown already.
  absl::Status Run();

 private:
  // Returns false if the chat must end. Errors end the chat too.
  absl::StatusOr<bool> Handle(const MessageLines::Message& message);
  absl::StatusOr<bool> RunCommand(absl::string_view text);

  // The next functions show an error. An error that they return ends the chat.
  absl::Status AfterInterrupt(const absl::Status& status);
  absl::Status AfterMessage(const absl::Status& status);
  absl::Status AfterCommand(const absl::Status& status);

  // Sends `message` with the configured seed plus `seed_step`, and shows the
  // reply. Sets was_taken_. Errors end the chat.
  absl::Status Answer(const std::string& message, uint64_t seed_step);
  // Shows the evictions of a reply, its speed and the context that is left.
  void ShowReply(const v1::GenerateResponse& response);
  // Errors end the chat.
  absl::Status Regenerate();

  // Runs a command other than /exit and /regenerate. Errors: those of the
  // command.
  absl::Status Execute(const ChatCommandLine& line);
  void Help();
  absl::Status System(absl::string_view text);
  absl::Status Undo(absl::string_view count);
  absl::Status Reset();
  absl::Status Save(const std::string& path);
  absl::Status Load(const std::string& path);
  absl::Status Set(absl::string_view argument);
  absl::Status Info();
  absl::Status Memory();
  // Takes the newest `n` turns back.
  absl::Status ForgetNewest(size_t n);

  // Errors: kFailedPrecondition if the session has turns that this process does
  // not know, because opening it again would lose them.
  absl::Status CheckAllKnown() const;
  // Shows a line about the completed work.
  void Note(absl::string_view text);
  void ShowNotes();

  ChatConsoleOptions options_;
  LineReader& reader_;
  Streams& streams_;
  const bool is_terminal_;
  Generator& generator_;
  Conversation conversation_;
  uint64_t n_regenerated_ = 0;  // times that the last reply was regenerated
  bool was_taken_ = false;      // the last message is part of the chat
  absl::Status failed_;         // the first command that failed
};

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_CHAT_CONSOLE_H_
