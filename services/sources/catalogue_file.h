// The catalogue of devices as files: the one that is installed with the
// binaries, and the user's own.
#ifndef PLIMSOLL_SERVICES_SOURCES_CATALOGUE_FILE_H_
#define PLIMSOLL_SERVICES_SOURCES_CATALOGUE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/fleet/device_catalogue.h"

namespace plimsoll::services {

// ../share/plimsoll/devices.csv, seen from the folder of this executable; also
// in a build folder.
std::string InstalledCataloguePath();

// The catalogue in the file `path`.
// Errors: kNotFound if it cannot be opened; kInvalidArgument naming file, line
// and column.
absl::StatusOr<planner::DeviceCatalogue> ReadCatalogue(const std::string& path);

// The installed catalogue, empty if there is none, extended and overridden by
// the file `own_path` unless that is empty.
// Errors: as ReadCatalogue.
absl::StatusOr<planner::DeviceCatalogue> LoadCatalogue(
    const std::string& own_path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CATALOGUE_FILE_H_
