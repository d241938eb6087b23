// Plain text tables: columns as wide as their cells, the last one wrapped.
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

// Rows of cells under titles. Rows shorter than the columns end early.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void AddRow(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
  }

  // The table with a line of titles, every line indented by two and at most
  // `style.width` columns wide as long as the other columns leave the last one
  // at least kMinLastColumn; lines do not end in blanks.
  std::string Render(const Style& style) const;

  static constexpr int64_t kMinLastColumn = 16;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` in lines of at most `width` columns, broken at blanks (a longer word
// stands alone).
std::vector<std::string> Wrap(absl::string_view text, int64_t width);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_TERMINAL_TABLE_H_
