#include "services/sources/catalogue_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/fleet/csv.h"

namespace plimsoll::services {

std::string InstalledCataloguePath() {
  std::error_code error;
  const std::filesystem::path binary =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return (binary.parent_path().parent_path() / "share" / "plimsoll" /
          "devices.csv")
      .string();
}

absl::StatusOr<planner::DeviceCatalogue> ReadCatalogue(
    const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  // Reads one byte more than allowed, so that a longer file is refused.
  std::string text(static_cast<size_t>(planner::CsvRow::kMaxTextBytes + 1),
                   '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) {
    return absl::InvalidArgumentError(absl::StrCat(path, " could not be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  auto catalogue = planner::DeviceCatalogue::Parse(text);
  if (catalogue.ok()) return catalogue;
  return absl::Status(catalogue.status().code(),
                      absl::StrCat(path, ": ", catalogue.status().message()));
}

absl::StatusOr<planner::DeviceCatalogue> LoadCatalogue(
    const std::string& own_path) {
  planner::DeviceCatalogue catalogue;
  auto installed = ReadCatalogue(InstalledCataloguePath());
  if (installed.ok()) {
    catalogue = *std::move(installed);
  } else if (!absl::IsNotFound(installed.status())) {
    return installed.status();
  }
  if (own_path.empty()) return catalogue;
  ASSIGN_OR_RETURN(const planner::DeviceCatalogue own, ReadCatalogue(own_path));
  catalogue.Merge(own);
  return catalogue;
}

}  // namespace plimsoll::services
