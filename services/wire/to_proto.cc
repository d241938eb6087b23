#include "services/wire/to_proto.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "services/wire/change_words.h"

namespace plimsoll::services {
namespace {

v1::ContextLimit ToProto(planner::ContextLimit limit) {
  switch (limit) {
    case planner::ContextLimit::kRequested:
      return v1::CONTEXT_LIMIT_REQUESTED;
    case planner::ContextLimit::kMaxInferenceLen:
      return v1::CONTEXT_LIMIT_MAX_INFERENCE_LEN;
    case planner::ContextLimit::kTrainedContext:
      return v1::CONTEXT_LIMIT_TRAINED_CONTEXT;
    case planner::ContextLimit::kMemory:
      return v1::CONTEXT_LIMIT_MEMORY;
  }
  return v1::CONTEXT_LIMIT_UNSPECIFIED;
}

v1::AllocationRule ToProto(planner::AllocationRule rule) {
  switch (rule) {
    case planner::AllocationRule::kExact:
      return v1::ALLOCATION_RULE_EXACT;
    case planner::AllocationRule::kGranularity:
      return v1::ALLOCATION_RULE_GRANULARITY;
    case planner::AllocationRule::kPow2:
      return v1::ALLOCATION_RULE_POW2;
  }
  return v1::ALLOCATION_RULE_UNSPECIFIED;
}

v1::ReservePolicy ToProto(planner::ReservePolicy policy) {
  switch (policy) {
    case planner::ReservePolicy::kExact:
      return v1::RESERVE_POLICY_EXACT;
    case planner::ReservePolicy::kDense:
      return v1::RESERVE_POLICY_DENSE;
    case planner::ReservePolicy::kWindowed:
      return v1::RESERVE_POLICY_WINDOWED;
  }
  return v1::RESERVE_POLICY_UNSPECIFIED;
}

v1::RingRule ToProto(planner::RingRule rule) {
  switch (rule) {
    case planner::RingRule::kExact:
      return v1::RING_RULE_EXACT;
    case planner::RingRule::kFull:
      return v1::RING_RULE_FULL;
    case planner::RingRule::kWindowPlusUbatch:
      return v1::RING_RULE_WINDOW_PLUS_UBATCH;
    case planner::RingRule::kWindowPlusTokens:
      return v1::RING_RULE_WINDOW_PLUS_TOKENS;
  }
  return v1::RING_RULE_UNSPECIFIED;
}

v1::LeaseState ToProto(planner::LeaseState state) {
  switch (state) {
    case planner::LeaseState::kReserved:
      return v1::LEASE_STATE_RESERVED;
    case planner::LeaseState::kConfirmed:
      return v1::LEASE_STATE_CONFIRMED;
    case planner::LeaseState::kSuspect:
      return v1::LEASE_STATE_SUSPECT;
    case planner::LeaseState::kReleased:
      return v1::LEASE_STATE_RELEASED;
  }
  return v1::LEASE_STATE_UNSPECIFIED;
}

v1::MemoryRegion ToProto(const planner::Region& region) {
  v1::MemoryRegion message;
  message.set_name(std::string(region.name));
  message.set_bytes(ToUint64(region.bytes));
  message.set_basis(services::ToProto(region.basis));
  message.set_formula(region.formula);
  if (region.offset >= 0) message.set_offset(ToUint64(region.offset));
  if (region.alignment > 0) message.set_alignment(ToUint64(region.alignment));
  if (region.on_host) message.set_on_host(true);
  if (region.is_mapped) message.set_mapped(true);
  return message;
}

void AddWeightSummaries(const planner::ModelShape& shape,
                        v1::DescribeModelResponse& message) {
  std::map<DType, std::pair<int64_t, int64_t>> by_type;  // tensors, bytes
  int64_t total = 0;
  for (const planner::WeightTensor& tensor : shape.weights) {
    auto& [n_tensors, bytes] = by_type[tensor.dtype];
    ++n_tensors;
    bytes += tensor.file_bytes;
    total += tensor.file_bytes;
  }
  message.set_weight_bytes(ToUint64(total));
  std::vector<std::pair<DType, std::pair<int64_t, int64_t>>> sorted(
      by_type.begin(), by_type.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.second > b.second.second;
                   });
  for (const auto& [dtype, counts] : sorted) {
    v1::WeightSummary& summary = *message.add_weights();
    summary.set_type(services::ToProto(dtype));
    summary.set_n_tensors(ToUint32(counts.first));
    summary.set_bytes(ToUint64(counts.second));
  }
}

// Sets only the options that differ from this engine's own ways.
void SetOtherEngines(const planner::PlanOptions& options,
                     v1::LoadOptions& message) {
  if (options.engine.policy != planner::ReservePolicy::kExact) {
    message.set_policy(ToProto(options.engine.policy));
  }
  if (options.engine.ring != planner::RingRule::kExact) {
    message.set_ring(ToProto(options.engine.ring));
    message.set_ring_tokens(ToUint32(options.engine.ring_tokens));
  }
  if (!options.engine.flash_attention) message.set_flash_attention(false);
  if (options.engine.allocation) {
    message.set_allocation(ToProto(options.engine.allocation->rule));
    message.set_granularity_bytes(
        ToUint64(options.engine.allocation->granularity_bytes));
  }
  if (options.engine.weight_bytes) {
    message.set_weight_bytes(ToUint64(*options.engine.weight_bytes));
  }
  if (options.engine.weight_type) {
    message.set_weight_type(services::ToProto(*options.engine.weight_type));
  }
  if (options.engine.host_weights.experts) {
    message.add_host_weights(v1::HOST_WEIGHTS_EXPERTS);
  }
  if (options.engine.host_weights.per_layer_embeddings) {
    message.add_host_weights(v1::HOST_WEIGHTS_PER_LAYER_EMBEDDINGS);
  }
  if (options.host_tables) {
    message.add_host_weights(v1::HOST_WEIGHTS_TABLES);
  }
  if (options.mmap_weights) message.set_mmap_weights(true);
  if (options.engine.projector) {
    message.set_projector_weight_bytes(
        ToUint64(options.engine.projector->weights));
    message.set_projector_workspace_bytes(
        ToUint64(options.engine.projector->workspace));
  }
  if (options.host_budget_bytes) {
    message.set_host_budget_bytes(ToUint64(*options.host_budget_bytes));
  }
}

}  // namespace

uint32_t ToUint32(int64_t value) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}

uint64_t ToUint64(int64_t value) {
  return static_cast<uint64_t>(std::max<int64_t>(value, 0));
}

v1::ElementType ToProto(DType dtype) {
  // The enum's numbers are the file format's, plus one for UNSPECIFIED.
  return static_cast<v1::ElementType>(static_cast<int>(dtype) + 1);
}

v1::Basis ToProto(planner::Basis basis) {
  switch (basis) {
    case planner::Basis::kDerived:
      return v1::BASIS_DERIVED;
    case planner::Basis::kMeasured:
      return v1::BASIS_MEASURED;
    case planner::Basis::kEstimated:
      return v1::BASIS_ESTIMATED;
  }
  return v1::BASIS_UNSPECIFIED;
}

v1::LoadOptions ToProto(const planner::PlanOptions& options) {
  v1::LoadOptions message;
  if (options.n_ctx.has_value()) message.set_n_ctx(ToUint32(*options.n_ctx));
  if (options.max_inference_len.has_value()) {
    message.set_max_inference_len(ToUint32(*options.max_inference_len));
  }
  message.set_n_slots(ToUint32(options.n_slots));
  message.set_n_ubatch(ToUint32(options.n_ubatch));
  if (options.idle_session_bytes.has_value()) {
    message.set_idle_session_bytes(ToUint64(*options.idle_session_bytes));
  } else {
    message.set_n_idle_sessions(ToUint32(options.n_idle_sessions));
  }
  message.set_n_draft(ToUint32(options.n_draft));
  if (options.draft_source == planner::DraftSource::kMtp) {
    message.set_draft_source(v1::DRAFT_SOURCE_MTP);
  }
  message.set_n_parked(ToUint32(options.n_parked));
  if (options.kv_tokens.has_value()) {
    message.set_kv_tokens(ToUint64(*options.kv_tokens));
  }
  message.set_k_type(ToProto(options.k_type));
  message.set_v_type(ToProto(options.v_type));
  message.set_margin_bytes(ToUint64(options.margin_bytes));
  if (!options.n_cpu_experts.has_value()) {
    message.set_auto_cpu_experts(true);
  } else if (*options.n_cpu_experts > 0) {
    message.set_n_cpu_experts(ToUint32(*options.n_cpu_experts));
  }
  SetOtherEngines(options, message);
  return message;
}

v1::Suggestion ToProto(const planner::Suggestion& suggestion) {
  v1::Suggestion message;
  message.set_text(FlagsOf(suggestion.change));
  message.set_saves_bytes(ToUint64(suggestion.saves_bytes));
  message.set_n_ctx(ToUint32(suggestion.n_ctx));
  return message;
}

v1::MemoryPlan ToProto(const planner::MemoryPlan& plan) {
  v1::MemoryPlan message;
  message.set_n_ctx(ToUint32(plan.n_ctx));
  message.set_n_ctx_reason(plan.n_ctx_reason);
  message.set_n_ctx_limit(ToProto(plan.context_limit));
  message.set_fits(plan.fits);
  message.set_total_bytes(ToUint64(plan.total_bytes));
  message.set_budget_bytes(ToUint64(plan.budget_bytes));
  message.set_arena_bytes(ToUint64(plan.arena_bytes));
  message.set_missing_bytes(ToUint64(plan.missing_bytes));
  for (const planner::Region& region : plan.regions) {
    *message.add_regions() = ToProto(region);
  }
  for (const planner::Suggestion& suggestion : plan.suggestions) {
    *message.add_suggestions() = ToProto(suggestion);
  }
  *message.mutable_options() = ToProto(plan.options);
  message.set_n_rows(ToUint32(plan.n_rows));
  message.set_kv_bytes_per_token(
      ToUint64(plan.kv.bytes_per_token + plan.mtp_kv.bytes_per_token));
  message.set_page_tokens(ToUint32(plan.kv.page_tokens));
  message.set_reserve_bytes(ToUint64(plan.reserve_bytes));
  message.set_host_bytes(ToUint64(plan.host_bytes));
  if (plan.mapped_bytes > 0) {
    message.set_mapped_bytes(ToUint64(plan.mapped_bytes));
  }
  message.set_binding_term(plan.binding_term);
  message.set_cpu_experts_reason(plan.cpu_experts_reason);
  message.set_idle_session_bytes(ToUint64(plan.IdleSessionBytes()));
  message.set_marginal_bytes_per_token(ToUint64(plan.bytes_per_token));
  message.set_marginal_bytes_per_slot(ToUint64(plan.bytes_per_slot));
  for (const std::string& reason : plan.not_runnable) {
    message.add_not_runnable(reason);
  }
  return message;
}

v1::PlanSetResponse ToProto(const planner::SetPlan& set) {
  v1::PlanSetResponse message;
  for (const planner::MemoryPlan& plan : set.plans) {
    *message.add_plans() = ToProto(plan);
  }
  message.set_total_bytes(ToUint64(set.total_bytes));
  message.set_budget_bytes(ToUint64(set.budget_bytes));
  message.set_fits(set.fits);
  return message;
}

v1::PlanSplitResponse ToProto(
    const planner::SplitPlan& split,
    const std::vector<planner::SplitDevice>& devices) {
  v1::PlanSplitResponse message;
  for (const planner::SplitDevice& device : devices) {
    message.add_budget_bytes(ToUint64(device.budget_bytes));
  }
  for (const planner::SplitPart& part : split.parts) {
    v1::SplitPart& added = *message.add_parts();
    added.set_device(ToUint32(part.device));
    added.set_first_layer(ToUint32(part.first_layer));
    added.set_n_layers(ToUint32(part.n_layers));
    *added.mutable_plan() = ToProto(part.plan);
  }
  message.set_n_ctx(ToUint32(split.n_ctx));
  message.set_fits(split.fits);
  message.set_n_layers_left(ToUint32(split.n_layers_left));
  message.set_n_ctx_reason(split.n_ctx_reason);
  message.set_missing_bytes(ToUint64(split.missing_bytes));
  for (const planner::Suggestion& suggestion : split.suggestions) {
    *message.add_suggestions() = ToProto(suggestion);
  }
  return message;
}

v1::DeviceProfile ToProto(const planner::DeviceProfile& profile) {
  v1::DeviceProfile message;
  message.set_id(profile.id);
  message.set_kind(profile.kind);
  message.set_name(profile.name);
  message.set_total_bytes(ToUint64(profile.total_bytes));
  message.set_free_bytes(ToUint64(profile.free_bytes));
  message.set_allocation(ToProto(profile.allocation));
  message.set_granularity_bytes(ToUint64(profile.granularity_bytes));
  message.set_alignment(ToUint64(profile.alignment));
  for (const planner::StorageRule& rule : profile.storage) {
    v1::StorageRule& added = *message.add_storage();
    added.set_type(ToProto(rule.dtype));
    added.set_row_multiple(ToUint32(rule.row_multiple));
  }
  for (const DType type : profile.kv_types) {
    message.add_kv_types(ToProto(type));
  }
  const planner::WorkspaceParameters& workspace = profile.workspace;
  v1::WorkspaceParameters& wire = *message.mutable_workspace();
  wire.set_activation_block(ToUint32(workspace.activation_block));
  wire.set_activation_block_bytes(ToUint32(workspace.activation_block_bytes));
  wire.set_kernel_scratch_bytes(ToUint64(workspace.kernel_scratch_bytes));
  wire.set_min_logits_rows(ToUint32(workspace.min_logits_rows));
  wire.set_max_candidates(ToUint32(workspace.max_candidates));
  message.set_runtime_bytes(ToUint64(profile.runtime_bytes));
  message.set_runtime_basis(ToProto(profile.runtime_basis));
  message.set_runtime_note(profile.runtime_note);
  message.set_message_bytes(ToUint64(profile.message_bytes));
  return message;
}

v1::DescribeModelResponse ToProto(const planner::ModelShape& shape) {
  v1::DescribeModelResponse message;
  message.set_architecture(shape.architecture);
  message.set_display_name(shape.name);
  message.set_n_layers(ToUint32(shape.n_layers));
  message.set_model_dim(ToUint32(shape.model_dim));
  message.set_n_heads(ToUint32(shape.n_heads));
  if (!shape.layers.empty()) {
    const auto attends =
        std::ranges::find_if(shape.layers, &planner::LayerShape::Attends);
    const planner::LayerShape& layer =
        attends != shape.layers.end() ? *attends : shape.layers.front();
    message.set_n_kv_heads(ToUint32(layer.n_kv_heads));
    message.set_head_dim(ToUint32(layer.head_dim));
  }
  message.set_vocab_size(ToUint32(shape.vocab_size));
  message.set_n_ctx_train(ToUint32(shape.n_ctx_train));
  message.set_tied_output(shape.tied_output);
  int64_t n_window_layers = 0;
  int64_t window = 0;
  for (const planner::LayerShape& layer : shape.layers) {
    if (layer.window == 0) continue;
    ++n_window_layers;
    window = std::max(window, layer.window);
  }
  message.set_n_window_layers(ToUint32(n_window_layers));
  if (window > 0) message.set_window(ToUint32(window));
  AddWeightSummaries(shape, message);
  return message;
}

v1::Lease ToProto(const planner::Lease& lease, absl::Time now) {
  v1::Lease message;
  message.set_id(lease.id);
  message.set_device_id(lease.device_id);
  message.set_holder(lease.holder);
  message.set_purpose(lease.purpose);
  message.set_bytes(ToUint64(lease.bytes));
  message.set_measured_bytes(ToUint64(lease.measured_bytes));
  message.set_epoch(ToUint64(lease.epoch));
  message.set_state(ToProto(lease.state));
  *message.mutable_expires_in() = ToProto(lease.expires - now);
  *message.mutable_ttl() = ToProto(planner::LeaseTimes::kDefaultTtl);
  *message.mutable_held_for() = ToProto(now - lease.granted);
  return message;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  // Both fields carry the duration's sign, as the message demands.
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  google::protobuf::Duration message;
  message.set_seconds(nanos / 1'000'000'000);
  message.set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return message;
}

}  // namespace plimsoll::services
