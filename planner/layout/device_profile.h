// The differences between backends, as data: how much memory a device has, how
// it allocates, and how it stores each element type.
#ifndef PLIMSOLL_PLANNER_LAYOUT_DEVICE_PROFILE_H_
#define PLIMSOLL_PLANNER_LAYOUT_DEVICE_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/checked_math.h"
#include "base/dtype.h"

namespace plimsoll::planner {

// The origin of a number in a plan.
enum class Basis {
  kDerived,    // computed from the file's header
  kMeasured,   // read off a running worker on this device and build
  kEstimated,  // a committed upper bound
};

// How the device's allocator rounds a request.
enum class AllocationRule { kExact, kGranularity, kPow2 };

// How the device stores a matrix of one element type. Packing permutes and pads
// rows; it never requantises, so a packed row has the file's bytes.
struct StorageRule {
  DType dtype;
  int64_t row_multiple;  // rows are padded to a multiple of this
};

// What the step's buffers depend on, besides the model.
struct WorkspaceParameters {
  // Bytes of one packed activation row of n elements, the form that matrix
  // products read: n / activation_block * activation_block_bytes (n is rounded
  // up to whole blocks).
  int64_t activation_block;
  int64_t activation_block_bytes;
  // Scratch of the kernels, all threads together.
  int64_t kernel_scratch_bytes;
  // A step keeps logits of max(n_slots, this) sampled rows.
  int64_t min_logits_rows;
  // The largest number of candidates per sampled row.
  int64_t max_candidates;
};

struct DeviceProfile {
  std::string id;    // stable name: "cpu", "cuda:0"
  std::string kind;  // "cpu", "cuda"; "gpu" for one of a catalogue
  std::string name;  // the vendor's name for it
  int64_t total_bytes;
  int64_t free_bytes;  // bytes that a new grant may use now
  AllocationRule allocation;
  int64_t granularity_bytes;  // for kGranularity
  int64_t alignment;  // alignment of all regions and tensors; a power of two
  std::vector<StorageRule> storage;  // element types of weights that it runs
  std::vector<DType> kv_types;       // element types of keys and values
  WorkspaceParameters workspace;
  int64_t runtime_bytes;  // context, libraries, code: outside the arena
  Basis runtime_basis;
  std::string runtime_note = {};  // its origin; may be empty
  // Host memory that the process allows for its requests and replies.
  int64_t message_bytes = 0;
};

// The committed profile of this build's CPU backend, for what-ifs without a
// running worker. Total and free are 0, and the caller must set them. A test
// compares it with what the worker builds from the kernels' own constants.
DeviceProfile CommittedCpuProfile();

// The committed profile of an accelerator with memory of its own, for what-ifs
// about devices that are not there. Every tensor is as in the file, and a bound
// stands for context, libraries and graphs. It does not say what this build
// runs. Total and free are 0, and the caller must set them.
DeviceProfile CommittedGpuProfile();

// The rule for `dtype`, or nullptr if the device cannot run it.
const StorageRule* FindStorageRule(const DeviceProfile& profile, DType dtype);

// True if the device runs keys or values of `dtype`.
bool HasKvType(const DeviceProfile& profile, DType dtype);

// `bytes` rounded up by an allocator's rule; `granularity_bytes` belongs to
// kGranularity.
// Errors: kInvalidArgument for a negative request or a bad granularity;
// kOutOfRange on overflow.
absl::StatusOr<int64_t> RoundAllocation(AllocationRule rule,
                                        int64_t granularity_bytes,
                                        int64_t bytes);

// RoundAllocation for a sum: overflow stays overflow, and an error counts as
// overflow.
Checked RoundedUp(AllocationRule rule, int64_t granularity_bytes,
                  Checked bytes);

// Bytes that the device's allocator takes for a request of `bytes`.
// Errors: kInvalidArgument for a negative request or a bad granularity;
// kOutOfRange on overflow.
absl::StatusOr<int64_t> AllocatedBytes(const DeviceProfile& profile,
                                       int64_t bytes);

// Checks a profile. Errors: kInvalidArgument naming the field that makes no
// sense.
absl::Status ValidateProfile(const DeviceProfile& profile);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_DEVICE_PROFILE_H_
