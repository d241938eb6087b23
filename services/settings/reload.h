// Applies settings that a running program reads again.
#ifndef PLIMSOLL_SERVICES_SETTINGS_RELOAD_H_
#define PLIMSOLL_SERVICES_SETTINGS_RELOAD_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "services/settings/settings.h"

namespace plimsoll::services {

// The function that applies a key's new value, for each key that may change
// while the program runs. After an error the old value stays.
using SettingAppliers = std::map<std::string, std::function<absl::Status()>>;

// Applies the settings of `read` that differ from those `in_effect`, as far as
// they have an applier, and changes `in_effect` accordingly. The log says which
// keys have changed, and which need a restart.
void ApplySettings(const Settings& read, const SettingAppliers& appliers,
                   Settings& in_effect);

// Logs that the settings cannot be read again, so nothing changes.
void LogBadSettings(const absl::Status& error);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SETTINGS_RELOAD_H_
