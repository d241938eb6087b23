#include "services/settings/reload.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "services/host/log.h"

namespace plimsoll::services {

void ApplySettings(const Settings& read, const SettingAppliers& appliers,
                   Settings& in_effect) {
  std::vector<std::string> changed;
  std::vector<std::string> waiting;
  for (size_t i = 0; i < read.all.size(); ++i) {
    const Setting& setting = read.all[i];
    if (setting.values == in_effect.all[i].values) continue;
    const auto applier = appliers.find(setting.key);
    if (applier == appliers.end()) {
      waiting.push_back(setting.key);
      continue;
    }
    const absl::Status status = applier->second();
    if (status.ok()) {
      in_effect.all[i] = setting;
      changed.push_back(setting.key);
    } else {
      Log(LogLevel::kError, "a setting could not be changed",
          {{"key", setting.key}, {"error", std::string(status.message())}});
    }
  }
  Log(LogLevel::kInfo, "the settings were read again",
      {{"changed", absl::StrJoin(changed, ",")}});
  if (waiting.empty()) return;
  Log(LogLevel::kWarning, "new values of settings count after a restart only",
      {{"keys", absl::StrJoin(waiting, ",")}});
}

void LogBadSettings(const absl::Status& error) {
  Log(LogLevel::kError,
      "the settings are bad; those that were read before stay",
      {{"error", std::string(error.message())}});
}

}  // namespace plimsoll::services
