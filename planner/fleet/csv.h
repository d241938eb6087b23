// Small hand-written tables: lines of cells between commas.
#ifndef PLIMSOLL_PLANNER_FLEET_CSV_H_
#define PLIMSOLL_PLANNER_FLEET_CSV_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace plimsoll::planner {

// One line of a table.
struct CsvRow {
  static constexpr int64_t kMaxTextBytes = 1 << 20;
  static constexpr int64_t kMaxCellBytes = 256;

  int64_t line;                                // from 1
  std::span<const absl::string_view> columns;  // their names
  std::vector<absl::string_view> cells;  // one per column, without outer blanks

  // Returns kInvalidArgument with a message like "line 7, column year: ...".
  absl::Status Error(size_t column, absl::string_view what) const;
  // The cell as a whole number from `min` to `max`.
  absl::StatusOr<int64_t> Number(size_t column, int64_t min, int64_t max) const;
  // The cell if it is a name: letters, digits, '-', '_', '.' and '/'.
  absl::StatusOr<absl::string_view> Name(size_t column) const;
};

// The rows of `text`, whose first line names exactly `columns`. Blank lines and
// lines that begin with '#' are skipped; the last column takes the rest of its
// line, commas included. The rows refer to `text` and `columns`.
// Errors: kInvalidArgument naming line and column for a cell that is missing,
// empty (unless it is the last), longer than kMaxCellBytes or not plain ASCII,
// for another first line, and beyond `max_rows` or kMaxTextBytes.
absl::StatusOr<std::vector<CsvRow>> ParseCsv(
    absl::string_view text, std::span<const absl::string_view> columns,
    int64_t max_rows);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_CSV_H_
