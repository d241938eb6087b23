// A grid of what-ifs as a picture: heat maps in one self-contained SVG file.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_SVG_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_SVG_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/views/what_if_view.h"

namespace plimsoll::cli {

// Cells of all panels together; more would be a picture beyond
// kMaxSvgBytes that nobody can read.
inline constexpr size_t kMaxSvgCells = 400;
inline constexpr size_t kMaxSvgBytes = 100'000;
// Of a title or a label in it.
inline constexpr size_t kMaxSvgTextBytes = 200;

// Well-formed XML without scripts, fonts or links; readable on light and on
// dark ground. Every cell has its numbers as a tooltip, and the load line runs
// between what fits and what does not.
// Errors: kInvalidArgument beyond kMaxSvgCells.
absl::StatusOr<std::string> RenderSvg(const GridAnswer& answer,
                                      const MapAxes& axes,
                                      const std::vector<GridPanel>& panels);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_SVG_H_
