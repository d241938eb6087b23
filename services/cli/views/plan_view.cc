// Shows a memory plan.
#include "services/cli/views/plan_view.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

// Indices into SegmentsOf's list.
size_t KindOf(absl::string_view region) {
  if (absl::StartsWith(region, "weights") || region == "mtp") return 0;
  if (absl::StartsWith(region, "kv_") || region == "state") return 1;
  constexpr absl::string_view kOnHost[] = {"tables", "candidates", "vocab",
                                           "runtime", "messages"};
  if (absl::c_linear_search(kOnHost, region)) return 3;
  if (region == "margin" || region == "reserve") return 4;
  return 2;
}

std::string BasisTag(v1::Basis basis) {
  absl::string_view name = v1::Basis_Name(basis);
  absl::ConsumePrefix(&name, "BASIS_");
  return absl::AsciiStrToLower(name);
}

// Whether the region is part of total_bytes.
bool IsInTotal(const v1::MemoryRegion& region) {
  return !region.on_host() && !region.mapped();
}

int64_t RegionSum(const v1::MemoryPlan& plan) {
  int64_t sum = 0;
  for (const v1::MemoryRegion& region : plan.regions()) {
    if (IsInTotal(region)) sum += Signed(region.bytes());
  }
  return sum;
}

std::string RegionTable(const v1::MemoryPlan& plan, const Style& style) {
  Table table({{"region"},
               {"bytes", Align::kRight},
               {"size", Align::kRight},
               {"basis"},
               {"from"}});
  for (const v1::MemoryRegion& region : plan.regions()) {
    if (region.bytes() == 0) continue;
    table.AddRow({Printable(region.name()), FormatCount(Signed(region.bytes())),
                  FormatBytes(Signed(region.bytes())), BasisTag(region.basis()),
                  Printable(region.formula())});
  }
  const int64_t total = Signed(plan.total_bytes());
  if (const int64_t rest = total - RegionSum(plan); rest > 0) {
    table.AddRow({"rounding", FormatCount(rest), FormatBytes(rest), "derived",
                  "alignment of regions, and of the one allocation"});
  }
  table.AddRow({"total", FormatCount(total), FormatBytes(total)});
  return table.Render(style);
}

// What the pages of a mapped file mean for what stays free. They take nothing
// of a device with memory of its own.
std::string MappedNote(const v1::MemoryPlan& plan, int64_t free_bytes) {
  int64_t mapped = 0;
  for (const v1::MemoryRegion& region : plan.regions()) {
    if (region.mapped() && !region.on_host()) mapped += Signed(region.bytes());
  }
  if (mapped == 0) return "";
  return mapped <= free_bytes
             ? absl::StrCat(", ", FormatBytes(mapped),
                            " of it for pages of the file")
             : absl::StrCat(", less than the ", FormatBytes(mapped),
                            " of the file: steps will wait for the disk");
}

std::string Verdict(const v1::MemoryPlan& plan, const Style& style) {
  const int64_t total = Signed(plan.total_bytes());
  const int64_t budget = Signed(plan.budget_bytes());
  if (plan.fits()) {
    return absl::StrCat("  ", Paint(style, Color::kGreen, "FITS"), ": ",
                        FormatBytes(total), " of ", FormatBytes(budget), ", ",
                        FormatBytes(budget - total), " stay free",
                        MappedNote(plan, budget - total), "\n");
  }
  return absl::StrCat("  ", Paint(style, Color::kRed, "DOES NOT FIT"), ": ",
                      FormatBytes(total), " wanted, ", FormatBytes(budget),
                      " there, ", FormatBytes(Signed(plan.missing_bytes())),
                      " missing\n");
}

std::string Suggestions(const v1::MemoryPlan& plan) {
  std::string out;
  for (const v1::Suggestion& suggestion : plan.suggestions()) {
    absl::StrAppend(&out, "  try: ", Printable(suggestion.text()), "  (saves ",
                    FormatBytes(Signed(suggestion.saves_bytes())));
    if (suggestion.n_ctx() > plan.n_ctx() && plan.n_ctx() > 0) {
      absl::StrAppend(&out, ", gives ", FormatCount(suggestion.n_ctx()),
                      " tokens");
    }
    absl::StrAppend(&out, ")\n");
  }
  if (out.empty() && !plan.fits()) {
    out =
        "  try: a larger --device-memory, or a smaller model; no shorter "
        "context\n       or smaller step makes it fit\n";
  }
  return out;
}

}  // namespace

std::vector<Segment> SegmentsOf(const v1::MemoryPlan& plan) {
  std::vector<Segment> segments = {
      {"weights", 0}, {"kv", 0}, {"scratch", 0}, {"host", 0}, {"margin", 0}};
  for (const v1::MemoryRegion& region : plan.regions()) {
    if (!IsInTotal(region)) continue;
    segments[KindOf(region.name())].bytes += Signed(region.bytes());
  }
  const int64_t rest = Signed(plan.total_bytes()) - RegionSum(plan);
  if (rest > 0) segments[2].bytes += rest;
  return segments;
}

std::string RenderPlan(const v1::MemoryPlan& plan, absl::string_view title,
                       const Style& style) {
  std::string out = absl::StrCat(
      Paint(style, Color::kBold, Printable(title)), "\n\n",
      RenderBar(SegmentsOf(plan), Signed(plan.budget_bytes()), style), "\n",
      RegionTable(plan, style), "\n", Verdict(plan, style));
  const v1::LoadOptions& options = plan.options();
  std::string context = absl::StrCat(
      "context: ", FormatCount(plan.n_ctx()), " tokens a slot, ",
      options.n_slots(), options.n_slots() == 1 ? " slot" : " slots");
  for (const std::string& line : Wrap(context, style.width - 2)) {
    absl::StrAppend(&out, "  ", line, "\n");
  }
  for (const std::string& line :
       Wrap(absl::StrCat("why: ", Printable(plan.n_ctx_reason())),
            style.width - 2)) {
    absl::StrAppend(&out, "  ", line, "\n");
  }
  absl::StrAppend(
      &out, "  one more token of context costs ",
      FormatCount(Signed(plan.marginal_bytes_per_token())), " bytes",
      plan.page_tokens() > 1 ? absl::StrCat(" in pages of ", plan.page_tokens())
                             : "",
      "\n  one more slot costs ",
      FormatBytes(Signed(plan.marginal_bytes_per_slot())), "\n");
  if (plan.idle_session_bytes() > 0) {
    absl::StrAppend(&out, "  ",
                    FormatCounted(options.n_idle_sessions(), "idle session"),
                    options.n_idle_sessions() == 1 ? " takes " : " take ",
                    FormatBytes(Signed(plan.idle_session_bytes())), "\n");
  }
  const auto say = [&](absl::string_view what, absl::string_view text) {
    for (const std::string& line :
         Wrap(absl::StrCat(what, ": ", Printable(text)), style.width - 2)) {
      absl::StrAppend(&out, "  ", line, "\n");
    }
  };
  if (!plan.binding_term().empty()) say("binds", plan.binding_term());
  if (!plan.cpu_experts_reason().empty()) {
    say("experts", absl::StrCat(plan.cpu_experts_reason(), "; host memory: ",
                                FormatBytes(Signed(plan.host_bytes()))));
  }
  for (const std::string& reason : plan.not_runnable()) {
    say("note", absl::StrCat(reason, "; the bytes are right all the same"));
  }
  return absl::StrCat(out, Suggestions(plan));
}

}  // namespace plimsoll::cli
