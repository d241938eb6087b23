// Generates text from a model of this process: the engine's step thread writes
// it, and the command reads it.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_GENERATOR_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_GENERATOR_H_

#include <memory>

#include "services/cli/backends/embedded.h"
#include "services/cli/backends/generator.h"

namespace plimsoll::cli {

// Makes a generator of text from `model`, which it owns.
std::unique_ptr<Generator> NewEmbeddedGenerator(LoadedModel model);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_EMBEDDED_GENERATOR_H_
