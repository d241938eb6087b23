// What a running program does when it reads its settings again.
#ifndef PLIMSOLL_SERVICES_SETTINGS_RELOAD_H_
#define PLIMSOLL_SERVICES_SETTINGS_RELOAD_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "services/settings/settings.h"

namespace plimsoll::services {

// For each key that may change while the program runs: what gives it its new
// value. An error leaves the old one.
using SettingAppliers = std::map<std::string, std::function<absl::Status()>>;

// Applies the settings of `read` that differ from those `in_effect`, as far as
// they have an applier, and changes `in_effect` accordingly. The log says which
// keys have changed, and which need a restart.
void ApplySettings(const Settings& read, const SettingAppliers& appliers,
                   Settings& in_effect);

// Says in the log that the settings cannot be read again, so nothing changes.
void LogBadSettings(const absl::Status& error);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SETTINGS_RELOAD_H_
