#include "services/cli/chat/chat_commands.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/nearest.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {
namespace {

constexpr std::array<ChatCommandHelp, 11> kChatCommands = {{
    {ChatCommand::kHelp, "/help", Argument::kNone, "", "Show this"},
    {ChatCommand::kSystem, "/system", Argument::kOptional, "TEXT",
     "Show the instructions to the model, or change them; \"\" takes them "
     "away"},
    {ChatCommand::kRegenerate, "/regenerate", Argument::kNone, "",
     "Drop the last reply and draw another one, with the next seed"},
    {ChatCommand::kUndo, "/undo", Argument::kOptional, "N",
     "Forget the last message with its reply, or the last N"},
    {ChatCommand::kReset, "/reset", Argument::kNone, "",
     "Forget all messages and begin anew"},
    {ChatCommand::kSave, "/save", Argument::kNeeded, "FILE",
     "Write the chat to a file: instructions, messages, settings"},
    {ChatCommand::kLoad, "/load", Argument::kNeeded, "FILE",
     "Go on with the chat of a file instead of this one"},
    {ChatCommand::kSet, "/set", Argument::kOptional, "NAME VALUE",
     "Show how replies are drawn and where they end, or change it"},
    {ChatCommand::kInfo, "/info", Argument::kNone, "",
     "Show what is kept of the chat"},
    {ChatCommand::kMemory, "/memory", Argument::kNone, "",
     "Show the model's memory, planned beside measured"},
    {ChatCommand::kExit, "/exit", Argument::kNone, "", "End the chat"},
}};

absl::Status UnknownCommand(absl::string_view name) {
  std::vector<absl::string_view> names;
  names.reserve(kChatCommands.size());
  for (const ChatCommandHelp& one : kChatCommands) names.push_back(one.name);
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no command ", Printable(name.substr(0, 40)),
      "; the nearest is ", Nearest(name, names),
      " (/help lists all, // begins a message that begins with a slash)"));
}

absl::Status CheckArgument(const ChatCommandHelp& help,
                           absl::string_view argument) {
  if (help.argument == Argument::kNeeded && argument.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("write ", help.name, " ", help.argument_name));
  }
  if (help.argument == Argument::kNone && !argument.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(help.name, " stands alone, without '",
                     Printable(argument.substr(0, 40)), "'"));
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const ChatCommandHelp> ChatCommands() { return kChatCommands; }

bool IsChatCommand(absl::string_view message) {
  return absl::StartsWith(message, "/") && !absl::StartsWith(message, "//");
}

absl::string_view WithoutEscape(absl::string_view message) {
  return absl::StartsWith(message, "//") ? message.substr(1) : message;
}

absl::StatusOr<ChatCommandLine> ParseChatCommand(absl::string_view message) {
  const size_t end = std::min(message.find_first_of(" \t\r\n"), message.size());
  const absl::string_view name = message.substr(0, end);
  const absl::string_view argument =
      absl::StripAsciiWhitespace(message.substr(end));
  for (const ChatCommandHelp& help : kChatCommands) {
    if (help.name != name) continue;
    absl::Status status = CheckArgument(help, argument);
    if (!status.ok()) return status;
    return ChatCommandLine{help.command, std::string(argument)};
  }
  return UnknownCommand(name);
}

}  // namespace plimsoll::cli
