#include "planner/fleet/csv.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr size_t kMaxQuotedBytes = 40;  // shown of a cell, in a message

absl::Status CheckCells(const CsvRow& row) {
  for (size_t c = 0; c < row.cells.size(); ++c) {
    const absl::string_view cell = row.cells[c];
    if (cell.empty() && c + 1 < row.columns.size()) {
      return row.Error(c, "nothing is there");
    }
    if (cell.size() > static_cast<size_t>(CsvRow::kMaxCellBytes)) {
      return row.Error(c, absl::StrCat("longer than ", CsvRow::kMaxCellBytes,
                                       " characters"));
    }
    const bool is_ascii = std::all_of(cell.begin(), cell.end(), [](char byte) {
      return absl::ascii_isprint(static_cast<unsigned char>(byte));
    });
    if (!is_ascii) return row.Error(c, "only plain ASCII is allowed");
  }
  if (row.cells.size() < row.columns.size()) {
    return row.Error(row.cells.size(), "nothing is there");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CsvRow::Error(size_t column, absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ", column ", columns[column], ": ", what));
}

absl::StatusOr<int64_t> CsvRow::Number(size_t column, int64_t min,
                                       int64_t max) const {
  int64_t value = 0;
  if (!absl::SimpleAtoi(cells[column], &value) || value < min || value > max) {
    return Error(
        column,
        absl::StrCat("'", cells[column].substr(0, kMaxQuotedBytes),
                     "' is not a whole number from ", min, " to ", max));
  }
  return value;
}

absl::StatusOr<absl::string_view> CsvRow::Name(size_t column) const {
  const absl::string_view name = cells[column];
  const bool is_name =
      !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
               c == '_' || c == '.' || c == '/';
      });
  if (!is_name) {
    return Error(column, absl::StrCat("'", name.substr(0, kMaxQuotedBytes),
                                      "' is not a name of letters, digits, "
                                      "'-', '_', '.' and '/'"));
  }
  return name;
}

absl::StatusOr<std::vector<CsvRow>> ParseCsv(
    absl::string_view text, std::span<const absl::string_view> columns,
    int64_t max_rows) {
  if (text.size() > static_cast<size_t>(CsvRow::kMaxTextBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the table has more than ", CsvRow::kMaxTextBytes, " bytes"));
  }
  const std::string header = absl::StrJoin(columns, ",");
  std::vector<CsvRow> rows;
  bool has_header = false;
  int64_t line = 0;
  for (absl::string_view part : absl::StrSplit(text, '\n')) {
    ++line;
    part = absl::StripAsciiWhitespace(part);
    if (part.empty() || part.front() == '#') continue;
    if (!has_header) {
      if (part != header) {
        return absl::InvalidArgumentError(absl::StrCat(
            "line ", line, ": the first line must be '", header, "'"));
      }
      has_header = true;
      continue;
    }
    if (static_cast<int64_t>(rows.size()) == max_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line, ": more than ", max_rows, " rows"));
    }
    CsvRow row{
        line, columns,
        absl::StrSplit(
            part, absl::MaxSplits(',', static_cast<int>(columns.size()) - 1))};
    for (absl::string_view& cell : row.cells) {
      cell = absl::StripAsciiWhitespace(cell);
    }
    RETURN_IF_ERROR(CheckCells(row));
    rows.push_back(std::move(row));
  }
  if (!has_header) {
    return absl::InvalidArgumentError(
        absl::StrCat("the first line '", header, "' is not there"));
  }
  return rows;
}

}  // namespace plimsoll::planner
