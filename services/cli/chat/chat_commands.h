// The commands of a chat: lines that begin with "/".
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_CHAT_COMMANDS_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_CHAT_COMMANDS_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::cli {

enum class ChatCommand {
  kHelp,
  kSystem,
  kRegenerate,
  kUndo,
  kReset,
  kSave,
  kLoad,
  kSet,
  kInfo,
  kMemory,
  kExit,
};

// Whether a command has text behind its name.
enum class Argument { kNone, kOptional, kNeeded };

struct ChatCommandHelp {
  ChatCommand command;
  absl::string_view name;  // with its slash
  Argument argument;
  absl::string_view argument_name;
  absl::string_view text;
};

// All commands, in the order in which /help lists them.
std::span<const ChatCommandHelp> ChatCommands();

struct ChatCommandLine {
  ChatCommand command;
  std::string argument;  // without blanks around it
};

// True if `message` is a command and not a text for the model. A text that
// begins with a slash is written with two.
bool IsChatCommand(absl::string_view message);
// Removes the slash that escapes a text.
absl::string_view WithoutEscape(absl::string_view message);

// Parses a message of which IsChatCommand is true.
// Errors: kInvalidArgument for an unknown command, with the nearest name, and
// for an argument that is missing or not allowed.
absl::StatusOr<ChatCommandLine> ParseChatCommand(absl::string_view message);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_CHAT_COMMANDS_H_
