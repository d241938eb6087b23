// The files that can be planned: a GGUF file, the first of several, or a
// config.json.
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

// Reads the header of a GGUF file, or those of all files of a model (given the
// first one), or a config.json. The config.json is `path` itself, or it is
// in the folder `path`, or beside a *.safetensors or *.safetensors.index.json.
// Errors: those of the readers; if there are several files, they name the file.
absl::StatusOr<PlanSource> OpenPlanSource(const std::string& path);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SOURCES_PLAN_SOURCE_H_
