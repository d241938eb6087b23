// Plain text tables.
#include "services/cli/terminal/table.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kIndent = 2;
constexpr int64_t kGap = 2;

std::string Blanks(int64_t n) {
  return std::string(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
}

std::string Pad(absl::string_view cell, int64_t width, Align align) {
  const std::string blanks = Blanks(width - Columns(cell));
  return align == Align::kLeft ? absl::StrCat(cell, blanks)
                               : absl::StrCat(blanks, cell);
}

}  // namespace

std::vector<std::string> Wrap(absl::string_view text, int64_t width) {
  std::vector<std::string> lines(1);
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = std::string(word);
    } else if (Columns(line) + 1 + Columns(word) <= width) {
      absl::StrAppend(&line, " ", word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

std::string Table::Render(const Style& style) const {
  std::vector<int64_t> widths(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths[c] = Columns(columns_[c].title);
    for (const auto& row : rows_) {
      if (c < row.size()) widths[c] = std::max(widths[c], Columns(row[c]));
    }
  }
  int64_t before_last = kIndent;
  for (size_t c = 0; c + 1 < columns_.size(); ++c) {
    before_last += widths[c] + kGap;
  }
  const int64_t last = std::max(kMinLastColumn, style.width - before_last);

  std::string out;
  const auto append = [&](const std::vector<std::string>& cells) {
    std::string line = Blanks(kIndent);
    for (size_t c = 0; c < cells.size(); ++c) {
      if (c + 1 < columns_.size()) {
        absl::StrAppend(&line, Pad(cells[c], widths[c], columns_[c].align),
                        Blanks(kGap));
        continue;
      }
      const std::vector<std::string> parts = Wrap(cells[c], last);
      for (size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) line = Blanks(before_last);
        const std::string part =
            columns_[c].align == Align::kRight
                ? Pad(parts[i], std::min(widths[c], last), Align::kRight)
                : parts[i];
        absl::StrAppend(&line, part);
        if (i + 1 < parts.size()) {
          absl::StrAppend(&out, absl::StripTrailingAsciiWhitespace(line), "\n");
        }
      }
    }
    absl::StrAppend(&out, absl::StripTrailingAsciiWhitespace(line), "\n");
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  append(titles);
  for (const auto& row : rows_) append(row);
  return out;
}

}  // namespace plimsoll::cli
