// Devices of the catalogue for people.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_CATALOGUE_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_CATALOGUE_VIEW_H_

#include <string>

#include "plimsoll/v1/planner.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// A line a device, by memory.
std::string RenderCatalogue(const v1::ListCatalogueResponse& catalogue,
                            const Style& style);

// A line a device that a model fits on, with what it allows at most; the
// smallest first. Requires at least one.
std::string RenderFitting(const v1::FindDevicesResponse& fitting,
                          const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_CATALOGUE_VIEW_H_
