// What a process takes of a device beside its plan: what it holds while it is
// idle, and how that grows with what the process does.
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

// What an idle process was seen to hold under a key, without buffers of
// requests and replies.
struct RuntimeProfile {
  // The version that is written; no other is read. Profiles of version 1 were
  // peaks, which included the buffers of the largest request.
  static constexpr int64_t kVersion = 2;
  static constexpr int64_t kMaxBytes = int64_t{1} << 44;
  static constexpr size_t kMaxMeasuredBytes = 32;

  RuntimeKey key;
  int64_t bytes = 0;
  RuntimeLoad load;           // that was reached
  std::string measured = {};  // when, for people: "2026-01-31 12:00 UTC"

  friend bool operator==(const RuntimeProfile& a, const RuntimeProfile& b) {
    return a.key == b.key && a.bytes == b.bytes && a.load == b.load &&
           a.measured == b.measured;
  }
};

// Whether a profile that was read may be used for `key`.
// Errors: kFailedPrecondition for another version or key; kInvalidArgument
// naming the field that makes no sense.
absl::Status CheckRuntimeProfile(int64_t version, const RuntimeProfile& profile,
                                 const RuntimeKey& key);

// What is to be kept after an idle process under `load` was seen to hold
// `seen`. While that is covered by what is planned from `kept`, and not far
// below, it is `kept` itself, so that plans do not change with every
// measurement. More than is covered is kept at once. Less by more than
// RuntimeShrinkBytes halves the distance, if `may_shrink`: a process that has
// served nothing yet holds too little. The keys are equal.
RuntimeProfile SettleRuntime(const RuntimeProfile& kept,
                             const RuntimeProfile& seen,
                             const RuntimeLoad& load, bool may_shrink);

// How far below `bytes` a measurement has to be to count: 8 MiB or a quarter.
int64_t RuntimeShrinkBytes(int64_t bytes);

// The larger of each field.
RuntimeLoad LargerLoad(const RuntimeLoad& a, const RuntimeLoad& b);

// Bytes that the overhead grows by, at most, from one load to another; 0 where
// nothing grows. Loads are within the limits of LoadOptions and ModelShape.
int64_t RuntimeGrowth(const RuntimeLoad& from, const RuntimeLoad& to);

// What to plan under `load`, given what was seen: kRuntimeSafetyBytes more,
// for readers and buffers that were not there yet, in whole MiB. What a heap
// keeps of any mix of requests is within it, so that requests change no plan.
inline constexpr int64_t kRuntimeSafetyBytes = 4 << 20;
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

#endif  // PLIMSOLL_PLANNER_LAYOUT_RUNTIME_PROFILE_H_
