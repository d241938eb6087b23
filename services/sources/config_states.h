// Reads the layers that keep a state from a model's config.json, and the widths
// of their states.
#ifndef PLIMSOLL_SERVICES_SOURCES_CONFIG_STATES_H_
#define PLIMSOLL_SERVICES_SOURCES_CONFIG_STATES_H_

#include "absl/status/status.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/architecture.h"
#include "services/sources/config_fields.h"

namespace plimsoll::services {

// True if the config lists its layers and some of them have experts. Nemotron-H
// has one model_type for models with experts and without.
bool ListsExpertLayers(const ConfigObject& config);

// Adds the keys of `architecture`, which has such layers, to `out`, which has
// the other widths.
// Errors: kInvalidArgument naming the field that is missing or wrong;
// kUnimplemented naming a kind of layer for which files have no key.
absl::Status AddStates(const ConfigObject& config,
                       const planner::Architecture& architecture,
                       planner::HeaderNumbers& out);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CONFIG_STATES_H_
