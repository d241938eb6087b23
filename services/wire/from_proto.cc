#include "services/wire/from_proto.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/plan_regions.h"

namespace plimsoll::services {
namespace {

constexpr int kMaxStorageRules = 64;
constexpr size_t kMaxRuntimeNoteBytes = 256;

absl::StatusOr<planner::AllocationRule> FromProto(v1::AllocationRule rule) {
  switch (rule) {
    case v1::ALLOCATION_RULE_EXACT:
      return planner::AllocationRule::kExact;
    case v1::ALLOCATION_RULE_GRANULARITY:
      return planner::AllocationRule::kGranularity;
    case v1::ALLOCATION_RULE_POW2:
      return planner::AllocationRule::kPow2;
    default:
      return InvalidField("allocation", "is not a known rule");
  }
}

absl::StatusOr<planner::Basis> FromProto(v1::Basis basis,
                                         absl::string_view field) {
  switch (basis) {
    case v1::BASIS_DERIVED:
      return planner::Basis::kDerived;
    case v1::BASIS_MEASURED:
      return planner::Basis::kMeasured;
    case v1::BASIS_ESTIMATED:
      return planner::Basis::kEstimated;
    default:
      return InvalidField(field, "is not a known basis");
  }
}

absl::Status FillKvTypes(const v1::LoadOptions& message,
                         planner::LoadOptions& options) {
  if (message.k_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(options.k_type,
                     services::FromProto(message.k_type(), "k_type"));
  }
  if (message.v_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(options.v_type,
                     services::FromProto(message.v_type(), "v_type"));
  }
  return absl::OkStatus();
}

absl::StatusOr<planner::ReservePolicy> FromProto(v1::ReservePolicy policy) {
  switch (policy) {
    case v1::RESERVE_POLICY_UNSPECIFIED:
    case v1::RESERVE_POLICY_EXACT:
      return planner::ReservePolicy::kExact;
    case v1::RESERVE_POLICY_DENSE:
      return planner::ReservePolicy::kDense;
    case v1::RESERVE_POLICY_WINDOWED:
      return planner::ReservePolicy::kWindowed;
    default:
      return InvalidField("policy", "is not a known policy");
  }
}

absl::StatusOr<planner::RingRule> FromProto(v1::RingRule rule) {
  switch (rule) {
    case v1::RING_RULE_UNSPECIFIED:
    case v1::RING_RULE_EXACT:
      return planner::RingRule::kExact;
    case v1::RING_RULE_FULL:
      return planner::RingRule::kFull;
    case v1::RING_RULE_WINDOW_PLUS_UBATCH:
      return planner::RingRule::kWindowPlusUbatch;
    case v1::RING_RULE_WINDOW_PLUS_TOKENS:
      return planner::RingRule::kWindowPlusTokens;
    default:
      return InvalidField("ring", "is not a known rule");
  }
}

absl::Status FillCpuExperts(const v1::LoadOptions& message,
                            planner::LoadOptions& options) {
  if (message.has_n_cpu_experts() && message.auto_cpu_experts()) {
    return InvalidField("n_cpu_experts",
                        "is a number, and auto_cpu_experts is true");
  }
  if (message.has_n_cpu_experts()) {
    options.n_cpu_experts = message.n_cpu_experts();
  } else if (message.has_auto_cpu_experts()) {
    options.n_cpu_experts = message.auto_cpu_experts()
                                ? std::optional<int64_t>()
                                : std::optional<int64_t>(0);
  }
  return absl::OkStatus();
}

// The request's number or bytes take the place of both defaults.
absl::Status FillIdleSessions(const v1::LoadOptions& message,
                              planner::LoadOptions& options) {
  if (message.has_n_idle_sessions() && message.has_idle_session_bytes()) {
    return InvalidField("idle_session_bytes",
                        "is set beside n_idle_sessions; leave one of them out");
  }
  if (message.has_n_idle_sessions()) {
    options.n_idle_sessions = message.n_idle_sessions();
    options.idle_session_bytes.reset();
  }
  if (message.has_idle_session_bytes()) {
    options.n_idle_sessions = 0;
    ASSIGN_OR_RETURN(
        options.idle_session_bytes,
        Signed(message.idle_session_bytes(), "idle_session_bytes"));
  }
  return absl::OkStatus();
}

absl::Status FillDraftSource(const v1::LoadOptions& message,
                             planner::LoadOptions& options) {
  switch (message.draft_source()) {
    case v1::DRAFT_SOURCE_UNSPECIFIED:
      return absl::OkStatus();
    case v1::DRAFT_SOURCE_LOOKUP:
      options.draft_source = planner::DraftSource::kLookup;
      return absl::OkStatus();
    case v1::DRAFT_SOURCE_MTP:
      options.draft_source = planner::DraftSource::kMtp;
      return absl::OkStatus();
    default:
      break;
  }
  return InvalidField("draft_source", "is unknown");
}

// Sets the options that plan for other engines, and those that say what the
// host holds.
absl::Status FillOtherEngines(const v1::LoadOptions& message,
                              planner::PlanOptions& options) {
  ASSIGN_OR_RETURN(options.engine.policy, FromProto(message.policy()));
  ASSIGN_OR_RETURN(options.engine.ring, FromProto(message.ring()));
  options.engine.ring_tokens = message.ring_tokens();
  options.engine.flash_attention =
      !message.has_flash_attention() || message.flash_attention();
  if (message.allocation() != v1::ALLOCATION_RULE_UNSPECIFIED) {
    planner::AllocationChoice choice = {};
    ASSIGN_OR_RETURN(choice.rule, FromProto(message.allocation()));
    ASSIGN_OR_RETURN(choice.granularity_bytes,
                     Signed(message.granularity_bytes(), "granularity_bytes"));
    options.engine.allocation = choice;
  }
  if (message.has_weight_bytes()) {
    ASSIGN_OR_RETURN(options.engine.weight_bytes,
                     Signed(message.weight_bytes(), "weight_bytes"));
  }
  if (message.weight_type() != v1::ELEMENT_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(options.engine.weight_type,
                     services::FromProto(message.weight_type(), "weight_type"));
  }
  for (const int weights : message.host_weights()) {
    if (weights == v1::HOST_WEIGHTS_EXPERTS) {
      options.engine.host_weights.experts = true;
    } else if (weights == v1::HOST_WEIGHTS_PER_LAYER_EMBEDDINGS) {
      options.engine.host_weights.per_layer_embeddings = true;
    } else if (weights == v1::HOST_WEIGHTS_TABLES) {
      options.host_tables = true;
    } else {
      return InvalidField("host_weights", "has a kind that is not known");
    }
  }
  if (message.has_mmap_weights()) {
    options.mmap_weights = message.mmap_weights();
  }
  if (message.has_projector_weight_bytes() ||
      message.has_projector_workspace_bytes()) {
    planner::ProjectorBytes& projector = options.engine.projector.emplace();
    ASSIGN_OR_RETURN(projector.weights, Signed(message.projector_weight_bytes(),
                                               "projector_weight_bytes"));
    ASSIGN_OR_RETURN(projector.workspace,
                     Signed(message.projector_workspace_bytes(),
                            "projector_workspace_bytes"));
  }
  if (message.has_host_budget_bytes()) {
    ASSIGN_OR_RETURN(options.host_budget_bytes,
                     Signed(message.host_budget_bytes(), "host_budget_bytes"));
  }
  return planner::ValidateOptions(options);
}

// Sets the fields that `message` has.
absl::Status Fill(const v1::LoadOptions& message,
                  planner::PlanOptions& options) {
  if (message.has_n_ctx()) options.n_ctx = message.n_ctx();
  if (message.has_max_inference_len()) {
    options.max_inference_len = message.max_inference_len();
  }
  if (message.has_n_slots()) options.n_slots = message.n_slots();
  if (message.has_n_ubatch()) options.n_ubatch = message.n_ubatch();
  RETURN_IF_ERROR(FillIdleSessions(message, options));
  if (message.has_kv_tokens()) {
    ASSIGN_OR_RETURN(options.kv_tokens,
                     Signed(message.kv_tokens(), "kv_tokens"));
  }
  if (message.has_n_draft()) options.n_draft = message.n_draft();
  RETURN_IF_ERROR(FillDraftSource(message, options));
  if (message.has_n_parked()) options.n_parked = message.n_parked();
  RETURN_IF_ERROR(FillCpuExperts(message, options));
  if (message.has_margin_bytes()) {
    ASSIGN_OR_RETURN(options.margin_bytes,
                     Signed(message.margin_bytes(), "margin_bytes"));
  }
  if (options.n_ctx == 0) return InvalidField("n_ctx", "must be at least 1");
  if (options.max_inference_len == 0) {
    return InvalidField("max_inference_len", "must be at least 1");
  }
  if (options.n_slots < 1 ||
      options.n_slots > planner::LoadOptions::kMaxSlots) {
    return InvalidField(
        "n_slots",
        absl::StrCat("must be 1 to ", planner::LoadOptions::kMaxSlots));
  }
  if (options.n_ubatch < 1 ||
      options.n_ubatch > planner::LoadOptions::kMaxUbatch) {
    return InvalidField(
        "n_ubatch",
        absl::StrCat("must be 1 to ", planner::LoadOptions::kMaxUbatch));
  }
  RETURN_IF_ERROR(FillKvTypes(message, options));
  return FillOtherEngines(message, options);
}

absl::Status FillWorkspace(const v1::WorkspaceParameters& message,
                           planner::WorkspaceParameters& workspace) {
  workspace.activation_block = message.activation_block();
  workspace.activation_block_bytes = message.activation_block_bytes();
  ASSIGN_OR_RETURN(
      workspace.kernel_scratch_bytes,
      Signed(message.kernel_scratch_bytes(), "kernel_scratch_bytes"));
  workspace.min_logits_rows = message.min_logits_rows();
  workspace.max_candidates = message.max_candidates();
  return absl::OkStatus();
}

}  // namespace

absl::Status InvalidField(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, " ", what));
}

absl::StatusOr<int64_t> Signed(uint64_t value, absl::string_view field) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidField(field, "does not fit in 63 bits");
  }
  return static_cast<int64_t>(value);
}

absl::StatusOr<DType> FromProto(v1::ElementType type, absl::string_view field) {
  const int number = static_cast<int>(type);
  const DTypeInfo* info =
      number < 1 ? nullptr : FindDType(static_cast<uint32_t>(number - 1));
  if (info == nullptr) {
    return InvalidField(field, absl::StrCat("is no element type: ", number));
  }
  return info->dtype;
}

absl::StatusOr<planner::PlanOptions> FromProto(const v1::LoadOptions& message) {
  planner::PlanOptions options;
  RETURN_IF_ERROR(Fill(message, options));
  return options;
}

absl::StatusOr<planner::LoadOptions> FromProto(
    const v1::LoadOptions& message, const planner::LoadOptions& defaults) {
  planner::PlanOptions options{defaults};
  RETURN_IF_ERROR(Fill(message, options));
  return planner::LoadOptionsOf(options);
}

absl::StatusOr<planner::DeviceProfile> FromProto(
    const v1::DeviceProfile& message) {
  planner::DeviceProfile profile;
  profile.id = message.id();
  profile.kind = message.kind();
  profile.name = message.name();
  ASSIGN_OR_RETURN(profile.total_bytes,
                   Signed(message.total_bytes(), "total_bytes"));
  ASSIGN_OR_RETURN(profile.free_bytes,
                   Signed(message.free_bytes(), "free_bytes"));
  ASSIGN_OR_RETURN(profile.allocation, FromProto(message.allocation()));
  ASSIGN_OR_RETURN(profile.granularity_bytes,
                   Signed(message.granularity_bytes(), "granularity_bytes"));
  ASSIGN_OR_RETURN(profile.alignment, Signed(message.alignment(), "alignment"));
  if (message.storage_size() > kMaxStorageRules) {
    return InvalidField("storage", "has more than 64 rules");
  }
  for (const v1::StorageRule& rule : message.storage()) {
    ASSIGN_OR_RETURN(const DType dtype, FromProto(rule.type(), "storage.type"));
    profile.storage.push_back({dtype, rule.row_multiple()});
  }
  if (message.kv_types_size() > kMaxStorageRules) {
    return InvalidField("kv_types", "has more than 64 types");
  }
  for (const int type : message.kv_types()) {
    ASSIGN_OR_RETURN(const DType dtype,
                     FromProto(static_cast<v1::ElementType>(type), "kv_types"));
    profile.kv_types.push_back(dtype);
  }
  if (profile.kv_types.empty()) {
    profile.kv_types = {DType::kF32, DType::kF16};
  }
  RETURN_IF_ERROR(FillWorkspace(message.workspace(), profile.workspace));
  ASSIGN_OR_RETURN(profile.runtime_bytes,
                   Signed(message.runtime_bytes(), "runtime_bytes"));
  ASSIGN_OR_RETURN(profile.runtime_basis,
                   FromProto(message.runtime_basis(), "runtime_basis"));
  if (message.runtime_note().size() > kMaxRuntimeNoteBytes) {
    return InvalidField("runtime_note", "has more than 256 bytes");
  }
  profile.runtime_note = message.runtime_note();
  ASSIGN_OR_RETURN(profile.message_bytes,
                   Signed(message.message_bytes(), "message_bytes"));
  RETURN_IF_ERROR(planner::ValidateProfile(profile));
  return profile;
}

}  // namespace plimsoll::services
