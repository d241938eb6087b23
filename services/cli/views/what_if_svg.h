// Draws a grid of what-ifs: heat maps in one self-contained SVG file.
#ifndef PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_SVG_H_
#define PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_SVG_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/views/what_if_view.h"

namespace plimsoll::cli {

// Limit of the cells of all panels together. A larger picture would exceed
// kMaxSvgBytes, and nobody could read it.
inline constexpr size_t kMaxSvgCells = 400;
inline constexpr size_t kMaxSvgBytes = 100'000;
// The largest title or label in the picture.
inline constexpr size_t kMaxSvgTextBytes = 200;

// Returns well-formed XML without scripts, fonts or links, readable on light
// and on dark ground. Every cell has its numbers as a tooltip, and the load
// line separates plans that fit from plans that do not.
// Errors: kInvalidArgument beyond kMaxSvgCells.
absl::StatusOr<std::string> RenderSvg(const GridAnswer& answer,
                                      const MapAxes& axes,
                                      const std::vector<GridPanel>& panels);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_VIEWS_WHAT_IF_SVG_H_
