// Reads how a model rotates queries and keys, from its config.json.
#ifndef PLIMSOLL_SERVICES_SOURCES_CONFIG_ROTATION_H_
#define PLIMSOLL_SERVICES_SOURCES_CONFIG_ROTATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/gguf/header_numbers.h"
#include "planner/model/architecture.h"
#include "services/sources/config_fields.h"

namespace plimsoll::services {

// A vector of a GGUF file that a checkpoint describes only by numbers.
struct ConfigVector {
  std::string name;  // in the file
  std::vector<float> values;
};

// Adds the keys `A.rope.*` and the scale of growing queries to `out`, which
// already has the widths of heads. Returns the divisors of frequencies of the
// kinds llama3 and longrope.
// Errors: kInvalidArgument naming the field that is missing or wrong;
// kUnimplemented naming a kind of scaling, or an option of it, that files have
// no key for.
absl::StatusOr<std::vector<ConfigVector>> AddRotation(
    const ConfigObject& config, const planner::Architecture& architecture,
    planner::HeaderNumbers& out);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_CONFIG_ROTATION_H_
