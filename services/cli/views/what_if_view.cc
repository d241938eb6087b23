// Shows a grid of what-ifs, on a terminal and in spreadsheets.
#include "services/cli/views/what_if_view.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr std::array<absl::string_view, kNumGridAxes> kAxisNames = {
    "device", "weights", "kv-type", "n-ubatch", "slots", "n-ctx"};
// The terminal shows at most this much; -o csv has all.
constexpr size_t kMaxPanels = 24;
constexpr size_t kMaxBest = 10;

struct Shade {
  absl::string_view utf8;
  absl::string_view ascii;
  Color color;
  absl::string_view meaning;
};

// The shades are in the order of Heat. The glyph has all information; colour
// only repeats it.
constexpr std::array<Shade, kNumHeats> kShades = {
    {{"░", ".", Color::kGreen, "to 50%"},
     {"▒", "-", Color::kCyan, "to 75%"},
     {"▓", "+", Color::kYellow, "to 90%"},
     {"█", "#", Color::kMagenta, "to 100%"},
     {"!", "!", Color::kRed, "over the load line"},
     {"x", "x", Color::kDim, "cannot run"}}};

const Shade& ShadeOf(Heat heat) { return kShades[static_cast<size_t>(heat)]; }

absl::string_view GlyphOf(Heat heat, const Style& style) {
  return style.utf8 ? ShadeOf(heat).utf8 : ShadeOf(heat).ascii;
}

std::string PadLeft(absl::string_view text, int64_t width) {
  const int64_t n = std::max<int64_t>(width - Columns(text), 0);
  return absl::StrCat(std::string(static_cast<size_t>(n), ' '), text);
}

// Returns the position of point `index` on each axis.
std::array<size_t, kNumGridAxes> PlaceOf(const GridAnswer& answer,
                                         size_t index) {
  std::array<size_t, kNumGridAxes> place = {};
  for (size_t axis = kNumGridAxes; axis-- > 0;) {
    const size_t n = answer.labels[axis].size();
    place[axis] = index % n;
    index /= n;
  }
  return place;
}

std::string HeadingOf(const GridAnswer& answer, const MapAxes& axes,
                      const std::array<size_t, kNumGridAxes>& place) {
  std::vector<std::string> parts;
  for (size_t axis = 0; axis < kNumGridAxes; ++axis) {
    const auto here = static_cast<GridAxis>(axis);
    if (here == axes.rows || here == axes.columns) continue;
    // The title already shows axes that have one value for all panels.
    if (answer.labels[axis].size() < 2) continue;
    parts.push_back(
        absl::StrCat(kAxisNames[axis], " ", answer.labels[axis][place[axis]]));
  }
  return absl::StrJoin(parts, ", ");
}

std::string CellOf(const GridCell& cell, int64_t width, const Style& style) {
  const Heat heat = HeatOf(*cell.point);
  const std::string text = absl::StrCat(
      GlyphOf(heat, style), GlyphOf(heat, style), " ",
      PadLeft(CellText(*cell.point), width), cell.is_best ? "*" : " ");
  return Paint(style, ShadeOf(heat).color, text);
}

// A panel as it is written: its cells, and the widths of what is beside them.
struct PanelTable {
  const GridPanel& panel;
  const std::vector<std::string>& rows;
  const std::vector<std::string>& columns;
  std::string corner;
  int64_t row_width;   // width of the longest row's label
  int64_t text_width;  // width of the longest cell's text
};

PanelTable TableOf(const GridAnswer& answer, const MapAxes& axes,
                   const GridPanel& panel) {
  PanelTable table = {.panel = panel,
                      .rows = answer.Labels(axes.rows),
                      .columns = answer.Labels(axes.columns),
                      .corner = absl::StrCat(GridAxisName(axes.rows), " \\ ",
                                             GridAxisName(axes.columns)),
                      .row_width = 0,
                      .text_width = 4};
  table.row_width = Columns(table.corner);
  for (const std::string& row : table.rows) {
    table.row_width = std::max(table.row_width, Columns(row));
  }
  for (const std::string& column : table.columns) {
    table.text_width = std::max(table.text_width, Columns(column) - 3);
  }
  for (const auto& row : panel.rows) {
    for (const GridCell& cell : row) {
      table.text_width =
          std::max(table.text_width, Columns(CellText(*cell.point)));
    }
  }
  return table;
}

// Returns the lines of columns [begin, end) of a table.
std::string ColumnLines(const PanelTable& table, size_t begin, size_t end,
                        const Style& style) {
  std::string out;
  std::string line = PadLeft(table.corner, table.row_width + 2);
  for (size_t c = begin; c < end; ++c) {
    // Two glyphs and a blank come before the text, and a mark after it.
    absl::StrAppend(&line, "  ",
                    PadLeft(table.columns[c], table.text_width + 3), " ");
  }
  absl::StrAppend(&out, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  for (size_t r = 0; r < table.panel.rows.size(); ++r) {
    line = PadLeft(table.rows[r], table.row_width + 2);
    for (size_t c = begin; c < end; ++c) {
      absl::StrAppend(&line, "  ",
                      CellOf(table.panel.rows[r][c], table.text_width, style));
    }
    absl::StrAppend(&out, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return out;
}

std::string PanelLines(const GridAnswer& answer, const MapAxes& axes,
                       const GridPanel& panel, const Style& style) {
  std::string out;
  if (!panel.heading.empty()) {
    for (const std::string& line :
         Wrap(Printable(panel.heading), style.width - 2)) {
      absl::StrAppend(&out, "  ", Paint(style, Color::kBold, line), "\n");
    }
  }
  const PanelTable table = TableOf(answer, axes, panel);
  const int64_t room = style.width - table.row_width - 2;
  const auto at_once =
      static_cast<size_t>(std::max<int64_t>(1, room / (table.text_width + 6)));
  for (size_t begin = 0; begin < table.columns.size(); begin += at_once) {
    absl::StrAppend(
        &out,
        ColumnLines(table, begin,
                    std::min(begin + at_once, table.columns.size()), style),
        "\n");
  }
  return out;
}

std::string Legend(const Style& style) {
  std::string out = " ";
  int64_t column = 1;
  for (size_t i = 0; i < kNumHeats; ++i) {
    const auto heat = static_cast<Heat>(i);
    const std::string part =
        absl::StrCat(GlyphOf(heat, style), " ", ShadeOf(heat).meaning);
    if (column + 1 + Columns(part) > style.width) {
      absl::StrAppend(&out, "\n ");
      column = 1;
    }
    absl::StrAppend(&out, " ", Paint(style, ShadeOf(heat).color, part), " ");
    column += 2 + Columns(part);
  }
  return absl::StrCat(out.substr(0, out.find_last_not_of(' ') + 1),
                      "\n  * nothing in the grid beats it\n");
}

std::string ElementTypeName(v1::ElementType type) {
  const DTypeInfo* info = FindDType(static_cast<uint32_t>(type) - 1);
  return info == nullptr ? "file" : std::string(info->name);
}

// Returns the points of the frontier, ordered by the tokens of context in all
// slots, most first. Points with equal loads (a context that was both requested
// and solved) are shown once.
std::vector<size_t> BestFirst(const GridAnswer& answer) {
  const v1::WhatIfResponse& all = answer.all;
  const auto key = [&all](size_t index) {
    const v1::WhatIfPoint& p = all.points(static_cast<int>(index));
    return std::tuple(-uint64_t{p.n_ctx()} * p.n_slots(), p.total_bytes(),
                      p.n_ctx(), p.device(), p.weight_type(), p.k_type(),
                      p.v_type(), p.n_ubatch());
  };
  std::vector<size_t> order(all.frontier().begin(), all.frontier().end());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(a) < key(b); });
  order.erase(std::unique(order.begin(), order.end(),
                          [&](size_t a, size_t b) { return key(a) == key(b); }),
              order.end());
  return order;
}

std::string BestTable(const GridAnswer& answer, const Style& style) {
  const std::vector<size_t> best = BestFirst(answer);
  if (best.empty()) {
    return "  Nothing fits. Try fewer slots, a smaller --kv-type or --weights, "
           "or a\n  larger --device-memory.\n";
  }
  // The title already shows axes that have one value.
  std::vector<GridAxis> axes;
  std::vector<Column> columns = {{"n-ctx", Align::kRight},
                                 {"slots", Align::kRight}};
  for (GridAxis axis : {GridAxis::kKvType, GridAxis::kWeights,
                        GridAxis::kUbatch, GridAxis::kDevice}) {
    if (answer.Labels(axis).size() < 2) continue;
    axes.push_back(axis);
    columns.push_back({std::string(GridAxisName(axis))});
  }
  columns.push_back({"total", Align::kRight});
  columns.push_back({"free", Align::kRight});
  Table table(columns);
  for (size_t i = 0; i < std::min(best.size(), kMaxBest); ++i) {
    const v1::WhatIfPoint& point = answer.all.points(static_cast<int>(best[i]));
    const auto place = PlaceOf(answer, best[i]);
    std::vector<std::string> cells = {FormatCount(point.n_ctx()),
                                      FormatCount(point.n_slots())};
    for (GridAxis axis : axes) {
      cells.push_back(
          Printable(answer.Labels(axis)[place[static_cast<size_t>(axis)]]));
    }
    const int64_t total = Signed(point.total_bytes());
    cells.push_back(FormatBytes(total));
    cells.push_back(FormatBytes(Signed(point.budget_bytes()) - total));
    table.AddRow(std::move(cells));
  }
  return absl::StrCat(
      "  Nothing in the grid beats these in context, slots, precision and "
      "bytes:\n",
      table.Render(style),
      best.size() > kMaxBest ? absl::StrCat("  and ", best.size() - kMaxBest,
                                            " more; -o csv has all\n")
                             : "");
}

// A server's answer is trusted no more than a file.
absl::Status CheckWhole(const GridAnswer& answer) {
  size_t n_points = 1;
  for (const auto& labels : answer.labels) n_points *= labels.size();
  if (static_cast<size_t>(answer.all.points_size()) != n_points) {
    return absl::InternalError(absl::StrCat("the grid has ", n_points,
                                            " points, but ",
                                            answer.all.points_size(), " came"));
  }
  for (uint32_t index : answer.all.frontier()) {
    if (index >= n_points) {
      return absl::InternalError(
          absl::StrCat("the frontier names point ", index, " of ", n_points));
    }
  }
  return absl::OkStatus();
}

std::string CsvField(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) {
    return std::string(text);
  }
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

absl::string_view GridAxisName(GridAxis axis) {
  return kAxisNames[static_cast<size_t>(axis)];
}

absl::StatusOr<GridAxis> ParseGridAxis(absl::string_view name) {
  for (size_t axis = 0; axis < kNumGridAxes; ++axis) {
    if (kAxisNames[axis] == name) return static_cast<GridAxis>(axis);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name.substr(0, 40), "' is no axis; there are ",
                   absl::StrJoin(kAxisNames, ", ")));
}

Heat HeatOf(const v1::WhatIfPoint& point) {
  if (!point.can_run()) return Heat::kCannot;
  if (!point.fits()) return Heat::kOver;
  const auto share = static_cast<double>(point.total_bytes()) /
                     static_cast<double>(point.budget_bytes());
  if (share <= 0.5) return Heat::kLow;
  if (share <= 0.75) return Heat::kMiddle;
  return share <= 0.9 ? Heat::kHigh : Heat::kFull;
}

std::string CellText(const v1::WhatIfPoint& point) {
  if (point.fits() && point.wanted_ctx() == 0) {
    return FormatCount(point.n_ctx());
  }
  const double percent = 100.0 * static_cast<double>(point.total_bytes()) /
                         static_cast<double>(point.budget_bytes());
  // A plan that does not fit never shows 100%, and one that fits never more.
  if (!(percent < 999)) return ">999%";
  const auto rounded = static_cast<int>(point.fits() ? percent : percent + 1);
  return absl::StrCat(rounded, "%");
}

absl::StatusOr<std::vector<GridPanel>> PanelsOf(const GridAnswer& answer,
                                                const MapAxes& axes) {
  RETURN_IF_ERROR(CheckWhole(answer));
  const auto n_points = static_cast<size_t>(answer.all.points_size());
  // If all that fits were marked, the mark would say nothing.
  std::vector<bool> is_best(n_points);
  int n_fitting = 0;
  for (const v1::WhatIfPoint& point : answer.all.points()) {
    n_fitting += point.fits() && point.can_run() ? 1 : 0;
  }
  if (answer.all.frontier_size() < n_fitting) {
    for (uint32_t index : answer.all.frontier()) is_best[index] = true;
  }
  const size_t n_rows = answer.Labels(axes.rows).size();
  const size_t n_columns = answer.Labels(axes.columns).size();
  std::vector<GridPanel> panels(n_points / n_rows / n_columns);
  for (size_t index = 0; index < n_points; ++index) {
    const auto place = PlaceOf(answer, index);
    size_t panel = 0;
    for (size_t axis = 0; axis < kNumGridAxes; ++axis) {
      const auto here = static_cast<GridAxis>(axis);
      if (here == axes.rows || here == axes.columns) continue;
      panel = panel * answer.labels[axis].size() + place[axis];
    }
    GridPanel& at = panels[panel];
    if (at.rows.empty()) {
      at.heading = HeadingOf(answer, axes, place);
      at.rows.assign(n_rows, std::vector<GridCell>(n_columns));
    }
    at.rows[place[static_cast<size_t>(axes.rows)]]
           [place[static_cast<size_t>(axes.columns)]] = {
        &answer.all.points(static_cast<int>(index)), is_best[index]};
  }
  return panels;
}

std::string FixedSettings(const GridAnswer& answer) {
  std::vector<std::string> parts;
  for (size_t axis = 0; axis < kNumGridAxes; ++axis) {
    if (answer.labels[axis].size() != 1) continue;
    parts.push_back(
        absl::StrCat(kAxisNames[axis], " ", answer.labels[axis][0]));
  }
  return absl::StrJoin(parts, ", ");
}

std::string RenderGrid(const GridAnswer& answer, const MapAxes& axes,
                       const std::vector<GridPanel>& panels,
                       const Style& style) {
  std::string out =
      absl::StrCat(Paint(style, Color::kBold, Printable(answer.title)), "\n");
  for (const std::string& line :
       Wrap(Printable(FixedSettings(answer)), style.width - 2)) {
    if (!line.empty()) absl::StrAppend(&out, "  ", line, "\n");
  }
  absl::StrAppend(&out, "\n");
  for (size_t i = 0; i < std::min(panels.size(), kMaxPanels); ++i) {
    absl::StrAppend(&out, PanelLines(answer, axes, panels[i], style));
  }
  if (panels.size() > kMaxPanels) {
    absl::StrAppend(&out, "  and ", panels.size() - kMaxPanels,
                    " more maps; -o csv has all\n\n");
  }
  return absl::StrCat(out, Legend(style), "\n", BestTable(answer, style));
}

std::string RenderCsv(const GridAnswer& answer) {
  const v1::WhatIfResponse& all = answer.all;
  std::vector<bool> is_best(static_cast<size_t>(all.points_size()));
  for (uint32_t index : all.frontier()) is_best[index] = true;
  std::string out =
      "device,budget_bytes,weights,k_type,v_type,n_ubatch,n_slots,wanted_ctx,"
      "n_ctx,fits,can_run,total_bytes,arena_bytes,kv_bytes,missing_bytes,"
      "kv_bytes_per_token,frontier\n";
  for (size_t i = 0; i < is_best.size(); ++i) {
    const v1::WhatIfPoint& p = all.points(static_cast<int>(i));
    absl::StrAppend(
        &out, CsvField(answer.Labels(GridAxis::kDevice)[PlaceOf(answer, i)[0]]),
        ",", p.budget_bytes(), ",", ElementTypeName(p.weight_type()), ",",
        ElementTypeName(p.k_type()), ",", ElementTypeName(p.v_type()), ",",
        p.n_ubatch());
    absl::StrAppend(&out, ",", p.n_slots(), ",",
                    p.wanted_ctx() == 0 ? "auto" : absl::StrCat(p.wanted_ctx()),
                    ",", p.n_ctx(), ",", p.fits() ? "true" : "false", ",",
                    p.can_run() ? "true" : "false", ",", p.total_bytes());
    absl::StrAppend(&out, ",", p.arena_bytes(), ",", p.kv_bytes(), ",",
                    p.missing_bytes(), ",", p.kv_bytes_per_token(), ",",
                    is_best[i] ? "true" : "false", "\n");
  }
  return out;
}

}  // namespace plimsoll::cli
