// Reads a file of settings: TOML with a section for each program, without the
// parts of TOML that settings do not need.
#ifndef PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FILE_H_
#define PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::services {

inline constexpr size_t kMaxSettingsBytes = 1 << 20;

// The sections that a file may have.
inline constexpr std::array<absl::string_view, 4> kSections = {
    "planner", "worker", "serve", "gateway"};

enum class SettingKind {
  kSingle,  // a text or a number
  kSwitch,  // true or false
  kList,    // several texts or numbers
};

// One `key = value` of a section.
struct FileEntry {
  std::string key;
  SettingKind kind = SettingKind::kSingle;
  // In the form of flags: numbers as text.
  std::vector<std::string> values = {};
  std::string where = {};  // FILE:LINE
};

struct SettingsFile {
  // By name; the entries of each are in the order of their lines.
  std::map<std::string, std::vector<FileEntry>> sections;
};

// Parses the `text` of the file at `path`: sections, texts on one line,
// numbers, switches, lists of texts and numbers, and comments. Errors:
// kInvalidArgument with file, line and remedy for anything else, for a section
// that is not in kSections, and for a repeated section or key.
absl::StatusOr<SettingsFile> ParseSettingsFile(const std::string& path,
                                               absl::string_view text);

// Reads a file.
// Errors: those of ReadSmallFile, at most kMaxSettingsBytes, and of
// ParseSettingsFile.
absl::StatusOr<SettingsFile> ReadSettingsFile(const std::string& path);

// Writes a number so that reading it gives the same bits: 0.47, 1e+30.
std::string NumberText(double number);

// "; did you mean NAME?", with the name of `names` that is nearest to `word`.
std::string DidYouMean(absl::string_view word,
                       const std::vector<absl::string_view>& names);

// The part of a key that a message shows: its beginning, with control
// characters escaped.
std::string ShownKey(absl::string_view key);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SETTINGS_SETTINGS_FILE_H_
