// Arbitrary bytes as a catalogue or a fleet: an error or devices within their
// limits.
#include <cstddef>
#include <cstdint>

#include "base/status_macros.h"
#include "planner/fleet/device_catalogue.h"
#include "planner/fleet/placement.h"

namespace {

using plimsoll::planner::CatalogueDevice;
using plimsoll::planner::DeviceCatalogue;
using plimsoll::planner::FleetDevice;
using plimsoll::planner::PlacementProblem;

void CheckCatalogue(absl::string_view text) {
  const auto catalogue = DeviceCatalogue::Parse(text);
  if (!catalogue.ok()) return;
  int64_t last_bytes = 0;
  for (const CatalogueDevice& device : catalogue->devices()) {
    PLIMSOLL_CHECK(device.memory_bytes >= last_bytes &&
                       device.memory_bytes > 0 &&
                       device.memory_bytes <= CatalogueDevice::kMaxMemoryBytes,
                   "memory is within its limits and sorted");
    PLIMSOLL_CHECK(device.bandwidth_bytes_per_s > 0, "memory can be read");
    PLIMSOLL_CHECK(catalogue->Find(device.name) == &device, "names are unique");
    last_bytes = device.memory_bytes;
  }
}

void CheckFleet(absl::string_view text) {
  const auto fleet = plimsoll::planner::ParseFleet(text);
  if (!fleet.ok()) return;
  for (const FleetDevice& device : *fleet) {
    PLIMSOLL_CHECK(!device.id.empty() && !device.device.empty(),
                   "a device has its names");
    PLIMSOLL_CHECK(
        device.available_bytes.value_or(0) >= 0 &&
            device.available_bytes.value_or(0) <= PlacementProblem::kMaxBytes,
        "bytes are within their limits");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  CheckCatalogue(text);
  CheckFleet(text);
  return 0;
}
