// The memory plan: an ordered list of regions that sum exactly, computed by the
// one code path that planner, worker and command line share.
#ifndef PLIMSOLL_PLANNER_LAYOUT_MEMORY_PLAN_H_
#define PLIMSOLL_PLANNER_LAYOUT_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/kv_cache_bytes.h"
#include "planner/layout/reserve.h"
#include "planner/layout/workspace_layout.h"
#include "planner/model/model_shape.h"

namespace plimsoll::planner {

// How an engine's allocator rounds, where that is not the device's own rule.
struct AllocationChoice {
  AllocationRule rule = AllocationRule::kExact;
  int64_t granularity_bytes = 0;  // for kGranularity
};

// Weights that stay in host memory although the device is another.
struct HostWeights {
  bool experts = false;
  bool per_layer_embeddings = false;
};

// A multimodal projector in the same process.
struct ProjectorBytes {
  int64_t weights = 0;    // as in its file
  int64_t workspace = 0;  // of one image or sound; an estimate
};

// How a model is to be loaded.
struct LoadOptions {
  static constexpr int64_t kMaxSlots = 4'096;
  static constexpr int64_t kMaxUbatch = 65'536;
  static constexpr int64_t kMaxIdleSessions = 65'536;
  static constexpr int64_t kMaxDraftTokens = 15;
  static constexpr int64_t kMaxParked = 4'096;

  // Tokens of context per slot; absent = the largest that fits.
  std::optional<int64_t> n_ctx;
  // Upper limit on context, KV and every length-dependent buffer.
  std::optional<int64_t> max_inference_len;
  int64_t n_slots = 1;
  // Tokens of the KV cache's pages, of all slots together; absent = n_ctx for
  // each. At least one slot's n_ctx, at most all slots', is taken.
  std::optional<int64_t> kv_tokens;
  int64_t n_ubatch = 512;
  int64_t n_idle_sessions = 0;  // sequences that keep rings between calls
  int64_t n_draft = 0;  // tokens that a slot may guess and verify in one step
  // Contexts that may wait in host memory while others use their slots.
  int64_t n_parked = 0;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  int64_t margin_bytes = 0;

  // What follows plans for engines other than this one's worker, which refuses
  // it, and for hosts with a device of its own memory.
  ReservePolicy policy = ReservePolicy::kExact;
  RingRule ring = RingRule::kExact;
  int64_t ring_tokens = 0;  // for kWindowPlusTokens
  bool flash_attention = true;
  std::optional<AllocationChoice> allocation;  // absent = the device's rule
  std::optional<int64_t> weight_bytes;         // absent = from the tensors
  std::optional<DType> weight_type;  // of every matrix; absent = as in the file
  HostWeights host_weights;
  bool mmap_weights = false;  // read from the mapped file, never packed
  std::optional<int64_t> host_budget_bytes;  // absent = not checked
  std::optional<ProjectorBytes> projector;
};

struct Region {
  absl::string_view name;  // one of DESIGN's: "weights", "kv_full", ...
  int64_t offset;          // in the arena; -1 for what lies outside it
  int64_t bytes;
  int64_t alignment;
  Basis basis;
  std::string formula;   // how `bytes` came about, for people
  bool on_host = false;  // in host memory, and the device is not the host
};

// Where a weight tensor lies in the region `weights`.
struct WeightPlacement {
  int64_t offset;  // from the start of the region; -1 = in host memory
  int64_t bytes;   // in the device's storage rule, row padding included
};

// What bounds n_ctx.
enum class ContextLimit {
  kRequested,        // the request asked for exactly this
  kMaxInferenceLen,  // cut to max_inference_len
  kTrainedContext,   // cut to (or solved up to) what the model was trained for
  kMemory,           // the largest that fits the budget
};

// A change that makes a plan fit, or its context longer, verified by planning
// again with it.
struct Suggestion {
  std::string text;  // "--kv-type q8_0", in the command line's words
  int64_t saves_bytes;
  int64_t n_ctx;  // that it gives
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
  int64_t arena_bytes;    // one allocation: all regions with offset >= 0
  int64_t total_bytes;    // arena after the allocator's rounding + vocab +
                          // runtime + margin
  int64_t host_bytes;     // of regions in host memory, not in total_bytes
  int64_t reserve_bytes;  // of a reserve-first policy; 0 for kExact
  // In the arena's order, then those outside. The bytes of those on the device
  // sum to total_bytes: `margin` includes what the allocator's rounding adds.
  std::vector<Region> regions;
  KvBytes kv;
  WorkspacePlan workspace;
  std::vector<WeightPlacement> weights;  // by index in ModelShape::weights
  // Why the device's backend cannot run this yet, one sentence each. The bytes
  // are right all the same.
  std::vector<std::string> not_runnable;
  // What keeps the context from growing, or the plan from fitting, in words;
  // empty if memory does not.
  std::string binding_term;
  // What one more token of context in every slot, averaged over a page, and
  // one more slot would cost before the allocator rounds.
  int64_t bytes_per_token;
  int64_t bytes_per_slot;
  int64_t missing_bytes;  // 0 if it fits
  // What would make it fit, or its context longer; the cheapest loss first.
  std::vector<Suggestion> suggestions;

  const Region* FindRegion(absl::string_view name) const;
};

// Computes the plan. n_ctx = min(requested or solved, max_inference_len if
// given, trained context) at this one place; a solved n_ctx is the largest
// multiple of a page (of a token, for reserve-first policies) whose plan fits,
// so one more does not fit. A plan
// that does not fit is still an OK result with `fits` false, its bytes and
// suggestions.
//
// Pure. More context, slots or bytes per element never costs less.
// Errors: kInvalidArgument naming the field for options or profile that make no
// sense; kOutOfRange on overflow.
absl::StatusOr<MemoryPlan> Layout(const ModelShape& shape,
                                  const LoadOptions& options,
                                  const DeviceProfile& profile,
                                  int64_t budget_bytes);

// What a plan comes to in numbers; see MemoryPlan.
struct PlanNumbers {
  int64_t n_ctx;
  bool fits;
  int64_t arena_bytes;
  int64_t total_bytes;
  int64_t missing_bytes;
  KvBytes kv;
};

class PlanInputs;  // plan_regions.h

// The numbers of Layout's plan alone, for searches among many plans.
// Errors: kOutOfRange on overflow.
absl::StatusOr<PlanNumbers> LayoutNumbers(const PlanInputs& inputs);
// Errors: those of Layout.
absl::StatusOr<PlanNumbers> LayoutNumbers(const ModelShape& shape,
                                          const LoadOptions& options,
                                          const DeviceProfile& profile,
                                          int64_t budget_bytes);

// Host bytes that the tokenizer's tables take, from the header's counts alone.
// An upper bound that the tokenizers' tests hold them to (ESTIMATED).
int64_t VocabBytes(const VocabShape& vocab);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_MEMORY_PLAN_H_
