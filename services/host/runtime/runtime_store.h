// Keeps measurements of a program's memory outside its plans in a folder: one
// small JSON file for each device, driver and build.
#ifndef PLIMSOLL_SERVICES_HOST_RUNTIME_RUNTIME_STORE_H_
#define PLIMSOLL_SERVICES_HOST_RUNTIME_RUNTIME_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/layout/runtime_profile.h"

namespace plimsoll::services {

// ${XDG_STATE_HOME}/plimsoll/profiles, or that folder below ~/.local/state.
// Empty if the environment names no home.
std::string DefaultProfileFolder();

// Any number of processes may share a folder. Stateless and thread-safe.
class RuntimeStore {
 public:
  static constexpr int64_t kMaxFileBytes = 64 << 10;

  // A store with an empty `folder` keeps nothing.
  explicit RuntimeStore(std::string folder) : folder_(std::move(folder)) {}

  // Reads the profile for `key`; returns nothing if there is no file.
  // Errors: kDataLoss for a file that is no profile; kFailedPrecondition for a
  // profile of another version or key; kPermissionDenied if it cannot be
  // opened.
  absl::StatusOr<std::optional<planner::RuntimeProfile>> Read(
      const planner::RuntimeKey& key) const;

  // Returns the profile to keep, given the profile that is kept and the new
  // one.
  using Merge = std::function<planner::RuntimeProfile(
      const planner::RuntimeProfile& kept,
      const planner::RuntimeProfile& seen)>;

  // Lets `merge` choose between `seen` and the kept profile, writes the choice
  // if it is new, and returns it. If nothing is kept, or if Read refuses the
  // file, the choice is `seen`. After a crash the old file or the new one
  // exists, never a part of a file.
  // Errors: kUnavailable if another process is writing, so that the caller may
  // try again; kPermissionDenied naming file and reason if it cannot be
  // written.
  absl::StatusOr<planner::RuntimeProfile> Keep(
      const planner::RuntimeProfile& seen, const Merge& merge) const;

  // The file for `key`.
  std::string PathOf(const planner::RuntimeKey& key) const;

 private:
  const std::string folder_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_RUNTIME_RUNTIME_STORE_H_
