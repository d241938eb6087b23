// Models' files: whether they are whole, run here, and fit the memory.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_MODEL_FILES_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_MODEL_FILES_H_

#include <string>

#include "services/cli/doctor/diagnosis.h"

namespace plimsoll::cli {

// Whether the user named a file, or it was found in the cache. A model that
// cannot run here is an error only where it was named.
enum class ModelOrigin { kNamed, kCached };

// Checks the model `model`, a path or a name in the cache, and plans it for
// this machine's memory as it is now.
Diagnosis CheckModel(const std::string& model, ModelOrigin origin);

// The diagnosis of a cache without models.
Diagnosis NoModels();

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_MODEL_FILES_H_
