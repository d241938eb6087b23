#include "planner/fleet/device_catalogue.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/fleet/csv.h"
#include "planner/fleet/placement.h"

namespace plimsoll::planner {
namespace {

constexpr std::array<absl::string_view, 8> kColumns = {
    "name",         "title",        "kind",
    "memory_bytes", "memory_basis", "bandwidth_bytes_per_s",
    "year",         "source"};
constexpr std::array<absl::string_view, 3> kFleetColumns = {"id", "device",
                                                            "available_bytes"};
constexpr std::array<absl::string_view, 4> kKinds = {"gpu", "unified", "board",
                                                     "cpu"};
constexpr size_t kMaxGuesses = 4;  // names in a message

absl::StatusOr<CatalogueDevice> ParseDevice(const CsvRow& row) {
  CatalogueDevice device;
  ASSIGN_OR_RETURN(const absl::string_view name, row.Name(0));
  device.name = std::string(name);
  device.title = std::string(row.cells[1]);
  device.kind = std::string(row.cells[2]);
  if (std::find(kKinds.begin(), kKinds.end(), device.kind) == kKinds.end()) {
    return row.Error(2, absl::StrCat("'", device.kind, "' is not one of ",
                                     absl::StrJoin(kKinds, ", ")));
  }
  ASSIGN_OR_RETURN(device.memory_bytes,
                   row.Number(3, 1, CatalogueDevice::kMaxMemoryBytes));
  if (row.cells[4] != "driver" && row.cells[4] != "nominal") {
    return row.Error(
        4, absl::StrCat("'", row.cells[4], "' is not driver or nominal"));
  }
  device.memory_basis =
      row.cells[4] == "driver" ? MemoryBasis::kDriver : MemoryBasis::kNominal;
  ASSIGN_OR_RETURN(device.bandwidth_bytes_per_s,
                   row.Number(5, 1, CatalogueDevice::kMaxBandwidth));
  ASSIGN_OR_RETURN(device.year, row.Number(6, CatalogueDevice::kMinYear,
                                           CatalogueDevice::kMaxYear));
  device.source = std::string(row.cells[7]);
  return device;
}

void Sort(std::vector<CatalogueDevice>& devices) {
  std::sort(devices.begin(), devices.end(),
            [](const CatalogueDevice& a, const CatalogueDevice& b) {
              return std::tie(a.memory_bytes, a.bandwidth_bytes_per_s, a.name) <
                     std::tie(b.memory_bytes, b.bandwidth_bytes_per_s, b.name);
            });
}

}  // namespace

const char* MemoryBasisName(MemoryBasis basis) {
  return basis == MemoryBasis::kDriver ? "driver" : "nominal";
}

absl::StatusOr<DeviceCatalogue> DeviceCatalogue::Parse(absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<CsvRow> rows,
                   ParseCsv(text, kColumns, kMaxDevices));
  DeviceCatalogue catalogue;
  std::set<std::string, std::less<>> names;
  for (const CsvRow& row : rows) {
    ASSIGN_OR_RETURN(CatalogueDevice device, ParseDevice(row));
    if (!names.insert(absl::AsciiStrToLower(device.name)).second) {
      return row.Error(0, absl::StrCat(device.name, " is there twice"));
    }
    catalogue.devices_.push_back(std::move(device));
  }
  Sort(catalogue.devices_);
  return catalogue;
}

void DeviceCatalogue::Merge(const DeviceCatalogue& other) {
  devices_.erase(std::remove_if(devices_.begin(), devices_.end(),
                                [&](const CatalogueDevice& device) {
                                  return other.Find(device.name) != nullptr;
                                }),
                 devices_.end());
  devices_.insert(devices_.end(), other.devices_.begin(), other.devices_.end());
  Sort(devices_);
}

const CatalogueDevice* DeviceCatalogue::Find(absl::string_view name) const {
  for (const CatalogueDevice& device : devices_) {
    if (absl::EqualsIgnoreCase(device.name, name)) return &device;
  }
  return nullptr;
}

absl::StatusOr<CatalogueDevice> DeviceCatalogue::Get(
    absl::string_view name) const {
  if (const CatalogueDevice* device = Find(name)) return *device;
  std::vector<absl::string_view> guesses;
  const std::string lower = absl::AsciiStrToLower(name);
  for (const CatalogueDevice& device : devices_) {
    const std::string known = absl::AsciiStrToLower(device.name);
    const bool is_close =
        absl::StrContains(known, lower) || absl::StrContains(lower, known);
    if (is_close && guesses.size() < kMaxGuesses) {
      guesses.push_back(device.name);
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "no device '", name.substr(0, CsvRow::kMaxCellBytes),
      "' is in the catalogue",
      guesses.empty()
          ? ""
          : absl::StrCat("; did you mean ", absl::StrJoin(guesses, ", "))));
}

DeviceProfile ProfileOf(const CatalogueDevice& device) {
  DeviceProfile profile =
      device.kind == "gpu" ? CommittedGpuProfile() : CommittedCpuProfile();
  profile.id = device.name;
  profile.name = device.title;
  profile.total_bytes = device.memory_bytes;
  profile.free_bytes = device.memory_bytes;
  return profile;
}

absl::StatusOr<std::vector<FleetDevice>> ParseFleet(absl::string_view text) {
  ASSIGN_OR_RETURN(
      const std::vector<CsvRow> rows,
      ParseCsv(text, kFleetColumns, PlacementProblem::kMaxDevices));
  std::vector<FleetDevice> fleet;
  std::set<absl::string_view> ids;
  for (const CsvRow& row : rows) {
    FleetDevice device;
    ASSIGN_OR_RETURN(const absl::string_view id, row.Name(0));
    if (!ids.insert(id).second) {
      return row.Error(0, absl::StrCat(id, " is there twice"));
    }
    ASSIGN_OR_RETURN(const absl::string_view name, row.Name(1));
    device.id = std::string(id);
    device.device = std::string(name);
    if (!row.cells[2].empty()) {
      ASSIGN_OR_RETURN(device.available_bytes,
                       row.Number(2, 0, PlacementProblem::kMaxBytes));
    }
    fleet.push_back(std::move(device));
  }
  return fleet;
}

}  // namespace plimsoll::planner
