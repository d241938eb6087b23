// The settings of a program, with the origin of each value.
#ifndef PLIMSOLL_SERVICES_SETTINGS_SETTINGS_H_
#define PLIMSOLL_SERVICES_SETTINGS_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/settings/settings_file.h"

namespace plimsoll::services {

// The variable that names the file of settings of every program.
inline constexpr char kSettingsVariable[] = "PLIMSOLL_CONFIG";

// The value of one flag.
struct Setting {
  std::string key;  // the flag's name without its dashes
  SettingKind kind = SettingKind::kSingle;
  // Values in the form that flags take. Empty: the setting is not set, and the
  // program decides.
  std::vector<std::string> values = {};
  // "--slots", "$PLIMSOLL_WORKER_SLOTS", "FILE:7" or "default".
  std::string where = {};
};

// All settings of a program.
struct Settings {
  std::string section;            // its section in the file
  std::string path = {};          // the file; empty: none
  bool is_printed = false;        // --print-config
  std::vector<Setting> all = {};  // in the order of the flags
  // Variables with the program's prefix that belong to no flag.
  std::vector<std::string> unread = {};
};

// The environment's variable for a key of a section: of "n-ctx" of "worker" it
// is PLIMSOLL_WORKER_N_CTX.
std::string VariableOf(absl::string_view section, absl::string_view key);

// The settings as a file that gives the same settings. A comment on each line
// tells the origin of its value. No setting is a secret; settings for secrets
// only name files.
std::string PrintSettings(const Settings& settings);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SETTINGS_SETTINGS_H_
