// Real devices and fleets of them, from text files that users can extend.
#ifndef PLIMSOLL_PLANNER_FLEET_DEVICE_CATALOGUE_H_
#define PLIMSOLL_PLANNER_FLEET_DEVICE_CATALOGUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/layout/device_profile.h"

namespace plimsoll::planner {

// The meaning of a device's memory_bytes.
enum class MemoryBasis {
  kDriver,   // the total that its driver reports
  kNominal,  // memory as sold; less is usable, in GiB
};
const char* MemoryBasisName(MemoryBasis basis);  // "driver", "nominal"

// One line of data/devices.csv.
struct CatalogueDevice {
  static constexpr int64_t kMaxMemoryBytes = int64_t{1} << 48;
  static constexpr int64_t kMaxBandwidth = int64_t{1} << 50;
  static constexpr int64_t kMinYear = 1980;
  static constexpr int64_t kMaxYear = 2100;

  std::string name;   // unique, in any case: "rtx-4090"
  std::string title;  // the maker's name for it
  std::string kind;   // "gpu", "unified", "board" or "cpu"
  int64_t memory_bytes;
  MemoryBasis memory_basis;
  int64_t bandwidth_bytes_per_s;  // peak of its memory, read
  int64_t year;                   // year of release
  std::string source;             // source of the numbers; may be empty
};

// Devices by name.
class DeviceCatalogue {
 public:
  static constexpr int64_t kMaxDevices = 4'096;  // the most in one file

  // Reads a table with the columns name, title, kind, memory_bytes,
  // memory_basis, bandwidth_bytes_per_s, year, source (see csv.h).
  // Errors: kInvalidArgument naming line and column, also for a name that comes
  // twice.
  static absl::StatusOr<DeviceCatalogue> Parse(absl::string_view text);

  // Adds the devices of `other`; they replace devices of the same name.
  void Merge(const DeviceCatalogue& other);

  // The devices, sorted by memory, then by bandwidth, then by name.
  const std::vector<CatalogueDevice>& devices() const { return devices_; }

  // The device called `name`, in any case, or nullptr.
  const CatalogueDevice* Find(absl::string_view name) const;
  // Like Find, but returns an error if there is no such device. Errors:
  // kNotFound with the most similar names.
  absl::StatusOr<CatalogueDevice> Get(absl::string_view name) const;

 private:
  std::vector<CatalogueDevice> devices_;
};

// The profile with which a catalogue's device is planned: all of its memory,
// with the storage rules and the runtime of the committed profile for its kind,
// which is CommittedGpuProfile for "gpu" and CommittedCpuProfile for other
// kinds.
DeviceProfile ProfileOf(const CatalogueDevice& device);

// One line of a fleet's file.
struct FleetDevice {
  std::string id;                          // unique
  std::string device;                      // a name in the catalogue
  std::optional<int64_t> available_bytes;  // absent: all its memory
};

// Reads a table with the columns id, device, available_bytes. The last column
// may be empty.
// Errors: kInvalidArgument naming line and column.
absl::StatusOr<std::vector<FleetDevice>> ParseFleet(absl::string_view text);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_FLEET_DEVICE_CATALOGUE_H_
