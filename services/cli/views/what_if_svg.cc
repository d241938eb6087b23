// Draws a grid of what-ifs.
#include "services/cli/views/what_if_svg.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/cli/terminal/bytes.h"
#include "worker/text/utf8.h"

namespace plimsoll::cli {
namespace {

// These sizes are in pixels.
constexpr int64_t kCellWidth = 76;
constexpr int64_t kCellHeight = 26;
constexpr int64_t kCharWidth = 7;  // at most, in a label
constexpr int64_t kMargin = 16;
constexpr int64_t kPictureWidth = 960;  // panels go on below
constexpr int64_t kHeaderHeight = 62;
constexpr int64_t kPanelHeader = 58;  // heading, axis name, column labels

constexpr char kStyle[] =
    "<style>text{font:12px system-ui,sans-serif;fill:#1b1f24}"
    ".t{font-size:16px;font-weight:600}.h{font-weight:600}"
    ".m{text-anchor:middle}.e{text-anchor:end}.g{fill:#fff}"
    ".a{fill:#eaf3fb}.b{fill:#c9e0f3}.c{fill:#97c5e8}.d{fill:#5fa6da}"
    ".o{fill:#f8d3bd}.x{fill:#e2e2e2}.l{stroke:#c62828;stroke-width:3}"
    "@media(prefers-color-scheme:dark){text{fill:#e8eaed}.g{fill:#15181c}"
    ".a{fill:#1c2833}.b{fill:#203d56}.c{fill:#24557d}.d{fill:#2a6fa8}"
    ".o{fill:#6b3a22}.x{fill:#3a3d41}.l{stroke:#ff7b6b}}</style>\n";

constexpr std::array<absl::string_view, kNumHeats> kClasses = {"a", "b", "c",
                                                               "d", "o", "x"};
constexpr std::array<absl::string_view, kNumHeats> kMeanings = {
    "to 50%", "to 75%", "to 90%", "to 100%", "does not fit", "cannot run"};

// Writes `text` as XML: short, valid UTF-8, without control characters and
// markup.
std::string Xml(absl::string_view text) {
  std::string clean = Printable(text.substr(0, kMaxSvgTextBytes));
  const bool is_utf8 = worker::IsValidUtf8(clean);
  for (char& c : clean) {
    if (c == '\n' || (!is_utf8 && (static_cast<unsigned char>(c) & 0x80))) {
      c = '?';
    }
  }
  return absl::StrReplaceAll(clean, {{"&", "&amp;"},
                                     {"<", "&lt;"},
                                     {">", "&gt;"},
                                     {"\"", "&quot;"},
                                     {"'", "&apos;"}});
}

std::string Text(int64_t x, int64_t y, absl::string_view style_class,
                 absl::string_view text) {
  return absl::StrCat("<text x=\"", x, "\" y=\"", y, "\"",
                      style_class.empty() ? "" : " class=\"", style_class,
                      style_class.empty() ? "" : "\"", ">", Xml(text),
                      "</text>\n");
}

std::string Line(int64_t x1, int64_t y1, int64_t x2, int64_t y2) {
  return absl::StrCat("<path class=\"l\" d=\"M", x1, " ", y1, "L", x2, " ", y2,
                      "\"/>\n");
}

std::string Cell(const GridCell& cell, int64_t x, int64_t y) {
  const v1::WhatIfPoint& point = *cell.point;
  const auto heat = static_cast<size_t>(HeatOf(point));
  return absl::StrCat(
      "<rect class=\"", kClasses[heat], "\" x=\"", x, "\" y=\"", y,
      "\" width=\"", kCellWidth, "\" height=\"", kCellHeight, "\"><title>",
      FormatBytes(static_cast<int64_t>(point.total_bytes())), " of ",
      FormatBytes(static_cast<int64_t>(point.budget_bytes())), ", ",
      FormatCount(point.n_ctx()), " x ", point.n_slots(), "</title></rect>",
      Text(x + kCellWidth / 2, y + 17, "m",
           absl::StrCat(CellText(point), cell.is_best ? "*" : "")));
}

// Draws the edges between cells that fit and cells that do not.
std::string LoadLine(const GridPanel& panel, int64_t left, int64_t top) {
  std::string out;
  const auto fits = [&](size_t r, size_t c) {
    return panel.rows[r][c].point->fits();
  };
  for (size_t r = 0; r < panel.rows.size(); ++r) {
    for (size_t c = 0; c < panel.rows[r].size(); ++c) {
      const int64_t x = left + static_cast<int64_t>(c) * kCellWidth;
      const int64_t y = top + static_cast<int64_t>(r) * kCellHeight;
      if (c > 0 && fits(r, c) != fits(r, c - 1)) {
        absl::StrAppend(&out, Line(x, y, x, y + kCellHeight));
      }
      if (r > 0 && fits(r, c) != fits(r - 1, c)) {
        absl::StrAppend(&out, Line(x, y, x + kCellWidth, y));
      }
    }
  }
  return out;
}

// This is the size in pixels of a panel and of its row labels.
struct PanelSize {
  int64_t label_width;
  int64_t width;
  int64_t height;
};

PanelSize SizeOf(const GridAnswer& answer, const MapAxes& axes) {
  const std::vector<std::string>& rows = answer.Labels(axes.rows);
  auto label = static_cast<int64_t>(GridAxisName(axes.rows).size());
  for (const std::string& row : rows) label = std::max(label, Columns(row));
  PanelSize size = {};
  size.label_width = label * kCharWidth + 8;
  size.width =
      size.label_width +
      static_cast<int64_t>(answer.Labels(axes.columns).size()) * kCellWidth;
  size.height = kPanelHeader + static_cast<int64_t>(rows.size()) * kCellHeight;
  return size;
}

// A place in the picture, in pixels.
struct Point {
  int64_t x;
  int64_t y;
};

// The upper left corner of a panel says where it is.
struct PanelPlace {
  PanelSize size;
  Point corner;
};

std::string Panel(const GridAnswer& answer, const MapAxes& axes,
                  const GridPanel& panel, const PanelPlace& place) {
  const PanelSize& size = place.size;
  const auto [x, y] = place.corner;
  const std::vector<std::string>& rows = answer.Labels(axes.rows);
  const std::vector<std::string>& columns = answer.Labels(axes.columns);
  const int64_t left = x + size.label_width;
  const int64_t top = y + kPanelHeader;
  std::string out = Text(x, y + 12, "h", panel.heading);
  absl::StrAppend(&out,
                  Text(left + (size.width - size.label_width) / 2, y + 32, "m",
                       GridAxisName(axes.columns)),
                  Text(left - 8, top - 6, "e", GridAxisName(axes.rows)));
  for (size_t c = 0; c < columns.size(); ++c) {
    const int64_t at = left + static_cast<int64_t>(c) * kCellWidth;
    absl::StrAppend(&out, Text(at + kCellWidth / 2, top - 6, "m", columns[c]));
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const int64_t at = top + static_cast<int64_t>(r) * kCellHeight;
    absl::StrAppend(&out, Text(left - 8, at + 17, "e", rows[r]));
    for (size_t c = 0; c < columns.size(); ++c) {
      absl::StrAppend(&out,
                      Cell(panel.rows[r][c],
                           left + static_cast<int64_t>(c) * kCellWidth, at));
    }
  }
  return absl::StrCat(out, LoadLine(panel, left, top));
}

std::string Legend(int64_t y) {
  std::string out;
  int64_t x = kMargin;
  for (size_t heat = 0; heat < kNumHeats; ++heat) {
    absl::StrAppend(&out, "<rect class=\"", kClasses[heat], "\" x=\"", x,
                    "\" y=\"", y, "\" width=\"16\" height=\"16\"/>",
                    Text(x + 22, y + 13, "", kMeanings[heat]));
    x += 104;
  }
  return absl::StrCat(
      out, Line(kMargin, y + 34, kMargin + 16, y + 34),
      Text(kMargin + 22, y + 38, "", "the load line: where the device is full"),
      Text(kMargin + 300, y + 38, "", "* nothing in the grid beats it"));
}

}  // namespace

absl::StatusOr<std::string> RenderSvg(const GridAnswer& answer,
                                      const MapAxes& axes,
                                      const std::vector<GridPanel>& panels) {
  if (static_cast<size_t>(answer.all.points_size()) > kMaxSvgCells) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the picture would have ", answer.all.points_size(), " cells, at most ",
        kMaxSvgCells, "; give the axes fewer values"));
  }
  const PanelSize size = SizeOf(answer, axes);
  const int64_t pitch = size.width + 2 * kMargin;
  const int64_t across = std::clamp<int64_t>(
      kPictureWidth / pitch, 1, static_cast<int64_t>(panels.size()));
  const auto n_panels = static_cast<int64_t>(panels.size());
  const int64_t down = (n_panels + across - 1) / across;
  const int64_t width =
      std::max<int64_t>(across * pitch, 2 * kMargin + int64_t{6} * 104);
  const int64_t legend = kHeaderHeight + down * (size.height + kMargin);
  const int64_t height = legend + 60;
  std::string out = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width,
      "\" height=\"", height, "\" viewBox=\"0 0 ", width, " ", height,
      "\" role=\"img\">\n<title>", Xml(answer.title), "</title>\n", kStyle,
      "<rect class=\"g\" width=\"", width, "\" height=\"", height, "\"/>\n",
      Text(kMargin, 28, "t", answer.title),
      Text(kMargin, 48, "",
           absl::StrCat("How full the device is; for a solved context, its "
                        "tokens. ",
                        FixedSettings(answer))));
  for (int64_t i = 0; i < n_panels; ++i) {
    absl::StrAppend(
        &out, Panel(answer, axes, panels[static_cast<size_t>(i)],
                    {.size = size,
                     .corner = {.x = kMargin + i % across * pitch,
                                .y = kHeaderHeight +
                                     i / across * (size.height + kMargin)}}));
  }
  absl::StrAppend(&out, Legend(legend), "</svg>\n");
  if (out.size() > kMaxSvgBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the picture would have ", out.size(), " bytes, at most ",
                     kMaxSvgBytes, "; give the axes fewer values"));
  }
  return out;
}

}  // namespace plimsoll::cli
