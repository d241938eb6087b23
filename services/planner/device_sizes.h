// What workers say about the size of one device.
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
  // Beyond so many workers the largest size is forgotten, so the smallest one
  // still counts.
  static constexpr size_t kMaxHolders = 16;

  // `holder` says at `now` that the device has `bytes`; what it said before
  // counts no more. Returns whether that is news.
  bool Say(const std::string& holder, int64_t bytes, absl::Time now);
  // Forgets what was said before `oldest`, but for the words of those of whom
  // `holds` returns that they hold leases on the device.
  void Forget(absl::Time oldest,
              const std::function<bool(const std::string& holder)>& holds);

  // Returns the smallest size, or the largest number if nobody said one.
  int64_t Smallest() const;
  // Returns false if the size that `holder` knows is wanted.
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
