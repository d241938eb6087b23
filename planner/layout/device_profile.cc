#include "planner/layout/device_profile.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"

namespace plimsoll::planner {
namespace {

// The process itself beside arena and tokenizer: code, libraries, stacks and
// channels. It is a committed upper bound until it is measured.
constexpr int64_t kCpuRuntimeBytes = 36 << 20;
// The arena is one mapping of whole huge pages.
constexpr int64_t kCpuGranularityBytes = 2 << 20;

// A GPU's context, modules, library workspaces and graphs: 512 MiB for context
// and modules (Ollama reserves 457 MiB for them, gguf-parser-go 250 MiB), 32
// MiB for cuBLAS (its manual names that workspace for Hopper, and 4 MiB for
// older devices) and 96 MiB for graphs and streams. None of it is measured.
constexpr int64_t kGpuRuntimeBytes = int64_t{512 + 32 + 96} << 20;
// cudaMalloc allocates whole pages of 2 MiB and aligns to 256 bytes.
constexpr int64_t kGpuGranularityBytes = 2 << 20;
constexpr int64_t kGpuAlignment = 256;

// The element types of keys and values that the kernels run.
constexpr std::array kKvTypes = {DType::kF32,  DType::kF16,  DType::kBF16,
                                 DType::kQ8_0, DType::kQ5_1, DType::kQ4_0};
// The element types of weights that the kernels run.
constexpr std::array kWeightTypes = {
    DType::kF32,    DType::kF16,   DType::kBF16,   DType::kQ8_0,  DType::kQ4_0,
    DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1,   DType::kQ4_K,  DType::kQ5_K,
    DType::kQ6_K,   DType::kMxfp4, DType::kIq4Nl,  DType::kIq4Xs, DType::kQ3_K,
    DType::kQ2_K,   DType::kTq2_0, DType::kIq2Xxs, DType::kIq2Xs, DType::kIq2S,
    DType::kIq3Xxs, DType::kIq3S,  DType::kIq1S,   DType::kIq1M,  DType::kTq1_0,
    DType::kNvfp4};

absl::Status Bad(absl::string_view field, int64_t value,
                 absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("device profile: ", field, " is ", value, ", not ", wanted));
}

bool IsPowerOfTwo(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

// The smallest power of two that is not below `bytes`; 0 stays 0.
absl::StatusOr<int64_t> NextPowerOfTwo(int64_t bytes) {
  constexpr int64_t kLargest = int64_t{1} << 62;
  if (bytes == 0) return 0;
  if (bytes > kLargest) {
    return absl::OutOfRangeError(absl::StrCat("the power of two above ", bytes,
                                              " does not fit in int64"));
  }
  int64_t power = 1;
  while (power < bytes) power *= 2;
  return power;
}

}  // namespace

DeviceProfile CommittedCpuProfile() {
  // Rows are padded to the panel of rows that the CPU kernels read together.
  constexpr int64_t kRowMultiple = 16;
  DeviceProfile profile = {
      .id = "cpu",
      .kind = "cpu",
      .name = "CPU",
      .total_bytes = 0,
      .free_bytes = 0,
      .allocation = AllocationRule::kGranularity,
      .granularity_bytes = kCpuGranularityBytes,
      .alignment = 64,
      .storage = {},
      .kv_types = {kKvTypes.begin(), kKvTypes.end()},
      // A block is 32 int16 values, their float32 scale and scaled sum.
      .workspace = {.activation_block = 32,
                    .activation_block_bytes = 80,
                    .kernel_scratch_bytes = 0,
                    .min_logits_rows = 16,
                    .max_candidates = 64},
      .runtime_bytes = kCpuRuntimeBytes,
      .runtime_basis = Basis::kEstimated};
  for (const DType dtype : kWeightTypes) {
    profile.storage.push_back({dtype, kRowMultiple});
  }
  return profile;
}

DeviceProfile CommittedGpuProfile() {
  // Steps are planned like the CPU's, whose packed rows are wider.
  const WorkspaceParameters workspace = CommittedCpuProfile().workspace;
  DeviceProfile profile = {
      .id = "gpu",
      .kind = "gpu",
      .name = "GPU",
      .total_bytes = 0,
      .free_bytes = 0,
      .allocation = AllocationRule::kGranularity,
      .granularity_bytes = kGpuGranularityBytes,
      .alignment = kGpuAlignment,
      .storage = {},
      .kv_types = {kKvTypes.begin(), kKvTypes.end()},
      .workspace = workspace,
      .runtime_bytes = kGpuRuntimeBytes,
      .runtime_basis = Basis::kEstimated,
      .runtime_note = "a bound on context, libraries and graphs, not measured"};
  for (const DType dtype : kWeightTypes) {
    profile.storage.push_back({dtype, /*row_multiple=*/1});
  }
  return profile;
}

const StorageRule* FindStorageRule(const DeviceProfile& profile, DType dtype) {
  for (const StorageRule& rule : profile.storage) {
    if (rule.dtype == dtype) return &rule;
  }
  return nullptr;
}

bool HasKvType(const DeviceProfile& profile, DType dtype) {
  const std::vector<DType>& types = profile.kv_types;
  return std::find(types.begin(), types.end(), dtype) != types.end();
}

absl::StatusOr<int64_t> RoundAllocation(AllocationRule rule,
                                        int64_t granularity_bytes,
                                        int64_t bytes) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("an allocation of ", bytes, " bytes"));
  }
  switch (rule) {
    case AllocationRule::kExact:
      return bytes;
    case AllocationRule::kPow2:
      return NextPowerOfTwo(bytes);
    case AllocationRule::kGranularity:
      break;
  }
  if (granularity_bytes <= 0) {
    return Bad("granularity_bytes", granularity_bytes, "positive");
  }
  const auto rounded = CheckedRoundUp(bytes, granularity_bytes);
  if (!rounded) {
    return absl::OutOfRangeError(
        absl::StrCat("an allocation of ", bytes,
                     " bytes, rounded up, does not fit in int64"));
  }
  return *rounded;
}

Checked RoundedUp(AllocationRule rule, int64_t granularity_bytes,
                  Checked bytes) {
  const auto wanted = bytes.Get();
  if (!wanted) return Checked::Overflow();
  const auto rounded = RoundAllocation(rule, granularity_bytes, *wanted);
  return rounded.ok() ? Checked(*rounded) : Checked::Overflow();
}

absl::StatusOr<int64_t> AllocatedBytes(const DeviceProfile& profile,
                                       int64_t bytes) {
  return RoundAllocation(profile.allocation, profile.granularity_bytes, bytes);
}

absl::Status ValidateProfile(const DeviceProfile& profile) {
  const WorkspaceParameters& w = profile.workspace;
  struct Field {
    absl::string_view name;
    int64_t value;
    int64_t min;
  };
  for (const Field& field :
       {Field{"total_bytes", profile.total_bytes, 0},
        Field{"free_bytes", profile.free_bytes, 0},
        Field{"runtime_bytes", profile.runtime_bytes, 0},
        Field{"message_bytes", profile.message_bytes, 0},
        Field{"activation_block", w.activation_block, 1},
        Field{"activation_block_bytes", w.activation_block_bytes, 0},
        Field{"kernel_scratch_bytes", w.kernel_scratch_bytes, 0},
        Field{"min_logits_rows", w.min_logits_rows, 1},
        Field{"max_candidates", w.max_candidates, 1}}) {
    if (field.value < field.min) {
      return Bad(field.name, field.value, absl::StrCat("at least ", field.min));
    }
  }
  if (!IsPowerOfTwo(profile.alignment)) {
    return Bad("alignment", profile.alignment, "a power of two");
  }
  if (profile.allocation == AllocationRule::kGranularity &&
      profile.granularity_bytes <= 0) {
    return Bad("granularity_bytes", profile.granularity_bytes, "positive");
  }
  for (const StorageRule& rule : profile.storage) {
    if (rule.row_multiple < 1) {
      return Bad(absl::StrCat("row_multiple of ", DTypeName(rule.dtype)),
                 rule.row_multiple, "positive");
    }
  }
  return absl::OkStatus();
}

}  // namespace plimsoll::planner
