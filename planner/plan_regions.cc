#include "planner/plan_regions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked_math.h"
#include "base/status_macros.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kFloatBytes = 4;
// A candidate is a token id and its log-probability.
constexpr int64_t kCandidateBytes = 8;
// One entry of attention's page table.
constexpr int64_t kPageEntryBytes = 24;
// Sampler state and positions of one slot.
constexpr int64_t kSlotStateBytes = 4'096;
// Tokens, positions and row offsets of one row of a step.
constexpr int64_t kRowStateBytes = 64;
constexpr int64_t kRowMultiple = 16;

absl::Status TooBig() {
  return absl::OutOfRangeError("the plan does not fit in int64 bytes");
}

absl::StatusOr<int64_t> Fitting(Checked value) {
  if (const auto bytes = value.Get()) return *bytes;
  return TooBig();
}

absl::Status CannotRun(const WeightTensor& tensor,
                       const DeviceProfile& profile) {
  return absl::UnimplementedError(absl::StrCat(
      "tensor \"", tensor.name, "\" is of type ", DTypeName(tensor.dtype),
      ", which device \"", profile.id, "\" cannot run (it can run ",
      absl::StrJoin(profile.storage, ", ",
                    [](std::string* out, const StorageRule& rule) {
                      absl::StrAppend(out, DTypeName(rule.dtype));
                    }),
      ")"));
}

absl::StatusOr<int64_t> StoredBytes(const WeightTensor& tensor,
                                    const DeviceProfile& profile) {
  if (tensor.cols <= 0 || tensor.rows <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", tensor.name, "\" is empty"));
  }
  if (tensor.is_vector) return Fitting(Checked(tensor.cols) * kFloatBytes);
  const StorageRule* rule = FindStorageRule(profile, tensor.dtype);
  if (rule == nullptr) return CannotRun(tensor, profile);
  ASSIGN_OR_RETURN(const int64_t row, RowBytes(tensor.dtype, tensor.cols));
  const auto rows = CheckedRoundUp(tensor.rows, rule->row_multiple);
  if (!rows) return TooBig();
  return Fitting(Checked(row) * *rows);
}

// Appends regions one after another, in the arena or outside it.
class RegionList {
 public:
  explicit RegionList(int64_t alignment) : alignment_(alignment) {}

  // A region's bytes are whole multiples of the alignment, so that the sum of
  // the regions is the arena.
  absl::Status AddToArena(absl::string_view name, Checked bytes) {
    ASSIGN_OR_RETURN(const int64_t wanted, Fitting(bytes));
    const auto rounded = CheckedRoundUp(wanted, alignment_);
    if (!rounded) return TooBig();
    regions_.push_back({name, arena_bytes_, *rounded, alignment_,
                        Basis::kDerived, std::string()});
    ASSIGN_OR_RETURN(arena_bytes_, Fitting(Checked(arena_bytes_) + *rounded));
    return absl::OkStatus();
  }
  void AddOutside(absl::string_view name, int64_t bytes, Basis basis) {
    regions_.push_back({name, -1, bytes, 1, basis, std::string()});
  }

  int64_t arena_bytes() const { return arena_bytes_; }
  std::vector<Region> Take() { return std::move(regions_); }

 private:
  int64_t alignment_;
  int64_t arena_bytes_ = 0;
  std::vector<Region> regions_;
};

absl::Status AddArenaRegions(const PlanInputs& inputs, const RegionSizes& sizes,
                             RegionList& regions) {
  const int64_t n_slots = inputs.options.n_slots;
  const Checked sampled = sizes.n_sampled;
  RETURN_IF_ERROR(regions.AddToArena("weights", inputs.weight_bytes));
  RETURN_IF_ERROR(regions.AddToArena("kv_full", sizes.kv.full_bytes));
  RETURN_IF_ERROR(regions.AddToArena("kv_window", sizes.kv.window_bytes));
  RETURN_IF_ERROR(regions.AddToArena("kv_draft", 0));
  RETURN_IF_ERROR(regions.AddToArena("kv_snapshots", 0));
  RETURN_IF_ERROR(regions.AddToArena("workspace", sizes.workspace.bytes));
  RETURN_IF_ERROR(regions.AddToArena(
      "logits", sampled * inputs.shape.vocab_size * kFloatBytes));
  RETURN_IF_ERROR(regions.AddToArena(
      "candidates",
      sampled * inputs.profile.workspace.max_candidates * kCandidateBytes));
  return regions.AddToArena(
      "tables", Checked(n_slots) * sizes.kv.pages_per_slot * kPageEntryBytes +
                    Checked(n_slots) * kSlotStateBytes +
                    Checked(sizes.n_rows) * kRowStateBytes);
}

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t min,
                        int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", not ", min, " to ", max));
}

std::string FormulaOf(const PlanInputs& inputs, const RegionSizes& sizes,
                      absl::string_view region) {
  const LoadOptions& options = inputs.options;
  if (region == "weights") {
    return absl::StrCat(inputs.shape.weights.size(),
                        " tensors as stored on the device");
  }
  if (region == "kv_full") {
    return absl::StrCat(options.n_slots, " slots x ", sizes.kv.pages_per_slot,
                        " pages x ", sizes.kv.page_bytes, " bytes (",
                        sizes.kv.page_tokens, " tokens a page, ",
                        DTypeName(options.k_type), " keys, ",
                        DTypeName(options.v_type), " values)");
  }
  if (region == "kv_window") {
    return absl::StrCat("(", options.n_slots, " slots + ",
                        options.n_idle_sessions, " idle) x ",
                        sizes.kv.ring_bytes, " bytes of rings");
  }
  if (region == "workspace") {
    return absl::StrCat("one step of ", sizes.n_rows, " rows, ",
                        sizes.n_sampled, " of them sampled");
  }
  if (region == "logits") {
    return absl::StrCat(sizes.n_sampled, " rows x ", inputs.shape.vocab_size,
                        " tokens x 4 bytes");
  }
  if (region == "candidates") {
    return absl::StrCat(sizes.n_sampled, " rows x ",
                        inputs.profile.workspace.max_candidates,
                        " candidates x 8 bytes");
  }
  if (region == "tables") {
    return absl::StrCat(options.n_slots, " slots x (", sizes.kv.pages_per_slot,
                        " page entries x 24 + 4096 bytes) + ", sizes.n_rows,
                        " rows x 64 bytes");
  }
  if (region == "vocab") return "tokenizer tables on the host";
  if (region == "runtime") return "the process itself, outside the arena";
  if (region == "margin") {
    return absl::StrCat(options.margin_bytes,
                        " bytes of policy + the allocator's rounding");
  }
  return "not enabled";
}

}  // namespace

absl::StatusOr<WeightLayout> LayoutWeights(const ModelShape& shape,
                                           const DeviceProfile& profile) {
  WeightLayout layout = {{}, 0};
  layout.placements.reserve(shape.weights.size());
  for (const WeightTensor& tensor : shape.weights) {
    ASSIGN_OR_RETURN(const int64_t bytes, StoredBytes(tensor, profile));
    const auto offset = CheckedRoundUp(layout.bytes, profile.alignment);
    if (!offset) return TooBig();
    layout.placements.push_back({*offset, bytes});
    ASSIGN_OR_RETURN(layout.bytes, Fitting(Checked(*offset) + bytes));
  }
  return layout;
}

absl::Status ValidateOptions(const LoadOptions& options) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(CheckRange("n_ctx", options.n_ctx.value_or(1), 1, kAny));
  RETURN_IF_ERROR(CheckRange("max_inference_len",
                             options.max_inference_len.value_or(1), 1, kAny));
  RETURN_IF_ERROR(
      CheckRange("n_slots", options.n_slots, 1, LoadOptions::kMaxSlots));
  RETURN_IF_ERROR(
      CheckRange("n_ubatch", options.n_ubatch, 1, LoadOptions::kMaxUbatch));
  RETURN_IF_ERROR(CheckRange("n_idle_sessions", options.n_idle_sessions, 0,
                             LoadOptions::kMaxIdleSessions));
  return CheckRange("margin_bytes", options.margin_bytes, 0, kAny);
}

absl::StatusOr<RegionSizes> SizeRegions(const PlanInputs& inputs,
                                        int64_t n_ctx) {
  const LoadOptions& options = inputs.options;
  RegionSizes sizes = {};
  sizes.n_ctx = n_ctx;
  sizes.n_rows =
      std::min(options.n_ubatch,
               CheckedRoundUp(n_ctx, kRowMultiple).value_or(options.n_ubatch));
  sizes.n_sampled =
      std::max(options.n_slots, inputs.profile.workspace.min_logits_rows);
  ASSIGN_OR_RETURN(sizes.kv, KvCacheBytes(inputs.shape, n_ctx, options.n_slots,
                                          options.n_idle_sessions,
                                          options.k_type, options.v_type));
  ASSIGN_OR_RETURN(sizes.workspace,
                   WorkspaceLayout(inputs.shape, sizes.n_rows, sizes.n_sampled,
                                   sizes.kv.ring_bytes > 0, options.k_type,
                                   options.v_type, inputs.profile));
  RegionList regions(inputs.profile.alignment);
  RETURN_IF_ERROR(AddArenaRegions(inputs, sizes, regions));
  sizes.arena_bytes = regions.arena_bytes();
  ASSIGN_OR_RETURN(const int64_t allocated,
                   AllocatedBytes(inputs.profile, sizes.arena_bytes));
  const int64_t vocab = VocabBytes(inputs.shape.vocab);
  ASSIGN_OR_RETURN(
      const int64_t margin,
      Fitting(Checked(options.margin_bytes) + (allocated - sizes.arena_bytes)));
  regions.AddOutside("vocab", vocab, Basis::kEstimated);
  regions.AddOutside("runtime", inputs.profile.runtime_bytes,
                     inputs.profile.runtime_basis);
  regions.AddOutside("margin", margin, Basis::kDerived);
  ASSIGN_OR_RETURN(sizes.total_bytes,
                   Fitting(Checked(sizes.arena_bytes) + vocab +
                           inputs.profile.runtime_bytes + margin));
  sizes.regions = regions.Take();
  return sizes;
}

void ExplainRegions(const PlanInputs& inputs, RegionSizes& sizes) {
  for (Region& region : sizes.regions) {
    region.formula = FormulaOf(inputs, sizes, region.name);
  }
}

}  // namespace plimsoll::planner
