#include "services/settings/settings_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/settings/settings_file.h"

namespace plimsoll::services {
namespace {

constexpr char kConfigFlag[] = "--config";
constexpr char kPrintFlag[] = "--print-config";

[[noreturn]] void Refuse(const std::string& message) {
  throw CLI::ValidationError(message);
}

bool IsGiven(const CLI::Option* option) {
  return option != nullptr && option->count() > 0;
}

// The flags that are settings.
std::vector<CLI::Option*> SettingOptions(CLI::App& app) {
  const std::set<const CLI::Option*> others = {
      app.get_help_ptr(), app.get_version_ptr(), app.get_option(kConfigFlag),
      app.get_option(kPrintFlag)};
  return app.get_options([&others](const CLI::Option* option) {
    return others.count(option) == 0;
  });
}

// The first long name of a flag, or the name of operands.
std::string KeyOf(const CLI::Option& option) {
  return std::string(absl::StripPrefix(option.get_name(), "--"));
}

// What the command line has of an option.
std::string GivenName(const CLI::Option& option) {
  return option.get_positional() ? "operands" : option.get_name();
}

SettingKind KindOf(const CLI::Option& option) {
  if (option.get_expected_min() == 0) return SettingKind::kSwitch;
  const bool is_list =
      option.get_items_expected_max() > 1 ||
      option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return is_list ? SettingKind::kList : SettingKind::kSingle;
}

const char* NonEmptyVariable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr && *value != '\0' ? value : nullptr;
}

const FileEntry* FindEntry(const std::vector<FileEntry>& entries,
                           const std::string& key) {
  const auto found =
      std::find_if(entries.begin(), entries.end(),
                   [&key](const FileEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

void CheckKeys(const std::vector<FileEntry>& entries,
               const std::string& section,
               const std::vector<CLI::Option*>& options) {
  std::vector<std::string> keys;
  keys.reserve(options.size());
  for (const CLI::Option* option : options) keys.push_back(KeyOf(*option));
  for (const FileEntry& entry : entries) {
    if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
    Refuse(absl::StrCat(entry.where, ": [", section, "] has no key ",
                        ShownKey(entry.key),
                        DidYouMean(entry.key, {keys.begin(), keys.end()})));
  }
}

// What a file may give a setting of this kind.
absl::string_view AllowedOf(SettingKind kind) {
  switch (kind) {
    case SettingKind::kSwitch:
      return "true or false, without quotes";
    case SettingKind::kList:
      return "a text, a number or a list of them";
    case SettingKind::kSingle:
      break;
  }
  return "one text or one number";
}

// Refuses an entry whose value has not the flag's kind.
void CheckKind(const FileEntry& entry, SettingKind wanted) {
  const bool fits =
      entry.kind == wanted ||
      (entry.kind == SettingKind::kSingle && wanted == SettingKind::kList);
  if (fits) return;
  Refuse(
      absl::StrCat(entry.where, ": ", entry.key, " takes ", AllowedOf(wanted)));
}

// Gives the option its value, if it has any but its default.
Setting FillOption(CLI::Option& option, const std::string& section,
                   const std::vector<FileEntry>& entries) {
  Setting setting = {.key = KeyOf(option), .kind = KindOf(option)};
  if (option.count() > 0) {
    setting.values = option.results();
    setting.where = GivenName(option);
    return setting;
  }
  const bool is_switch = setting.kind == SettingKind::kSwitch;
  const std::string variable = VariableOf(section, setting.key);
  if (const char* value = NonEmptyVariable(variable)) {
    setting.where = absl::StrCat("$", variable);
    setting.values = {value};
    if (setting.kind == SettingKind::kList) {
      setting.values = absl::StrSplit(value, ',');
    }
    if (is_switch && setting.values.front() != "true" &&
        setting.values.front() != "false") {
      Refuse(absl::StrCat(setting.where, ": takes true or false"));
    }
  } else if (const FileEntry* entry = FindEntry(entries, setting.key)) {
    CheckKind(*entry, setting.kind);
    setting.where = entry->where;
    setting.values = entry->values;
  } else {
    setting.where = "default";
    if (is_switch) setting.values = {"false"};
    const std::string value = option.get_default_str();
    if (!value.empty()) setting.values = {value};
    return setting;
  }
  // A switch that is off is one that nobody gave: others may exclude it.
  if (!is_switch || setting.values.front() == "true") {
    option.add_result(setting.values);
  }
  return setting;
}

// Has the option read its value, so that the error of one that the command line
// has not says where it comes from.
void ReadOption(CLI::Option& option, const Setting& setting) {
  if (option.count() == 0) return;
  try {
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    if (setting.where == GivenName(option)) throw;
    Refuse(absl::StrCat(setting.where, ": ", error.what()));
  }
}

// The variables of the section's prefix that are no setting's.
std::vector<std::string> UnreadVariables(const Settings& settings) {
  std::set<std::string> read;
  for (const Setting& setting : settings.all) {
    read.insert(VariableOf(settings.section, setting.key));
  }
  const std::string prefix = VariableOf(settings.section, "");
  std::vector<std::string> unread;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string name =
        std::pair<std::string, std::string>(
            absl::StrSplit(*variable, absl::MaxSplits('=', 1)))
            .first;
    if (absl::StartsWith(name, prefix) && read.count(name) == 0) {
      unread.push_back(name);
    }
  }
  std::sort(unread.begin(), unread.end());
  return unread;
}

// Called between the parsing of the command line and its flags' own work.
void FillSettings(CLI::App& app, const std::string& flag, Settings& settings) {
  // Subcommands that were not called are asked, too.
  if (!app.parsed()) return;
  if (IsGiven(app.get_help_ptr()) || IsGiven(app.get_version_ptr())) return;
  settings.path = flag;
  const char* variable = NonEmptyVariable(kSettingsVariable);
  if (flag.empty() && variable != nullptr) settings.path = variable;
  SettingsFile file;
  if (!settings.path.empty()) {
    auto read = ReadSettingsFile(settings.path);
    if (!read.ok()) Refuse(std::string(read.status().message()));
    file = *std::move(read);
  }
  const std::vector<FileEntry>& entries = file.sections[settings.section];
  const std::vector<CLI::Option*> options = SettingOptions(app);
  CheckKeys(entries, settings.section, options);
  settings.all.clear();
  for (CLI::Option* option : options) {
    settings.all.push_back(FillOption(*option, settings.section, entries));
  }
  for (size_t i = 0; i < options.size(); ++i) {
    ReadOption(*options[i], settings.all[i]);
  }
  settings.unread = UnreadVariables(settings);
}

}  // namespace

void AddSettingsFlags(CLI::App& app, Settings& settings) {
  // Options are read in the order in which they were added, and this one even
  // if it is not given: so it fills the others before they are read.
  app.add_option_function<std::string>(
         kConfigFlag,
         [&app, &settings](const std::string& path) {
           FillSettings(app, path, settings);
         },
         absl::StrCat("Take values of flags that are not given from section [",
                      settings.section, "] of this TOML file ($",
                      kSettingsVariable,
                      "); variables count before it: that of --listen is ",
                      VariableOf(settings.section, "listen")))
      ->type_name("FILE")
      ->force_callback();
  app.add_flag(kPrintFlag, settings.is_printed,
               "Print all settings as such a file, say where each comes from, "
               "and end");
}

std::optional<int> PrintIfAsked(const Settings& settings) {
  if (!settings.is_printed) return std::nullopt;
  const std::string text = PrintSettings(settings);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace plimsoll::services
