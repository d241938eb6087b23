// Shows a memory plan: bar, table, verdict, reason and what to try.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_PLAN_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_PLAN_VIEW_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "plimsoll/v1/common.pb.h"
#include "services/cli/terminal/bar.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// The plan's bytes by kind: weights, kv, scratch, host, margin. They sum to
// total_bytes. The part of total_bytes outside all regions (alignment, the
// allocator's rounding) counts as scratch.
std::vector<Segment> SegmentsOf(const v1::MemoryPlan& plan);

// Writes the whole view. `title` names model and device.
std::string RenderPlan(const v1::MemoryPlan& plan, absl::string_view title,
                       const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_PLAN_VIEW_H_
