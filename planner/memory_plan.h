// The memory plan: an ordered list of regions that sum exactly, computed by the
// one code path that planner, worker and command line share.
#ifndef PLIMSOLL_PLANNER_MEMORY_PLAN_H_
#define PLIMSOLL_PLANNER_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "planner/device_profile.h"
#include "planner/kv_cache_bytes.h"
#include "planner/model_shape.h"
#include "planner/workspace_layout.h"

namespace plimsoll::planner {

// How a model is to be loaded.
struct LoadOptions {
  static constexpr int64_t kMaxSlots = 4'096;
  static constexpr int64_t kMaxUbatch = 65'536;
  static constexpr int64_t kMaxIdleSessions = 65'536;

  // Tokens of context per slot; absent = the largest that fits.
  std::optional<int64_t> n_ctx;
  // Upper limit on context, KV and every length-dependent buffer.
  std::optional<int64_t> max_inference_len;
  int64_t n_slots = 1;
  int64_t n_ubatch = 512;
  int64_t n_idle_sessions = 0;  // sequences that keep rings between calls
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  int64_t margin_bytes = 0;
};

struct Region {
  absl::string_view name;  // one of DESIGN's: "weights", "kv_full", ...
  int64_t offset;          // in the arena; -1 for what lies outside it
  int64_t bytes;
  int64_t alignment;
  Basis basis;
  std::string formula;  // how `bytes` came about, for people
};

// Where a weight tensor lies in the region `weights`.
struct WeightPlacement {
  int64_t offset;  // from the start of the region
  int64_t bytes;   // in the device's storage rule, row padding included
};

// What bounds n_ctx.
enum class ContextLimit {
  kRequested,        // the request asked for exactly this
  kMaxInferenceLen,  // cut to max_inference_len
  kTrainedContext,   // cut to (or solved up to) what the model was trained for
  kMemory,           // the largest that fits the budget
};
const char* ContextLimitName(ContextLimit limit);

// A change that makes a plan fit, verified by planning again with it.
struct Suggestion {
  std::string text;  // "--kv-type q8_0", in the command line's words
  int64_t saves_bytes;
};

struct MemoryPlan {
  LoadOptions options;  // as asked, counts clamped
  int64_t n_ctx;        // resolved; 0 if not even the smallest context fits
  int64_t n_rows;       // rows of a step: min(n_ubatch, n_ctx rounded to pages)
  int64_t n_sampled;    // rows of logits
  ContextLimit context_limit;
  std::string n_ctx_reason;  // one sentence with numbers
  bool fits;
  int64_t budget_bytes;
  int64_t arena_bytes;  // one allocation: all regions with offset >= 0
  int64_t total_bytes;  // arena after the allocator's rounding + vocab +
                        // runtime + margin
  // In the arena's order, then those outside. Their bytes sum to total_bytes:
  // `margin` includes what the allocator's rounding adds to the arena.
  std::vector<Region> regions;
  KvBytes kv;
  WorkspacePlan workspace;
  std::vector<WeightPlacement> weights;  // by index in ModelShape::weights
  // If !fits: bytes missing, and what would help, cheapest loss first.
  int64_t missing_bytes;
  std::vector<Suggestion> suggestions;

  const Region* FindRegion(absl::string_view name) const;
};

// Computes the plan. n_ctx = min(requested or solved, max_inference_len if
// given, trained context) at this one place; a solved n_ctx is the largest
// multiple of a page whose plan fits, so one page more does not fit. A plan
// that does not fit is still an OK result with `fits` false, its bytes and
// suggestions.
//
// Pure. More context, slots or bytes per element never costs less.
// Errors: kInvalidArgument naming the field for options or profile that make no
// sense; kUnimplemented naming an element type the device cannot run;
// kOutOfRange on overflow.
absl::StatusOr<MemoryPlan> Layout(const ModelShape& shape,
                                  const LoadOptions& options,
                                  const DeviceProfile& profile,
                                  int64_t budget_bytes);

// What a plan comes to in numbers; see MemoryPlan. It fits if total_bytes is
// not above the budget.
struct PlanNumbers {
  int64_t n_ctx;
  int64_t arena_bytes;
  int64_t total_bytes;
  KvBytes kv;
};

struct PlanInputs;  // plan_regions.h

// The numbers of Layout's plan alone, for inputs that Layout would accept.
// Errors: kOutOfRange on overflow; kInvalidArgument for a KV type that does not
// suit the model.
absl::StatusOr<PlanNumbers> LayoutNumbers(const PlanInputs& inputs,
                                          int64_t budget_bytes);

// Host bytes that the tokenizer's tables take, from the header's counts alone.
// An upper bound that the tokenizers' tests hold them to (ESTIMATED).
int64_t VocabBytes(const VocabShape& vocab);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_MEMORY_PLAN_H_
