// Measurements of what a program takes beside its plans, kept in a folder: one
// small JSON file for each device, driver and build.
#ifndef PLIMSOLL_SERVICES_HOST_RUNTIME_STORE_H_
#define PLIMSOLL_SERVICES_HOST_RUNTIME_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/layout/runtime_profile.h"

namespace plimsoll::services {

// ${XDG_STATE_HOME}/plimsoll/profiles, or below ~/.local/state; empty if the
// environment names no home.
std::string DefaultProfileFolder();

// Any number of processes may share a folder. Stateless and thread-safe.
class RuntimeStore {
 public:
  static constexpr int64_t kMaxFileBytes = 64 << 10;

  // An empty `folder` keeps and has nothing.
  explicit RuntimeStore(std::string folder) : folder_(std::move(folder)) {}

  // What is kept for `key`: nothing if there is no file.
  // Errors: kDataLoss for a file that is no profile; kFailedPrecondition for
  // one of another version or key; kPermissionDenied if it cannot be opened.
  absl::StatusOr<std::optional<planner::RuntimeProfile>> Read(
      const planner::RuntimeKey& key) const;

  // What is to be kept, of what is kept and what was seen.
  using Settle = std::function<planner::RuntimeProfile(
      const planner::RuntimeProfile& kept,
      const planner::RuntimeProfile& seen)>;

  // Has `settle` choose between `seen` and what is kept, writes that if it is
  // another, and returns it. Where nothing is kept, or a file that Read
  // refuses, it is `seen`. After a crash there is the old file or the new one,
  // whole.
  // Errors: kUnavailable if another process is writing: to be tried again;
  // kPermissionDenied naming file and reason if it cannot be written.
  absl::StatusOr<planner::RuntimeProfile> Keep(
      const planner::RuntimeProfile& seen, const Settle& settle) const;

  // The file for `key`.
  std::string PathOf(const planner::RuntimeKey& key) const;

 private:
  const std::string folder_;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HOST_RUNTIME_STORE_H_
