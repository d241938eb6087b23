// What a process takes of a device beside its plan: the most that was seen of
// it, and how that grows with what the process does.
#ifndef PLIMSOLL_PLANNER_RUNTIME_PROFILE_H_
#define PLIMSOLL_PLANNER_RUNTIME_PROFILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/device_profile.h"

namespace plimsoll::planner {

// What a CPU process's overhead grows with.
struct RuntimeLoad {
  static constexpr int64_t kMaxThreads = 65'536;

  int64_t n_threads = 1;  // that compute
  int64_t n_slots = 1;
  int64_t n_rows = 1;   // of one step
  int64_t n_vocab = 0;  // tokens; whole rows of logits were sorted

  friend bool operator==(const RuntimeLoad&, const RuntimeLoad&) = default;
};

// Where a measurement holds. Another value of any field makes another key.
struct RuntimeKey {
  static constexpr int64_t kMaxFieldBytes = 256;

  std::string device;  // kind and name
  std::string driver;  // the system or the device's driver, with its version
  std::string build;   // version and build id of the program

  friend bool operator==(const RuntimeKey& a, const RuntimeKey& b) {
    return a.device == b.device && a.driver == b.driver && a.build == b.build;
  }
};

// A name for a file, the same for equal keys: letters, digits and '-'.
std::string FileStem(const RuntimeKey& key);

// The most that was seen under a key.
struct RuntimeProfile {
  // Of what is written. Others are not read.
  static constexpr int64_t kVersion = 1;
  static constexpr int64_t kMaxBytes = int64_t{1} << 44;

  RuntimeKey key;
  int64_t bytes = 0;
  RuntimeLoad load;  // that was reached
};

// Whether a profile that was read may be used for `key`.
// Errors: kFailedPrecondition for another version or key; kInvalidArgument
// naming the field that makes no sense.
absl::Status CheckRuntimeProfile(int64_t version, const RuntimeProfile& profile,
                                 const RuntimeKey& key);

// Both measurements in one: the larger number of bytes, and the larger load,
// since the overhead under either load is at most those bytes. The keys are
// equal.
RuntimeProfile MergeRuntime(const RuntimeProfile& a, const RuntimeProfile& b);

// Bytes that the overhead grows by, at most, from one load to another; 0 where
// nothing grows. Loads are within the limits of LoadOptions and ModelShape.
int64_t RuntimeGrowth(const RuntimeLoad& from, const RuntimeLoad& to);

// What to plan under `load`, given what was seen: kRuntimeSafetyBytes more,
// for readers and buffers that were not there yet, in whole MiB.
inline constexpr int64_t kRuntimeSafetyBytes = 2 << 20;
int64_t MeasuredRuntimeBytes(const RuntimeProfile& profile,
                             const RuntimeLoad& load);

// The committed upper bound for a CPU process under `load`, in whole MiB: not
// less than CommittedCpuProfile's.
int64_t EstimatedRuntimeBytes(const RuntimeLoad& load);

// Puts the runtime of `load` into a CPU's profile: from what was measured, or
// where that is nullptr the bound.
void ApplyRuntime(const RuntimeProfile* measured, const RuntimeLoad& load,
                  DeviceProfile& profile);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_RUNTIME_PROFILE_H_
