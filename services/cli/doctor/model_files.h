// Checks model files: whether they are complete, can run here, and fit the
// memory.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_MODEL_FILES_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_MODEL_FILES_H_

#include <string>

#include "services/cli/doctor/diagnosis.h"

namespace plimsoll::cli {

// The origin of a model: the user named it, or it was found in the cache. A
// model that cannot run here is an error only if the user named it.
enum class ModelOrigin { kNamed, kCached };

// Checks the model `model`, a path or a name in the cache, and plans it for
// this machine's memory as it is now.
Diagnosis CheckModel(const std::string& model, ModelOrigin origin);

// The diagnosis of a cache without models.
Diagnosis NoModels();

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_MODEL_FILES_H_
