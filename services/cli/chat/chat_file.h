// A chat as a file: JSON with the roles and texts of its messages, the system
// message and the settings. docs/chat.md describes it.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_CHAT_FILE_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_CHAT_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/cli/chat/chat_settings.h"
#include "services/cli/chat/transcript.h"

namespace plimsoll::cli {

inline constexpr int64_t kChatFileVersion = 1;
inline constexpr int64_t kMaxChatFileBytes = int64_t{64} << 20;

struct SavedChat {
  std::string model;  // the model's name, for people
  Transcript transcript;
  std::vector<ChatSetting> settings;
};

// Writes the chat as JSON, without the ids of replies.
std::string ChatToJson(const SavedChat& chat);
// Errors: kInvalidArgument saying what is wrong and where: no JSON, no chat,
// another version, a member that is unknown or of the wrong kind, messages that
// are not user and assistant in turn.
absl::StatusOr<SavedChat> ChatFromJson(absl::string_view json);

// Writes the chat to a file that only its owner can read. The file is written
// completely or not at all. An existing file is replaced only if it is a chat.
// Errors: kAlreadyExists; kOutOfRange beyond kMaxChatFileBytes, which LoadChat
// would refuse; kUnavailable if it could not be written.
absl::Status SaveChat(const SavedChat& chat, const std::string& path);
// Errors: kNotFound; kInvalidArgument with the file's name.
absl::StatusOr<SavedChat> LoadChat(const std::string& path);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_CHAT_FILE_H_
