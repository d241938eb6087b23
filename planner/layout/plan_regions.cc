#include "planner/layout/plan_regions.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "planner/layout/cpu_experts.h"
#include "planner/layout/idle_sessions.h"

namespace plimsoll::planner {
namespace {

constexpr int64_t kRowMultiple = 16;

// Rows of a step whose logits are kept: of each slot's newest token and of the
// guesses after it.
int64_t SampledRows(const LoadOptions& options, const DeviceProfile& profile) {
  return std::max(options.n_slots * (1 + options.n_draft),
                  profile.workspace.min_logits_rows);
}

absl::Status CheckKvType(absl::string_view name, DType type) {
  constexpr std::array<DType, 9> kTypes = {
      DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ5_1,
      DType::kQ5_0, DType::kQ4_1, DType::kQ4_0, DType::kIq4Nl};
  if (std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", DTypeName(type), ", not one of ",
      absl::StrJoin(kTypes, ", ", [](std::string* out, DType known) {
        absl::StrAppend(out, DTypeName(known));
      })));
}

}  // namespace

KvRules KvRulesOf(const PlanOptions& options) {
  KvRules rules = {.ring = options.engine.ring,
                   .ring_tokens = options.engine.ring_tokens,
                   .pool_tokens = options.kv_tokens.value_or(0),
                   .has_pages = options.engine.policy == ReservePolicy::kExact,
                   .n_draft = options.n_draft,
                   .has_flash_attention = options.engine.flash_attention};
  if (options.engine.ring == RingRule::kWindowPlusUbatch) {
    rules.ring_tokens = options.n_ubatch;
  }
  // An engine that reserves first allocates every buffer by itself.
  if (options.engine.policy != ReservePolicy::kExact &&
      options.engine.allocation) {
    rules.allocation = options.engine.allocation->rule;
    rules.granularity_bytes = options.engine.allocation->granularity_bytes;
  }
  return rules;
}

// Adds up the regions of one context, in the arena's order, then those outside.
class RegionSizer {
 public:
  RegionSizer(const PlanInputs& inputs, int64_t n_ctx, bool with_regions)
      : inputs_(inputs), with_regions_(with_regions) {
    sizes_.n_ctx = n_ctx;
  }

  absl::StatusOr<RegionSizes> Run() {
    const PlanOptions& options = inputs_.options();
    ASSIGN_OR_RETURN(sizes_.kv, inputs_.kv_.Bytes(sizes_.n_ctx, options.n_slots,
                                                  inputs_.n_idle_sessions_));
    if (inputs_.mtp_) {
      ASSIGN_OR_RETURN(sizes_.mtp_kv,
                       inputs_.mtp_->kv.Bytes(sizes_.n_ctx, options.n_slots,
                                              inputs_.n_idle_sessions_));
    }
    if (options.engine.policy == ReservePolicy::kExact) {
      RETURN_IF_ERROR(AddExact());
    } else {
      AddReserved();
    }
    ASSIGN_OR_RETURN(sizes_.total_bytes, PlanBytes(total_));
    ASSIGN_OR_RETURN(sizes_.host_bytes, PlanBytes(host_));
    sizes_.mapped_bytes = inputs_.mapped_bytes_;
    ASSIGN_OR_RETURN(sizes_.rounding_bytes, PlanBytes(rounding_));
    return std::move(sizes_);
  }

 private:
  // A region's bytes are whole multiples of the alignment, so that the sum of
  // the regions is the arena.
  void AddToArena(absl::string_view name, Checked bytes) {
    const int64_t alignment = inputs_.profile().alignment;
    const Checked rounded = AlignUp(bytes, alignment);
    if (with_regions_) {
      sizes_.regions.push_back({name, arena_.Get().value_or(0),
                                rounded.Get().value_or(0), alignment,
                                Basis::kDerived, std::string()});
    }
    arena_ += rounded;
  }
  void AddOutside(absl::string_view name, Checked bytes, Basis basis) {
    total_ += bytes;
    AppendOutside(name, bytes, basis, /*on_host=*/false);
  }
  // Host memory; where the device is the host it is the device's.
  void AddHost(absl::string_view name, Checked bytes, Basis basis) {
    const bool is_apart = inputs_.profile().kind != "cpu";
    (is_apart ? host_ : total_) += bytes;
    AppendOutside(name, bytes, basis, is_apart);
  }
  void AppendOutside(absl::string_view name, Checked bytes, Basis basis,
                     bool on_host) {
    if (!with_regions_) return;
    sizes_.regions.push_back(
        {name, -1, bytes.Get().value_or(0), 1, basis, std::string(), on_host});
  }

  // The layout itself is kept only where regions are wanted.
  absl::StatusOr<int64_t> SizeWorkspace() {
    const bool has_rings = sizes_.kv.ring_bytes > 0;
    if (sizes_.n_rows == inputs_.options().n_ubatch &&
        has_rings == inputs_.widths_.has_windows) {
      if (with_regions_) sizes_.workspace = inputs_.workspace_;
      return inputs_.workspace_.bytes;
    }
    ASSIGN_OR_RETURN(sizes_.workspace,
                     WorkspaceLayout(inputs_.shape(), inputs_.widths_,
                                     {.n_rows = sizes_.n_rows,
                                      .n_sampled = sizes_.n_sampled,
                                      .has_rings = has_rings},
                                     inputs_.profile()));
    return sizes_.workspace.bytes;
  }

  absl::Status AddExact() {
    const PlanOptions& options = inputs_.options();
    const DeviceProfile& profile = inputs_.profile();
    sizes_.n_rows = std::min(
        options.n_ubatch,
        CheckedRoundUp(sizes_.n_ctx, kRowMultiple).value_or(options.n_ubatch));
    sizes_.n_sampled = SampledRows(options, profile);
    ASSIGN_OR_RETURN(const int64_t workspace_bytes, SizeWorkspace());
    const Checked sampled = sizes_.n_sampled;
    const Checked n_slots = options.n_slots;
    AddToArena("weights", inputs_.weight_bytes_);
    AddToArena("kv_full", sizes_.kv.full_bytes);
    AddToArena("kv_window", sizes_.kv.window_bytes);
    AddToArena("kv_draft",
               n_slots * options.n_draft * sizes_.kv.ring_row_bytes);
    AddStates();
    AddMtp();
    const Checked parked = Checked(options.n_parked) * sizes_.SlotBytes();
    const bool parks_in_arena = options.n_parked > 0 && profile.kind == "cpu";
    if (parks_in_arena) AddToArena("kv_parked", parked);
    AddToArena("workspace", workspace_bytes);
    // If a model is cut into parts, the last part has the logits.
    const bool has_logits = inputs_.shape().has_last_layer;
    AddToArena("logits",
               has_logits ? sampled * inputs_.shape().vocab_size * kFloatBytes
                          : Checked(0));
    sizes_.arena_bytes = arena_.Get().value_or(0);
    total_ += arena_;
    const AllocationChoice allocation = options.engine.allocation.value_or(
        AllocationChoice{profile.allocation, profile.granularity_bytes});
    const Checked allocated =
        RoundedUp(allocation.rule, allocation.granularity_bytes, arena_);
    rounding_ = allocated + -sizes_.arena_bytes;
    AddTables();
    AddHost("candidates",
            has_logits
                ? sampled * profile.workspace.max_candidates * kCandidateBytes
                : Checked(0),
            Basis::kDerived);
    AddHost("vocab", inputs_.vocab_bytes_, Basis::kEstimated);
    if (inputs_.weights_.host > 0) {
      AddHost("weights_host", inputs_.weights_.host, Basis::kDerived);
    }
    RETURN_IF_ERROR(AddCpuExperts());
    if (options.n_parked > 0 && !parks_in_arena) {
      AddHost("kv_parked", parked, Basis::kDerived);
    }
    if (options.mmap_weights || inputs_.mapped_bytes_ > 0) AddMapped();
    AddOutside("runtime", profile.runtime_bytes, profile.runtime_basis);
    if (profile.message_bytes > 0) {
      AddHost("messages", profile.message_bytes, Basis::kDerived);
    }
    AddProjector();
    AddOutside("margin", rounding_ + options.margin_bytes, Basis::kDerived);
    return absl::OkStatus();
  }

  // Most models keep no state.
  void AddStates() {
    if (sizes_.kv.state_bytes > 0) {
      AddToArena("state", sizes_.kv.all_state_bytes);
    }
  }

  // Most models have no MTP head.
  void AddMtp() {
    if (!inputs_.mtp_) return;
    const Checked rows =
        Checked(sizes_.n_rows) * inputs_.shape().model_dim * kFloatBytes;
    AddToArena("mtp", AlignUp(inputs_.mtp_->weight_bytes,
                              inputs_.profile().alignment) +
                          rows);
    AddToArena("kv_mtp", sizes_.mtp_kv.full_bytes);
  }

  // One allocation of the CPU's, which rounds it up.
  absl::Status AddCpuExperts() {
    if (inputs_.weights_.cpu_experts == 0) return absl::OkStatus();
    const DeviceProfile& host = HostProfile();
    ASSIGN_OR_RETURN(
        const WorkspacePlan workspace,
        ExpertWorkspaceLayout(inputs_.shape(), sizes_.n_rows, host));
    ASSIGN_OR_RETURN(
        const int64_t experts,
        PlanBytes(AlignUp(inputs_.weights_.cpu_experts, host.alignment)));
    const Checked allocated = RoundedUp(host.allocation, host.granularity_bytes,
                                        Checked(experts) + workspace.bytes);
    AddHost("experts_host", experts, Basis::kDerived);
    AddHost("experts_workspace", allocated + -experts, Basis::kDerived);
    if (with_regions_) sizes_.cpu_workspace = workspace;
    return absl::OkStatus();
  }

  // Nobody reserves these bytes: they are the page cache's.
  void AddMapped() {
    AppendOutside("weights_mmap", inputs_.mapped_bytes_, Basis::kDerived,
                  /*on_host=*/inputs_.profile().kind != "cpu");
    if (with_regions_) sizes_.regions.back().is_mapped = true;
  }

  // A model's parts have one table for each slot, and the first one counts it.
  void AddTables() {
    const PlanOptions& options = inputs_.options();
    const Checked bytes =
        (Checked(options.n_slots) * (kPageEntryBytes + kPageStateBytes) +
         Checked(options.n_parked) * kPageEntryBytes) *
        sizes_.kv.pages_per_slot;
    AddHost("tables", inputs_.shape().has_first_layer ? bytes : Checked(0),
            Basis::kDerived);
  }

  void AddProjector() {
    const auto& projector = inputs_.options().engine.projector;
    if (!projector) return;
    AddOutside("projector", projector->weights, Basis::kDerived);
    AddOutside("projector_workspace", projector->workspace, Basis::kEstimated);
  }

  // Nothing is laid out: there is no arena.
  void AddReserved() {
    AddOutside("weights", inputs_.weight_bytes_, Basis::kDerived);
    AddOutside("kv_full", sizes_.kv.full_bytes, Basis::kDerived);
    AddOutside("kv_window", sizes_.kv.window_bytes, Basis::kDerived);
    if (sizes_.kv.state_bytes > 0) {
      AddOutside("state", sizes_.kv.all_state_bytes, Basis::kDerived);
    }
    AddOutside("scratch", inputs_.scratch_bytes_, Basis::kEstimated);
    AddOutside("reserve", inputs_.reserve_bytes_, Basis::kEstimated);
    AddProjector();
    if (inputs_.weights_.host > 0) {
      AddHost("weights_host", inputs_.weights_.host, Basis::kDerived);
    }
  }

  const PlanInputs& inputs_;
  bool with_regions_;
  Checked arena_ = 0;
  Checked total_ = 0;
  Checked host_ = 0;
  Checked rounding_ = 0;
  RegionSizes sizes_ = {};
};

absl::Status ValidateOptions(const PlanOptions& options) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const AllocationChoice allocation = options.engine.allocation.value_or(
      AllocationChoice{AllocationRule::kExact, 0});
  const bool has_granularity = allocation.rule == AllocationRule::kGranularity;
  const ProjectorBytes projector =
      options.engine.projector.value_or(ProjectorBytes());
  struct Field {
    absl::string_view name;
    int64_t value;
    int64_t min;
    int64_t max;
  };
  for (const Field& field :
       {Field{"n_ctx", options.n_ctx.value_or(1), 1, kAny},
        Field{"max_inference_len", options.max_inference_len.value_or(1), 1,
              kAny},
        Field{"n_slots", options.n_slots, 1, LoadOptions::kMaxSlots},
        Field{"kv_tokens", options.kv_tokens.value_or(1), 1, kAny},
        Field{"n_ubatch", options.n_ubatch, 1, LoadOptions::kMaxUbatch},
        Field{"n_idle_sessions", options.n_idle_sessions, 0,
              LoadOptions::kMaxIdleSessions},
        Field{"idle_session_bytes", options.idle_session_bytes.value_or(0), 0,
              kAny},
        Field{"n_draft", options.n_draft, 0, LoadOptions::kMaxDraftTokens},
        Field{"n_parked", options.n_parked, 0, LoadOptions::kMaxParked},
        Field{"n_cpu_experts", options.n_cpu_experts.value_or(0), 0,
              LoadOptions::kMaxCpuExperts},
        Field{"margin_bytes", options.margin_bytes, 0, kAny},
        Field{"ring_tokens", options.engine.ring_tokens, 0,
              ModelShape::kMaxContext},
        Field{"weight_bytes", options.engine.weight_bytes.value_or(1), 1, kAny},
        Field{"projector.weights", projector.weights, 0, kAny},
        Field{"projector.workspace", projector.workspace, 0, kAny},
        Field{"host_budget_bytes", options.host_budget_bytes.value_or(0), 0,
              kAny},
        Field{"granularity_bytes",
              has_granularity ? allocation.granularity_bytes : 1, 1, kAny}}) {
    if (field.value >= field.min && field.value <= field.max) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, " is ", field.value, ", not ", field.min,
                     " to ", field.max));
  }
  RETURN_IF_ERROR(CheckKvType("k_type", options.k_type));
  return CheckKvType("v_type", options.v_type);
}

absl::StatusOr<PlanInputs> PlanInputs::Create(const PlanRequest& request,
                                              const WeightBytes& weights) {
  const auto& [shape, options, profile, budget_bytes] = request;
  PlanInputs inputs;
  inputs.shape_ = &shape;
  inputs.options_ = &options;
  inputs.profile_ = &profile;
  inputs.budget_bytes_ = budget_bytes;
  inputs.weights_ = weights;
  inputs.vocab_bytes_ = VocabBytes(shape.vocab);
  ASSIGN_OR_RETURN(inputs.n_idle_sessions_, DecideIdleSessions(shape, options));
  ASSIGN_OR_RETURN(inputs.kv_,
                   KvModel::Create(shape, options.k_type, options.v_type,
                                   KvRulesOf(options)));
  if (options.draft_source == DraftSource::kMtp) {
    ASSIGN_OR_RETURN(inputs.mtp_,
                     LayoutMtp(shape, options, profile, KvRulesOf(options)));
  }
  const bool is_exact = options.engine.policy == ReservePolicy::kExact;
  inputs.weight_bytes_ = options.engine.weight_bytes.value_or(
      is_exact ? weights.device : weights.file);
  if (is_exact && options.mmap_weights) {
    // A given weight_bytes counts the bytes that stay in the file.
    inputs.weight_bytes_ = options.engine.weight_bytes ? 0 : weights.device;
    inputs.mapped_bytes_ = options.engine.weight_bytes.value_or(weights.mapped);
  } else if (is_exact && !options.engine.weight_bytes) {
    inputs.mapped_bytes_ = weights.mapped;
  }
  if (is_exact) {
    ASSIGN_OR_RETURN(inputs.widths_,
                     WidthsOf(shape, options.k_type, options.v_type));
    if (inputs.mtp_) inputs.widths_.WidenBy(inputs.mtp_->widths);
    ASSIGN_OR_RETURN(
        inputs.workspace_,
        WorkspaceLayout(shape, inputs.widths_,
                        {.n_rows = options.n_ubatch,
                         .n_sampled = SampledRows(options, profile),
                         .has_rings = inputs.widths_.has_windows},
                        profile));
    return inputs;
  }
  ASSIGN_OR_RETURN(inputs.scratch_bytes_, TokenScratchBytes(shape));
  inputs.reserve_bytes_ = DenseReserve(budget_bytes);
  if (options.engine.policy == ReservePolicy::kWindowed) {
    ASSIGN_OR_RETURN(inputs.reserve_bytes_,
                     WindowedReserve(shape, budget_bytes));
  }
  return inputs;
}

absl::StatusOr<PlanInputs> PlanInputs::With(const PlanOptions& options) const {
  WeightBytes weights = weights_;
  const WeightHomes homes = HomesOf(*shape_, options);
  if (options.engine.weight_type &&
      options.engine.weight_type != options_->engine.weight_type) {
    ASSIGN_OR_RETURN(weights, WeightBytesAs(*shape_, *profile_, homes,
                                            *options.engine.weight_type));
  } else if (homes != HomesOf(*shape_, *options_)) {
    ASSIGN_OR_RETURN(const WeightLayout layout,
                     LayoutWeights(*shape_, *profile_, homes));
    weights = layout.bytes;
  }
  return Create({*shape_, options, *profile_, budget_bytes_}, weights);
}

ContextStep PlanInputs::context_step() const {
  return options_->engine.policy == ReservePolicy::kExact ? ContextStep::kPage
                                                          : ContextStep::kToken;
}

absl::StatusOr<RegionSizes> SizeRegions(const PlanInputs& inputs,
                                        int64_t n_ctx) {
  return RegionSizer(inputs, n_ctx, /*with_regions=*/true).Run();
}

absl::StatusOr<RegionSizes> SizeTotals(const PlanInputs& inputs,
                                       int64_t n_ctx) {
  return RegionSizer(inputs, n_ctx, /*with_regions=*/false).Run();
}

}  // namespace plimsoll::planner
