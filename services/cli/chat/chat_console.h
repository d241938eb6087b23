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
  // The columns of the window that shows replies, now.
  std::function<int64_t()> columns;
};

// Returns a reader of the lines of `streams.in`, which may be no terminal.
std::unique_ptr<LineReader> NewPlainReader(Streams& streams);

// At a terminal an error is shown and the chat goes on, and Ctrl-C ends the
// reply. Otherwise an error of a reply ends the chat, but an error of a command
// does not, nor does a message that is too long. Not thread-safe.
class ChatConsole {
 public:
  // All of them outlive the object.
  ChatConsole(ChatConsoleOptions options, Generator& generator,
              LineReader& reader, Streams& streams);

  // Runs until /exit or the end of the lines. Errors: those of the session and
  // of a reply; that of a command that failed, which was shown already.
  absl::Status Run();

 private:
  // Returns false once the chat is to end. Errors end it too.
  absl::StatusOr<bool> Handle(const MessageLines::Message& message);
  absl::StatusOr<bool> RunCommand(absl::string_view text);

  // These show an error. An error that they return ends the chat.
  absl::Status AfterInterrupt(const absl::Status& status);
  absl::Status AfterMessage(const absl::Status& status);
  absl::Status AfterCommand(const absl::Status& status);

  // Sends `message` with the seed that is set plus `seed_step`, and shows the
  // reply. Sets was_taken_. Errors end the chat.
  absl::Status Answer(const std::string& message, uint64_t seed_step);
  // Shows the evictions of a reply, its speed and the context that is left.
  void ShowReply(const v1::GenerateResponse& response);
  // Errors end the chat.
  absl::Status Regenerate();

  // Runs a command other than /exit and /regenerate. Errors are the command's.
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

  // Errors: kFailedPrecondition if the session has turns that are not known
  // here, so that it cannot be opened again without losing them.
  absl::Status CheckAllKnown() const;
  // A line about what was done.
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
