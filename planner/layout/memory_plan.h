// The memory plan: an ordered list of regions whose bytes sum exactly. Planner,
// worker and command line compute it by the same code.
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

// How an engine's allocator rounds, if it does not use the device's own rule.
struct AllocationChoice {
  AllocationRule rule = AllocationRule::kExact;
  int64_t granularity_bytes = 0;  // for kGranularity

  friend bool operator==(const AllocationChoice&,
                         const AllocationChoice&) = default;
};

// Weights that another engine keeps in host memory although the model runs on a
// device.
struct HostWeights {
  bool experts = false;
  bool per_layer_embeddings = false;

  friend bool operator==(const HostWeights&, const HostWeights&) = default;
};

// A multimodal projector in the same process.
struct ProjectorBytes {
  int64_t weights = 0;    // bytes in its file
  int64_t workspace = 0;  // for one image or sound; an estimate

  friend bool operator==(const ProjectorBytes&,
                         const ProjectorBytes&) = default;
};

// How the planned engine lays out memory. The defaults are Plimsoll's own.
struct EngineRules {
  ReservePolicy policy = ReservePolicy::kExact;
  RingRule ring = RingRule::kExact;
  int64_t ring_tokens = 0;  // for kWindowPlusTokens
  bool flash_attention = true;
  std::optional<AllocationChoice> allocation;  // absent = the device's rule
  std::optional<int64_t> weight_bytes;         // absent = from the tensors
  // Type of every matrix; absent = the file's.
  std::optional<DType> weight_type;
  HostWeights host_weights;
  std::optional<ProjectorBytes> projector;

  friend bool operator==(const EngineRules&, const EngineRules&) = default;
};

// What guesses the next tokens of a stream.
enum class DraftSource {
  kLookup,  // the text so far
  kMtp,     // the model's MTP head, which is loaded only then
};

// The options with which a worker loads a model.
struct LoadOptions {
  static constexpr int64_t kMaxSlots = 4'096;
  static constexpr int64_t kMaxUbatch = 65'536;
  static constexpr int64_t kMaxIdleSessions = 65'536;
  static constexpr int64_t kMaxDraftTokens = 15;
  // What programs take for n_draft if an MTP head is to guess and nobody says
  // how many tokens: the number that such a head is trained for.
  static constexpr int64_t kMtpDraftTokens = 1;
  static constexpr int64_t kMaxParked = 4'096;
  static constexpr int64_t kMaxCpuExperts = ModelShape::kMaxLayers;

  // Tokens of context per slot; absent = the largest that fits.
  std::optional<int64_t> n_ctx;
  // Upper limit of the context, the KV cache and every buffer whose size
  // depends on the length.
  std::optional<int64_t> max_inference_len;
  int64_t n_slots = 1;
  // Tokens in the KV cache's pages, for all slots together; absent = n_ctx for
  // each slot. Smaller and larger values are clamped to one slot's n_ctx and to
  // all slots' n_ctx.
  std::optional<int64_t> kv_tokens;
  int64_t n_ubatch = 512;
  // Places for what idle sessions and snapshots of prompts keep: the rings and
  // states of one slot.
  int64_t n_idle_sessions = 0;
  // Bytes of these places. If given, DecideIdleSessions finds n_idle_sessions,
  // which must be 0.
  std::optional<int64_t> idle_session_bytes;
  int64_t n_draft = 0;  // guessed and verified in one step, per slot
  DraftSource draft_source = DraftSource::kLookup;
  // Contexts that may wait in host memory while other contexts use their slots.
  int64_t n_parked = 0;
  // The experts of the first n_cpu_experts layers with experts lie in host
  // memory, where the CPU computes them. A number larger than that of such
  // layers means all of them. Absent = DecideCpuExperts chooses. Only on
  // devices with memory of their own.
  std::optional<int64_t> n_cpu_experts = 0;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  int64_t margin_bytes = 0;
  // Matrices stay in the mapped file and are never packed.
  bool mmap_weights = false;
  // Tables that are used for nothing but gathering rows (IsTable) stay in the
  // mapped file, even if the device is the host.
  bool host_tables = false;
  // Bytes of host memory, if the device has its own; absent = not checked.
  std::optional<int64_t> host_budget_bytes;

  // True if weights are read from the mapped file.
  bool MapsFile() const { return mmap_weights || host_tables; }
};

// The options of a plan, which may be for another engine. PlanOptions{load}
// plans a load.
struct PlanOptions : LoadOptions {
  EngineRules engine = {};
};

// What a load takes of the options.
// Errors: kInvalidArgument if the plan is for another engine.
absl::StatusOr<LoadOptions> LoadOptionsOf(const PlanOptions& options);

// A candidate of a sampled row on the host: a logit and the id of its token.
// The worker's RowSampler asserts that its candidates have this size.
inline constexpr int64_t kCandidateBytes = 8;

struct Region {
  absl::string_view name;  // "weights", "kv_full", ...: see docs/planner.md
  int64_t offset;          // in the arena; -1 outside of it
  int64_t bytes;
  int64_t alignment;
  Basis basis;
  std::string formula;   // how `bytes` came about, to show
  bool on_host = false;  // in host memory; the device is not the host
  // Pages of a mapped file: the system may drop them and read them again.
  bool is_mapped = false;
};

// The place of a weight tensor in the region `weights`.
struct WeightPlacement {
  int64_t offset;  // in the region; -1 = in host memory, or in the mapped file
  int64_t bytes;   // bytes on the device, with row padding
};

// What limits n_ctx.
enum class ContextLimit {
  kRequested,        // the request asked for exactly this
  kMaxInferenceLen,  // cut to max_inference_len
  kTrainedContext,   // cut to, or solved up to, the trained context
  kMemory,           // the largest that fits the budget
};

// Changes to PlanOptions, which are made together. An absent field changes
// nothing.
struct Change {
  HostWeights host_weights = {};  // kinds that move to host memory as well
  bool host_tables = false;       // tables move there as well
  std::optional<int64_t> n_ubatch = std::nullopt;
  std::optional<DType> kv_type = std::nullopt;  // type of keys and of values
  std::optional<int64_t> n_parked = std::nullopt;
  std::optional<int64_t> n_slots = std::nullopt;
  std::optional<int64_t> n_cpu_experts = std::nullopt;
  std::optional<int64_t> n_ctx = std::nullopt;
  std::optional<int64_t> max_inference_len = std::nullopt;
  std::optional<DType> weight_type = std::nullopt;  // type of every matrix

  // True if nothing is changed.
  bool empty() const { return *this == Change{}; }
  friend bool operator==(const Change&, const Change&) = default;
};

// The options with the change.
PlanOptions Changed(PlanOptions options, const Change& change);

// A change that makes a plan fit, or its context longer. It was verified by
// planning again with it.
struct Suggestion {
  Change change;
  int64_t saves_bytes;
  int64_t n_ctx;  // the n_ctx that it gives
};

// The numbers of a plan that a search among many plans reads.
struct PlanNumbers {
  int64_t n_ctx;  // decided; 0 if even the smallest does not fit
  ContextLimit context_limit;
  bool fits;
  int64_t arena_bytes;    // one allocation: all regions with offset >= 0
  int64_t total_bytes;    // on the device: the arena as allocated, and the
                          // regions outside of it that are not mapped
  int64_t missing_bytes;  // 0 if it fits
  KvBytes kv;
  KvBytes mtp_kv;  // KV cache of the MTP head's layer; zeros without the head
};

struct MemoryPlan : PlanNumbers {
  // The requested options, with counts clamped, and with n_cpu_experts and
  // n_idle_sessions decided in place of idle_session_bytes.
  PlanOptions options;
  int64_t n_rows;     // rows of a step: min(n_ubatch, n_ctx rounded to pages)
  int64_t n_sampled;  // rows whose logits are kept
  std::string n_ctx_reason;  // one sentence with numbers
  // Why options.n_cpu_experts is that number, in one sentence. It is empty if
  // no experts were to lie in host memory.
  std::string cpu_experts_reason;
  int64_t budget_bytes;
  int64_t host_bytes;     // regions in host memory, not in total_bytes
  int64_t mapped_bytes;   // regions in a mapped file, in no other sum
  int64_t reserve_bytes;  // for reserve-first policies; else 0
  // The regions in the arena's order, then those outside of it. The bytes of
  // the regions on the device that are not mapped sum to total_bytes: `margin`
  // includes what the allocator's rounding adds.
  std::vector<Region> regions;
  WorkspacePlan workspace;
  std::vector<WeightPlacement> weights;  // by index in ModelShape::weights
  // The experts that the CPU computes have places in the region experts_host,
  // by index in ModelShape::weights, and buffers in experts_workspace. Without
  // such experts both are empty.
  std::vector<WeightPlacement> cpu_weights;
  WorkspacePlan cpu_workspace;
  // Places in the region mtp, by index in MtpHead::weights; empty if the head
  // is not loaded.
  std::vector<WeightPlacement> mtp_weights;
  // Why the device's backend cannot run this plan yet, one sentence each. The
  // bytes are right all the same.
  std::vector<std::string> not_runnable;
  // What keeps the context from growing or the plan from fitting, in words.
  // Empty if memory does not limit it.
  std::string binding_term;
  // The cost, before the allocator rounds, of one more token of context in
  // every slot (averaged over a page) and of one more slot.
  int64_t bytes_per_token;
  int64_t bytes_per_slot;
  // Changes that would make the plan fit or its context longer; the one that
  // loses least comes first.
  std::vector<Suggestion> suggestions;

  const Region* FindRegion(absl::string_view name) const;
  // Bytes of the places of all idle sessions, in the regions kv_window and
  // state.
  int64_t IdleSessionBytes() const {
    return options.n_idle_sessions * kv.PlaceBytes();
  }
  // True if the model's MTP head is loaded.
  bool HasMtp() const { return options.draft_source == DraftSource::kMtp; }
  // True if the CPU computes some of the model's experts.
  bool HasCpuExperts() const { return !cpu_weights.empty(); }
};

// Computes the plan. It alone decides n_ctx = min(requested or solved,
// max_inference_len if given, trained context). A solved n_ctx is the largest
// multiple of a page (of a token, for reserve-first policies) whose plan fits,
// so one more does not fit. If the device is the host, a solved n_ctx also
// leaves room for the pages of a mapped file; a requested one need not. A plan
// that does not fit is still an OK result, with `fits` false, its bytes and
// suggestions.
//
// Pure. More context, slots or bytes per element never costs less.
// Errors: kInvalidArgument naming the field for options or a profile that make
// no sense; kOutOfRange on overflow.
absl::StatusOr<MemoryPlan> Layout(const ModelShape& shape,
                                  const PlanOptions& options,
                                  const DeviceProfile& profile,
                                  int64_t budget_bytes);

class PlanInputs;  // plan_regions.h

// Computes only the numbers of Layout's plan, for searches among many plans.
// Errors: kOutOfRange on overflow.
absl::StatusOr<PlanNumbers> LayoutNumbers(const PlanInputs& inputs);
// Errors: those of Layout.
absl::StatusOr<PlanNumbers> LayoutNumbers(const ModelShape& shape,
                                          const PlanOptions& options,
                                          const DeviceProfile& profile,
                                          int64_t budget_bytes);

// Host bytes of the tokenizer's tables, from the header's counts alone. It is
// an upper bound (ESTIMATED); tests hold the tokenizers to it.
int64_t VocabBytes(const VocabShape& vocab);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_MEMORY_PLAN_H_
