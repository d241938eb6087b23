// Tables of the catalogue's devices.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_CATALOGUE_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_CATALOGUE_VIEW_H_

#include <string>

#include "plimsoll/v1/planner.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Writes one line for each device, by memory.
std::string RenderCatalogue(const v1::ListCatalogueResponse& catalogue,
                            const Style& style);

// Writes one line for each device that a model fits on, the smallest first,
// with its bounds. Requires at least one device.
std::string RenderFitting(const v1::FindDevicesResponse& fitting,
                          const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_CATALOGUE_VIEW_H_
