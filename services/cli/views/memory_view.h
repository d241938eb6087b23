// A loaded model's memory: planned beside measured.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_MEMORY_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_MEMORY_VIEW_H_

#include <string>

#include "plimsoll/v1/model.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// Writes the plan as a bar and a table, the parts of a model on several
// devices, and what was planned beside what was measured.
std::string RenderMemory(const v1::GetMemoryResponse& response,
                         const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_MEMORY_VIEW_H_
