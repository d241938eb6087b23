// The stacked bar of a memory plan, with the load line at the budget.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_BAR_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_BAR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

// One kind of memory in the bar.
struct Segment {
  std::string name;
  int64_t bytes;
};

// The cells of each segment in a bar of `cells` cells that stands for
// `scale_bytes`. They are in proportion, at least one for a segment that is not
// empty, and never more than `cells` together.
std::vector<int64_t> SegmentCells(const std::vector<Segment>& segments,
                                  int64_t scale_bytes, int64_t cells);

// Draws about four lines: the bar, which is as long as the larger of the sum
// and the budget, the load line under the cell where the budget ends, and a
// legend. Glyphs tell the segments apart; colour only repeats that.
std::string RenderBar(const std::vector<Segment>& segments,
                      int64_t budget_bytes, const Style& style);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_BAR_H_
