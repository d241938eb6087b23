// A loaded model's memory: planned and measured bytes.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_MEMORY_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_MEMORY_VIEW_H_

#include <string>

#include "plimsoll/v1/model.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Writes the plan as a bar and a table, the parts of a model on several
// devices, and the planned beside the measured bytes.
std::string RenderMemory(const v1::GetMemoryResponse& response,
                         const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_MEMORY_VIEW_H_
