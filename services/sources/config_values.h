// Reads the values that a model computes with, beside its weights, from its
// config.json. A plan does not need them.
#ifndef PLIMSOLL_SERVICES_SOURCES_CONFIG_VALUES_H_
#define PLIMSOLL_SERVICES_SOURCES_CONFIG_VALUES_H_

#include "absl/status/status.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/architecture.h"
#include "services/sources/config_fields.h"

namespace plimsoll::services {

// Adds the epsilon of norms, soft-caps and scales to `out`, which has the
// widths.
// Errors: kInvalidArgument naming the field that is missing or wrong;
// kUnimplemented naming a field whose value the architecture does not allow,
// because files have no key for it.
absl::Status AddComputedValues(const ConfigObject& config,
                               const planner::Architecture& architecture,
                               planner::HeaderNumbers& out);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CONFIG_VALUES_H_
