// What can be planned: a GGUF file, the first of several, or a config.json.
#ifndef PLIMSOLL_SERVICES_SOURCES_PLAN_SOURCE_H_
#define PLIMSOLL_SERVICES_SOURCES_PLAN_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/gguf/gguf_reader.h"
#include "planner/model/model_shape.h"

namespace plimsoll::services {

struct PlanSource {
  planner::GgufHeader header;
  planner::ModelShape shape;
};

// Reads the headers of a GGUF file, of all parts of a split one (given its
// first part), or the config.json that is `path`, lies in the folder `path` or
// beside a *.safetensors or *.safetensors.index.json.
// Errors: those of the readers; of several files, naming the one.
absl::StatusOr<PlanSource> OpenPlanSource(const std::string& path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_PLAN_SOURCE_H_
