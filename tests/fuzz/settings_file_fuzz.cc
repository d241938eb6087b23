// Arbitrary bytes as a file of settings: an error with its file, or sections
// that are read as they were when they are printed.
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "services/settings/settings.h"
#include "services/settings/settings_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace services = plimsoll::services;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = services::ParseSettingsFile("a.toml", text);
  if (!file.ok()) {
    PLIMSOLL_CHECK(absl::StartsWith(file.status().message(), "a.toml:"),
                   "an error says which file it is in");
    return 0;
  }
  for (const auto& [section, entries] : file->sections) {
    services::Settings settings = {.section = section};
    for (const services::FileEntry& entry : entries) {
      settings.all.push_back({entry.key, entry.kind, entry.values, "b"});
    }
    const auto again = services::ParseSettingsFile(
        "b.toml", services::PrintSettings(settings));
    PLIMSOLL_CHECK(again.ok(), "what is printed can be read");
    const auto& printed = again->sections.at(section);
    PLIMSOLL_CHECK(printed.size() == entries.size(), "nothing is lost");
    for (size_t i = 0; i < entries.size(); ++i) {
      PLIMSOLL_CHECK(printed[i].kind == entries[i].kind &&
                         printed[i].key == entries[i].key &&
                         printed[i].values == entries[i].values,
                     "a value is read as it was");
    }
  }
  return 0;
}
