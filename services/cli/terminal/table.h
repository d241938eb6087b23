// Plain text tables: columns are as wide as their cells, and the last one
// wraps.
#ifndef PLIMSOLL_SERVICES_CLI_TERMINAL_TABLE_H_
#define PLIMSOLL_SERVICES_CLI_TERMINAL_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/cli/terminal/terminal.h"

namespace plimsoll::cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

// Rows of cells under titles. A row with fewer cells than columns ends early.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void AddRow(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
  }

  // Writes the table with a line of titles. Every line is indented by two and
  // is at most `style.width` columns wide, if the other columns leave the last
  // one at least kMinLastColumn. Lines do not end in blanks.
  std::string Render(const Style& style) const;

  static constexpr int64_t kMinLastColumn = 16;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Breaks `text` into lines of at most `width` columns at blanks. A longer word
// has a line of its own.
std::vector<std::string> Wrap(absl::string_view text, int64_t width);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_TABLE_H_
