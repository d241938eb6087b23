// Settings for drawing and ending replies, by name. /set shows and changes
// them, and a file of a chat keeps them.
#ifndef PLIMSOLL_SERVICES_CLI_CHAT_CHAT_SETTINGS_H_
#define PLIMSOLL_SERVICES_CLI_CHAT_CHAT_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

struct ChatSetting {
  std::string name;   // the flag's name, with underscores
  std::string value;  // a number
};

// All settings, in the order in which /set lists them.
std::vector<ChatSetting> ChatSettings(const SamplingFlags& flags);

// Returns a setting. Dashes and underscores are the same in names.
// Errors: kInvalidArgument for an unknown name, with the nearest.
absl::StatusOr<ChatSetting> ChatSettingOf(absl::string_view name,
                                          const SamplingFlags& flags);

// Changes a setting. A value has the same limits as the flag's, except that
// max_tokens 0 means that there is no limit.
// Errors: kInvalidArgument for an unknown name, with the nearest, and for a
// value that is not allowed; nothing is changed then.
absl::Status ChangeChatSetting(absl::string_view name, absl::string_view value,
                               SamplingFlags& flags);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_CHAT_CHAT_SETTINGS_H_
