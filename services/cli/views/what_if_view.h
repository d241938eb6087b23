// Shows a grid of what-ifs: heat maps, the frontier, and comma-separated
// values.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_VIEW_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_VIEW_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plimsoll/v1/planner.pb.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// The axes of a grid, in WhatIfRequest's order, the slowest first.
enum class GridAxis { kDevice, kWeights, kKvType, kUbatch, kSlots, kContext };
inline constexpr size_t kNumGridAxes = 6;
// The flag that gives the axis's values, without dashes: "kv-type".
absl::string_view GridAxisName(GridAxis axis);
// Errors: kInvalidArgument listing the existing names.
absl::StatusOr<GridAxis> ParseGridAxis(absl::string_view name);

// The whole answer of WhatIf, with the labels of the axes' values.
struct GridAnswer {
  std::string title;
  std::array<std::vector<std::string>, kNumGridAxes> labels;  // by GridAxis
  v1::WhatIfResponse all;  // every point and the whole frontier

  const std::vector<std::string>& Labels(GridAxis axis) const {
    return labels[static_cast<size_t>(axis)];
  }
};

// The two different axes of a heat map. The other axes make panels.
struct MapAxes {
  GridAxis rows = GridAxis::kContext;
  GridAxis columns = GridAxis::kSlots;
};

// The result of a plan that a cell shows.
enum class Heat {
  kLow,     // to 50 % of the budget
  kMiddle,  // to 75 %
  kHigh,    // to 90 %
  kFull,    // to 100 %
  kOver,    // does not fit
  kCannot,  // the device cannot run it
};
inline constexpr size_t kNumHeats = 6;
Heat HeatOf(const v1::WhatIfPoint& point);
// Returns "63%" or ">999%" or, for a solved context, its tokens, such as
// "30,840".
std::string CellText(const v1::WhatIfPoint& point);

struct GridCell {
  const v1::WhatIfPoint* point;
  bool is_best;  // on the frontier, unless all fitting plans are on it
};

// One heat map: all values of two axes, and one value of each other axis.
struct GridPanel {
  std::string heading;  // the other axes that have several values
  std::vector<std::vector<GridCell>> rows;
};

// Makes the panels. Errors: kInternal if the answer's length does not match its
// axes, or if it names points that it does not have.
absl::StatusOr<std::vector<GridPanel>> PanelsOf(const GridAnswer& answer,
                                                const MapAxes& axes);

// The axes with one value each, which no heading names: "weights file, slots
// 1".
std::string FixedSettings(const GridAnswer& answer);

// Writes heat maps, a legend and the frontier, in style.width columns.
std::string RenderGrid(const GridAnswer& answer, const MapAxes& axes,
                       const std::vector<GridPanel>& panels,
                       const Style& style);

// Writes a header and a line for every point, in the grid's order. PanelsOf
// must accept the answer.
std::string RenderCsv(const GridAnswer& answer);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_VIEW_H_
