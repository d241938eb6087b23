// Reads the catalogue of devices from files: the file that is installed with
// the binaries, and the user's own.
#ifndef PLIMSOLL_SERVICES_SOURCES_CATALOGUE_FILE_H_
#define PLIMSOLL_SERVICES_SOURCES_CATALOGUE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/fleet/device_catalogue.h"

namespace plimsoll::services {

// The path ../share/plimsoll/devices.csv relative to the folder of this
// executable. It also works in a build folder.
std::string InstalledCataloguePath();

// Reads the catalogue in the file `path`.
// Errors: kNotFound if it cannot be opened; kInvalidArgument naming file, line
// and column.
absl::StatusOr<planner::DeviceCatalogue> ReadCatalogue(const std::string& path);

// Reads the installed catalogue (empty if there is none) and adds the devices
// of the file `own_path`, which replace those of the same name. An empty
// `own_path` adds nothing.
// Errors: those of ReadCatalogue.
absl::StatusOr<planner::DeviceCatalogue> LoadCatalogue(
    const std::string& own_path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CATALOGUE_FILE_H_
