// Shows a placement.
#include "services/cli/views/place_view.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal/bar.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kLoadBarCells = 10;

// Shows how full a device is: "[####......]".
std::string LoadBar(const v1::FilledDevice& device, const Style& style) {
  const int64_t used =
      SegmentCells({{"used", Signed(device.used_bytes())}},
                   Signed(device.available_bytes()), kLoadBarCells)[0];
  std::string bar = "[";
  for (int64_t cell = 0; cell < kLoadBarCells; ++cell) {
    if (cell < used) {
      absl::StrAppend(&bar, style.utf8 ? "█" : "#");
    } else {
      absl::StrAppend(&bar, style.utf8 ? "·" : ".");
    }
  }
  return bar + "]";
}

std::string DeviceTable(const v1::PlaceModelsResponse& placement,
                        const Style& style) {
  Table table({{"device"},
               {"used", Align::kRight},
               {"free", Align::kRight},
               {"load"},
               {"n", Align::kRight},
               {"model"}});
  for (const v1::FilledDevice& device : placement.devices()) {
    const int64_t used = Signed(device.used_bytes());
    const int64_t free = Signed(device.available_bytes()) - used;
    std::vector<std::string> cells = {Printable(device.id()), FormatBytes(used),
                                      FormatBytes(free),
                                      LoadBar(device, style)};
    for (const v1::PlacedModel& model : device.models()) {
      cells.push_back(FormatCount(model.n_replicas()));
      cells.push_back(Printable(model.name()));
      table.AddRow(std::move(cells));
      // Further lines of a device do not repeat the cells of its first line.
      cells = {"", "", "", ""};
    }
  }
  return table.Render(style);
}

// Says in a few words what is proven about the placement.
std::string Proof(const v1::PlaceModelsResponse& placement) {
  const bool all = placement.n_placed() == placement.n_wanted();
  if (placement.is_optimal()) {
    return all ? "proven: no fewer will do"
               : "proven: no more find a place by priority";
  }
  if (all) {
    return absl::StrCat("at least ", FormatCount(placement.min_devices_bound()),
                        " are needed");
  }
  return absl::StrCat("at most ", FormatCount(placement.max_placed_bound()),
                      " could find a place");
}

}  // namespace

std::string Certificates(const v1::PlaceModelsResponse& placement) {
  std::string out;
  for (const v1::UnplacedModel& model : placement.unplaced()) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", Printable(model.name()),
                    ", ", FormatCounted(model.n_replicas(), "replica"), ": ",
                    Printable(model.reason()));
  }
  return out;
}

std::string RenderPlacement(const v1::PlaceModelsResponse& placement,
                            const Style& style) {
  const int64_t n_devices = placement.devices_size();
  const int64_t n_unused = n_devices - placement.n_devices_used();
  const bool all = placement.n_placed() == placement.n_wanted();
  std::string out;
  if (placement.n_devices_used() > 0) {
    absl::StrAppend(&out, DeviceTable(placement, style), "\n");
  }
  absl::StrAppend(&out, "  ",
                  Paint(style, all ? Color::kGreen : Color::kRed,
                        all ? "PLACED" : "NOT ALL PLACED"),
                  ": ", FormatCount(placement.n_placed()), " of ",
                  FormatCounted(placement.n_wanted(), "replica"), " on ",
                  FormatCount(placement.n_devices_used()), " of ",
                  FormatCounted(n_devices, "device"), "\n");
  std::vector<std::string> lines = {absl::StrCat("bound: ", Proof(placement))};
  if (n_unused > 0) {
    lines.push_back(
        absl::StrCat("unused: ", FormatCounted(n_unused, "device")));
  }
  for (const v1::UnplacedModel& model : placement.unplaced()) {
    lines.push_back(absl::StrCat("no place: ", Printable(model.name()), ", ",
                                 FormatCounted(model.n_replicas(), "replica"),
                                 ": ", Printable(model.reason())));
  }
  if (placement.wanted_bytes() > placement.available_bytes()) {
    lines.push_back(absl::StrCat(
        "all replicas want ", FormatBytes(Signed(placement.wanted_bytes())),
        ", all devices have ",
        FormatBytes(Signed(placement.available_bytes()))));
  }
  for (const std::string& line : lines) {
    std::string indent = "  ";
    for (const std::string& part : Wrap(line, style.width - 4)) {
      absl::StrAppend(&out, indent, part, "\n");
      indent = "    ";
    }
  }
  return out;
}

}  // namespace plimsoll::cli
