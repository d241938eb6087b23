// The stacked bar of a memory plan, with the load line at the budget.
#include "services/cli/terminal/bar.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal/bytes.h"

namespace plimsoll::cli {
namespace {

struct Glyph {
  absl::string_view utf8;
  absl::string_view ascii;
  Color color;
};

// The glyph of each segment, by its index; further segments share the last.
constexpr std::array<Glyph, 5> kGlyphs = {{{"█", "#", Color::kBlue},
                                           {"▓", "=", Color::kCyan},
                                           {"▒", "+", Color::kMagenta},
                                           {"░", "-", Color::kYellow},
                                           {"▚", "%", Color::kDim}}};
constexpr Glyph kFree = {"·", ".", Color::kDim};
constexpr Glyph kOver = {"!", "!", Color::kRed};

const Glyph& GlyphOf(size_t segment) {
  return kGlyphs[std::min(segment, kGlyphs.size() - 1)];
}

std::string Repeat(const Glyph& glyph, int64_t n, const Style& style) {
  std::string run;
  for (int64_t i = 0; i < n; ++i) {
    absl::StrAppend(&run, style.utf8 ? glyph.utf8 : glyph.ascii);
  }
  return n > 0 ? Paint(style, glyph.color, run) : run;
}

int64_t Sum(const std::vector<Segment>& segments) {
  int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.bytes;
  return sum;
}

// Writes the legend's entries, as many to a line as fit.
std::string Legend(const std::vector<Segment>& segments, int64_t free_bytes,
                   const Style& style) {
  std::string out = "  ";
  int64_t column = 2;
  const auto add = [&](const Glyph& glyph, absl::string_view name,
                       int64_t bytes) {
    const std::string text = absl::StrCat(" ", name, " ", FormatBytes(bytes));
    if (column > 2 && column + 3 + Columns(text) > style.width) {
      absl::StrAppend(&out, "\n  ");
      column = 2;
    }
    if (column > 2) {
      absl::StrAppend(&out, "  ");
      column += 2;
    }
    absl::StrAppend(&out, Repeat(glyph, 1, style), text);
    column += 1 + Columns(text);
  };
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].bytes > 0) {
      add(GlyphOf(i), segments[i].name, segments[i].bytes);
    }
  }
  if (free_bytes >= 0) {
    add(kFree, "free", free_bytes);
  } else {
    add(kOver, "over the line", -free_bytes);
  }
  return absl::StrCat(out, "\n");
}

}  // namespace

std::vector<int64_t> SegmentCells(const std::vector<Segment>& segments,
                                  int64_t scale_bytes, int64_t cells) {
  std::vector<int64_t> out;
  int64_t used = 0;
  for (const Segment& segment : segments) {
    const double share = scale_bytes > 0 ? static_cast<double>(segment.bytes) /
                                               static_cast<double>(scale_bytes)
                                         : 0.0;
    const int64_t n =
        std::max<int64_t>(std::llround(share * static_cast<double>(cells)),
                          segment.bytes > 0 ? 1 : 0);
    out.push_back(n);
    used += n;
  }
  // Small segments were rounded up; the largest one gives up those cells.
  for (; used > cells; --used) {
    auto largest = std::max_element(out.begin(), out.end());
    if (largest == out.end() || *largest == 0) break;
    --*largest;
  }
  return out;
}

std::string RenderBar(const std::vector<Segment>& segments,
                      int64_t budget_bytes, const Style& style) {
  const int64_t total = Sum(segments);
  const int64_t scale = std::max(total, budget_bytes);
  const int64_t cells = style.width - 4;  // two blanks and two brackets
  const std::vector<int64_t> widths = SegmentCells(segments, scale, cells);
  std::string bar;
  int64_t used = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    absl::StrAppend(&bar, Repeat(GlyphOf(i), widths[i], style));
    used += widths[i];
  }
  absl::StrAppend(&bar, Repeat(kFree, cells - used, style));

  // The line stands under the last cell that the budget still covers.
  const double share =
      scale > 0 ? static_cast<double>(budget_bytes) / static_cast<double>(scale)
                : 1.0;
  const int64_t line_at = std::clamp<int64_t>(
      static_cast<int64_t>(share * static_cast<double>(cells)) - 1, 0,
      cells - 1);
  const std::string label =
      absl::StrCat("load line ", FormatBytes(budget_bytes));
  const absl::string_view mark = style.utf8 ? "▲" : "^";
  const int64_t mark_column = 3 + line_at;
  std::string line;
  if (mark_column >= Columns(label) + 3) {
    line = absl::StrCat(
        std::string(static_cast<size_t>(mark_column - Columns(label) - 1), ' '),
        label, " ", mark);
  } else {
    line = absl::StrCat(std::string(static_cast<size_t>(mark_column), ' '),
                        mark, " ", label);
  }
  return absl::StrCat("  [", bar, "]\n", line, "\n",
                      Legend(segments, budget_bytes - total, style));
}

}  // namespace plimsoll::cli
