#include "services/cli/views/memory_view.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"
#include "services/cli/views/plan_view.h"

namespace plimsoll::cli {
namespace {

// Returns a table of the arenas of a model on several devices; empty if it is
// on one.
std::string PartsTable(const v1::GetMemoryResponse& response,
                       const Style& style) {
  if (response.parts().empty()) return "";
  Table table({{"device"},
               {"layers"},
               {"plan", Align::kRight},
               {"arena planned", Align::kRight},
               {"measured", Align::kRight}});
  const auto count = [](uint64_t bytes) {
    return FormatCount(static_cast<int64_t>(bytes));
  };
  for (const v1::ModelPart& part : response.parts()) {
    table.AddRow({Printable(part.device_id()),
                  absl::StrCat(part.first_layer(), "-",
                               part.first_layer() + part.n_layers() - 1),
                  count(part.total_bytes()),
                  count(part.measured().planned_bytes()),
                  count(part.measured().allocated_bytes())});
  }
  return absl::StrCat(table.Render(style), "\n");
}

std::string PlannedBesideMeasured(const v1::GetMemoryResponse& response,
                                  const Style& style) {
  const v1::MemoryReport& measured = response.measured();
  Table table({{""},
               {"planned", Align::kRight},
               {"measured", Align::kRight},
               {"planned - measured", Align::kRight}});
  const auto add = [&](const char* name, uint64_t planned, uint64_t got) {
    const auto plan = static_cast<int64_t>(planned);
    const auto is = static_cast<int64_t>(got);
    table.AddRow(
        {name, FormatCount(plan), FormatCount(is), FormatCount(plan - is)});
  };
  uint64_t vocab = 0;
  for (const v1::MemoryRegion& region : response.plan().regions()) {
    if (region.name() == "vocab") vocab = region.bytes();
  }
  add("arena", measured.planned_bytes(), measured.allocated_bytes());
  if (measured.host_planned_bytes() > 0) {
    add("experts on the host", measured.host_planned_bytes(),
        measured.host_allocated_bytes());
  }
  add("vocab", vocab, measured.vocab_bytes());
  // The reply does not say which of several devices is the host.
  if (response.parts().empty()) {
    add("peak resident", response.plan().total_bytes(),
        measured.peak_rss_bytes());
  }
  return absl::StrCat(
      table.Render(style), "\n  device allocations after load: ",
      measured.device_allocations_after_load(), "\n  resident now: ",
      FormatCount(static_cast<int64_t>(response.rss_bytes())), "\n");
}

}  // namespace

std::string RenderMemory(const v1::GetMemoryResponse& response,
                         const Style& style) {
  const std::string title =
      response.parts().empty()
          ? response.model()
          : absl::StrCat(response.model(), " on ",
                         response.parts(0).device_id(), ", its first device");
  return absl::StrCat(RenderPlan(response.plan(), title, style), "\n",
                      PartsTable(response, style),
                      PlannedBesideMeasured(response, style));
}

}  // namespace plimsoll::cli
