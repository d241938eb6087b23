// Shows a placement: a line for each device, then the models without a place,
// with the reasons.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_PLACE_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_PLACE_VIEW_H_

#include <string>

#include "plimsoll/v1/planner.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Writes the table of devices that hold something, the verdict with its bounds,
// and a certificate for every model with replicas that found no place.
std::string RenderPlacement(const v1::PlaceModelsResponse& placement,
                            const Style& style);

// Writes only the certificates, one line each; empty if all replicas found a
// place.
std::string Certificates(const v1::PlaceModelsResponse& placement);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_PLACE_VIEW_H_
