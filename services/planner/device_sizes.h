// The sizes that workers report for one device.
#ifndef PLIMSOLL_SERVICES_PLANNER_DEVICE_SIZES_H_
#define PLIMSOLL_SERVICES_PLANNER_DEVICE_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace plimsoll::services {

// The smallest size counts, so that nobody gets more by naming a larger one.
// Not thread-safe.
class DeviceSizes {
 public:
  // Sizes of at most this many workers are remembered. Beyond that the largest
  // size is dropped; the smallest one still counts.
  static constexpr size_t kMaxHolders = 16;

  // Records that `holder` reports a size of `bytes` at `now`. Its earlier
  // report no longer counts. Returns whether the report is new or has changed.
  bool Say(const std::string& holder, int64_t bytes, absl::Time now);
  // Drops the sizes that were reported before `oldest`. Sizes from holders for
  // which `holds` returns true stay, because these holders have leases on the
  // device.
  void Forget(absl::Time oldest,
              const std::function<bool(const std::string& holder)>& holds);

  // Returns the smallest size, or the largest number if no size is known.
  int64_t Smallest() const;
  // Returns false if `holder` should be asked for the size.
  bool Knows(const std::string& holder) const {
    return said_.count(holder) > 0 || said_.size() >= kMaxHolders;
  }

 private:
  struct Size {
    int64_t bytes;
    absl::Time said_at;
  };

  std::map<std::string, Size> said_;  // the keys are holders
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_DEVICE_SIZES_H_
