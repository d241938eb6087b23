// The memory that a process takes of a device beside its plan: what it holds
// while it is idle, and how that grows with what the process does.
#ifndef PLIMSOLL_PLANNER_LAYOUT_RUNTIME_PROFILE_H_
#define PLIMSOLL_PLANNER_LAYOUT_RUNTIME_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/layout/device_profile.h"

namespace plimsoll::planner {

// The counts with which a CPU process's overhead grows.
struct RuntimeLoad {
  static constexpr int64_t kMaxThreads = 65'536;

  int64_t n_threads = 1;  // threads that compute
  int64_t n_slots = 1;
  int64_t n_rows = 1;   // rows of one step
  int64_t n_vocab = 0;  // tokens, if rows of logits were sorted whole

  friend bool operator==(const RuntimeLoad&, const RuntimeLoad&) = default;
};

// The conditions under which a measurement is valid. A different value of any
// field makes a different key.
struct RuntimeKey {
  static constexpr int64_t kMaxFieldBytes = 256;

  std::string device;  // kind and name
  std::string driver;  // the system or the device's driver, with its version
  std::string build;   // version and build id of the program

  friend bool operator==(const RuntimeKey& a, const RuntimeKey& b) {
    return a.device == b.device && a.driver == b.driver && a.build == b.build;
  }
};

// A file name for the key, equal for equal keys: letters, digits and '-'.
std::string FileStem(const RuntimeKey& key);

// The memory that an idle process was measured to hold under a key, without the
// buffers of requests and replies.
struct RuntimeProfile {
  // The version that is written; other versions are not read. Profiles of
  // version 1 were peaks, which included the buffers of the largest request.
  static constexpr int64_t kVersion = 2;
  static constexpr int64_t kMaxBytes = int64_t{1} << 44;
  static constexpr size_t kMaxMeasuredBytes = 32;

  RuntimeKey key;
  int64_t bytes = 0;
  RuntimeLoad load;           // the load that was reached
  std::string measured = {};  // when, like "2026-01-31 12:00 UTC"

  friend bool operator==(const RuntimeProfile& a, const RuntimeProfile& b) {
    return a.key == b.key && a.bytes == b.bytes && a.load == b.load &&
           a.measured == b.measured;
  }
};

// Checks whether a profile that was read may be used for `key`.
// Errors: kFailedPrecondition for another version or key; kInvalidArgument
// naming the field that makes no sense.
absl::Status CheckRuntimeProfile(int64_t version, const RuntimeProfile& profile,
                                 const RuntimeKey& key);

// Returns the profile to keep after an idle process under `load` was seen to
// hold `seen`. Both profiles have the same key. If the plan from `kept` covers
// what was seen and is not far above it, the result is `kept`, so that plans do
// not change with every measurement. If more was seen, the result is `seen` at
// once. If `may_shrink` and the measurement is lower by more than
// RuntimeShrinkBytes, the result halves the distance; `may_shrink` is false for
// a process that has served nothing yet, because it holds too little.
RuntimeProfile MergeRuntime(const RuntimeProfile& kept,
                            const RuntimeProfile& seen, const RuntimeLoad& load,
                            bool may_shrink);

// A measurement counts as lower if it is this far below `bytes`: 8 MiB or a
// quarter.
int64_t RuntimeShrinkBytes(int64_t bytes);

// The larger value of each field.
RuntimeLoad LargerLoad(const RuntimeLoad& a, const RuntimeLoad& b);

// The most bytes by which the overhead grows from one load to another; 0 if
// nothing grows. Loads are within the limits of LoadOptions and ModelShape.
int64_t RuntimeGrowth(const RuntimeLoad& from, const RuntimeLoad& to);

// Bytes to plan under `load` after a measurement: kRuntimeSafetyBytes more than
// measured, in whole MiB, for readers and buffers that were not there yet. They
// also cover the memory that the heap keeps after any mix of requests, so that
// requests change no plan.
inline constexpr int64_t kRuntimeSafetyBytes = 4 << 20;
int64_t MeasuredRuntimeBytes(const RuntimeProfile& profile,
                             const RuntimeLoad& load);

// The committed upper bound for a CPU process under `load`, in whole MiB. It is
// at least that of CommittedCpuProfile.
int64_t EstimatedRuntimeBytes(const RuntimeLoad& load);

// Sets the runtime bytes of a CPU's profile for `load`: from `measured` or, if
// that is nullptr, from the bound.
void ApplyRuntime(const RuntimeProfile* measured, const RuntimeLoad& load,
                  DeviceProfile& profile);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_RUNTIME_PROFILE_H_
