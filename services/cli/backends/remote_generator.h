// Reads text from a worker. One read is in flight, so a command that does not
// read costs a bounded amount of memory on both sides.
#ifndef PLIMSOLL_SERVICES_CLI_BACKENDS_REMOTE_GENERATOR_H_
#define PLIMSOLL_SERVICES_CLI_BACKENDS_REMOTE_GENERATOR_H_

#include <memory>

#include "services/cli/backends/generator.h"
#include "services/cli/flags/flags.h"

namespace plimsoll::cli {

// Makes a generator of text from the worker at `address`.
std::unique_ptr<Generator> NewRemoteGenerator(const Endpoint& address);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_BACKENDS_REMOTE_GENERATOR_H_
