// Tables of the catalogue's devices.
#include "services/cli/views/catalogue_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/cli/terminal/bytes.h"
#include "services/cli/terminal/table.h"

namespace plimsoll::cli {
namespace {

// Bandwidths are given in powers of 1000, as they are sold.
std::string Bandwidth(uint64_t bytes_per_s) {
  const double giga = static_cast<double>(bytes_per_s) / 1e9;
  return absl::StrFormat("%.*f GB/s", giga < 100 ? 1 : 0, giga);
}

std::string Rate(double per_s) {
  return absl::StrFormat("%.*f", per_s < 100 ? 1 : 0, per_s);
}

}  // namespace

std::string RenderCatalogue(const v1::ListCatalogueResponse& catalogue,
                            const Style& style) {
  Table table({{"device"},
               {"memory", Align::kRight},
               {"bandwidth", Align::kRight},
               {"name"}});
  for (const v1::CatalogueDevice& device : catalogue.devices()) {
    const bool is_nominal = device.memory_basis() == v1::MEMORY_BASIS_NOMINAL;
    table.AddRow({Printable(device.name()),
                  absl::StrCat(is_nominal ? "~" : "",
                               FormatBytes(Signed(device.memory_bytes()))),
                  Bandwidth(device.bandwidth_bytes_per_s()),
                  Printable(device.title())});
  }
  return absl::StrCat(table.Render(style),
                      "\n  ~ as it is sold; what is usable is less\n");
}

std::string RenderFitting(const v1::FindDevicesResponse& fitting,
                          const Style& style) {
  Table table({{"device"},
               {"memory", Align::kRight},
               {"plan", Align::kRight},
               {"context", Align::kRight},
               {"sessions", Align::kRight},
               {"tokens/s", Align::kRight}});
  for (const v1::FittingDevice& device : fitting.devices()) {
    const v1::DeviceBounds& bounds = device.bounds();
    table.AddRow({Printable(device.device().name()),
                  FormatBytes(Signed(device.device().memory_bytes())),
                  FormatBytes(Signed(bounds.total_bytes())),
                  FormatCount(bounds.n_ctx()),
                  FormatCount(bounds.max_sessions()),
                  Rate(bounds.decode().tokens_per_s())});
  }
  const v1::FittingDevice& smallest = fitting.devices(0);
  const v1::DeviceBounds& bounds = smallest.bounds();
  const std::string per_gib =
      bounds.has_tokens_per_gib()
          ? absl::StrCat(FormatCount(Signed(bounds.tokens_per_gib())),
                         " tokens of context")
          : "no longer context: it costs nothing more";
  return absl::StrCat(
      table.Render(style),
      "\n  smallest: ", Printable(smallest.device().title()),
      "\n  a GiB more holds ", per_gib,
      "\n  sessions: slots of that context that fit"
      "\n  tokens/s: ESTIMATED, what the memory's bandwidth allows at most "
      "with a full\n    context in every slot\n");
}

}  // namespace plimsoll::cli
