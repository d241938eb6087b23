#include "services/wire/from_proto.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/layout/plan_regions.h"
#include "services/host/random_id.h"

namespace plimsoll::services {
namespace {

constexpr int kMaxStorageRules = 64;
constexpr size_t kMaxRuntimeNoteBytes = 256;
constexpr uint32_t kMaxToken = std::numeric_limits<int32_t>::max();

absl::Status Bad(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, " ", what));
}

absl::StatusOr<planner::AllocationRule> FromProto(v1::AllocationRule rule) {
  switch (rule) {
    case v1::ALLOCATION_RULE_EXACT:
      return planner::AllocationRule::kExact;
    case v1::ALLOCATION_RULE_GRANULARITY:
      return planner::AllocationRule::kGranularity;
    case v1::ALLOCATION_RULE_POW2:
      return planner::AllocationRule::kPow2;
    default:
      return Bad("allocation", "is not a known rule");
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
      return Bad(field, "is not a known basis");
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
      return Bad("policy", "is not a known policy");
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
      return Bad("ring", "is not a known rule");
  }
}

absl::Status FillCpuExperts(const v1::LoadOptions& message,
                            planner::LoadOptions& options) {
  if (message.has_n_cpu_experts() && message.auto_cpu_experts()) {
    return Bad("n_cpu_experts", "is a number, and auto_cpu_experts is true");
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

// Sets the options that plan for other engines.
absl::Status FillOtherEngines(const v1::LoadOptions& message,
                              planner::LoadOptions& options) {
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
      options.engine.host_weights.tables = true;
    } else {
      return Bad("host_weights", "has a kind that is not known");
    }
  }
  if (message.has_mmap_weights()) {
    options.engine.mmap_weights = message.mmap_weights();
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
    ASSIGN_OR_RETURN(options.engine.host_budget_bytes,
                     Signed(message.host_budget_bytes(), "host_budget_bytes"));
  }
  return planner::ValidateOptions(options);
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

absl::Status FillStopping(const v1::StoppingOptions& stopping,
                          worker::GenerateOptions& options) {
  if (stopping.stop_strings_size() > worker::GenerateOptions::kMaxStopStrings) {
    return Bad(
        "stopping.stop_strings",
        absl::StrCat("has ", stopping.stop_strings_size(), " strings, at most ",
                     worker::GenerateOptions::kMaxStopStrings));
  }
  if (stopping.stop_token_ids_size() >
      worker::GenerateOptions::kMaxStopTokens) {
    return Bad(
        "stopping.stop_token_ids",
        absl::StrCat("has ", stopping.stop_token_ids_size(), " ids, at most ",
                     worker::GenerateOptions::kMaxStopTokens));
  }
  options.max_tokens = stopping.max_tokens();
  for (const std::string& text : stopping.stop_strings()) {
    const auto bytes = static_cast<int64_t>(text.size());
    if (bytes == 0 || bytes > worker::GenerateOptions::kMaxStopStringBytes) {
      return Bad("stopping.stop_strings",
                 absl::StrCat("has one of ", bytes, " bytes, not 1 to ",
                              worker::GenerateOptions::kMaxStopStringBytes));
    }
    options.stop_strings.push_back(text);
  }
  for (const uint32_t id : stopping.stop_token_ids()) {
    if (id > kMaxToken) {
      return Bad("stopping.stop_token_ids", "has an id out of range");
    }
    options.stop_tokens.push_back(static_cast<int32_t>(id));
  }
  options.ignore_eos = stopping.ignore_eos();
  return absl::OkStatus();
}

// worker::ValidateLogitBias checks the ranges, because it knows the vocabulary.
absl::Status FillLogitBias(const v1::SamplingOptions& message,
                           worker::LogitBiasOptions& options) {
  if (message.has_repetition_penalty()) {
    options.repetition_penalty = message.repetition_penalty();
  }
  if (message.has_presence_penalty()) {
    options.presence_penalty = message.presence_penalty();
  }
  if (message.has_frequency_penalty()) {
    options.frequency_penalty = message.frequency_penalty();
  }
  if (message.has_penalty_last_tokens()) {
    options.penalty_last_tokens = message.penalty_last_tokens();
  }
  for (const v1::LogitBias& one : message.logit_bias()) {
    if (one.id() > kMaxToken) return Bad("logit_bias.id", "is too big");
    options.biases.push_back({static_cast<int32_t>(one.id()), one.bias()});
  }
  return absl::OkStatus();
}

absl::StatusOr<worker::RollMethod> RollMethodFrom(absl::string_view field,
                                                  v1::RollMethod method) {
  switch (method) {
    case v1::ROLL_METHOD_UNSPECIFIED:
    case v1::ROLL_METHOD_SHIFT:
      return worker::RollMethod::kShift;
    case v1::ROLL_METHOD_RECOMPUTE:
      return worker::RollMethod::kRecompute;
    default:
      return Bad(field, "is not a known method");
  }
}

absl::Status FillTools(const v1::ChatMessage& message,
                       worker::ChatMessage& added) {
  if (!message.tool_name().empty() && message.role() != v1::CHAT_ROLE_TOOL) {
    return Bad("chat.messages.tool_name", "is only of role TOOL");
  }
  if (!message.reasoning().empty() &&
      message.role() != v1::CHAT_ROLE_ASSISTANT) {
    return Bad("chat.messages.reasoning", "is only of role ASSISTANT");
  }
  added.tool_name = message.tool_name();
  added.reasoning = message.reasoning();
  for (const v1::ToolCall& call : message.tool_calls()) {
    if (!call.error().empty()) {
      return Bad("chat.messages.tool_calls",
                 absl::StrCat("has what is no call: ", call.error()));
    }
    added.tool_calls.push_back({call.name(), call.arguments()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> Signed(uint64_t value, absl::string_view field) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Bad(field, "does not fit in 63 bits");
  }
  return static_cast<int64_t>(value);
}

absl::StatusOr<DType> FromProto(v1::ElementType type, absl::string_view field) {
  const int number = static_cast<int>(type);
  const DTypeInfo* info =
      number < 1 ? nullptr : FindDType(static_cast<uint32_t>(number - 1));
  if (info == nullptr) {
    return Bad(field, absl::StrCat("is no element type: ", number));
  }
  return info->dtype;
}

absl::StatusOr<planner::LoadOptions> FromProto(
    const v1::LoadOptions& message, const planner::LoadOptions& defaults) {
  planner::LoadOptions options = defaults;
  if (message.has_n_ctx()) options.n_ctx = message.n_ctx();
  if (message.has_max_inference_len()) {
    options.max_inference_len = message.max_inference_len();
  }
  if (message.has_n_slots()) options.n_slots = message.n_slots();
  if (message.has_n_ubatch()) options.n_ubatch = message.n_ubatch();
  if (message.has_n_idle_sessions()) {
    if (message.n_idle_sessions() > 65'536) {
      return Bad("n_idle_sessions", "is above 65536");
    }
    options.n_idle_sessions = message.n_idle_sessions();
  }
  if (message.has_kv_tokens()) {
    ASSIGN_OR_RETURN(options.kv_tokens,
                     Signed(message.kv_tokens(), "kv_tokens"));
  }
  if (message.has_n_draft()) options.n_draft = message.n_draft();
  if (message.has_n_parked()) options.n_parked = message.n_parked();
  RETURN_IF_ERROR(FillCpuExperts(message, options));
  if (message.has_margin_bytes()) {
    ASSIGN_OR_RETURN(options.margin_bytes,
                     Signed(message.margin_bytes(), "margin_bytes"));
  }
  if (options.n_ctx == 0) return Bad("n_ctx", "must be at least 1");
  if (options.max_inference_len == 0) {
    return Bad("max_inference_len", "must be at least 1");
  }
  if (options.n_slots < 1 ||
      options.n_slots > planner::LoadOptions::kMaxSlots) {
    return Bad("n_slots",
               absl::StrCat("must be 1 to ", planner::LoadOptions::kMaxSlots));
  }
  if (options.n_ubatch < 1 ||
      options.n_ubatch > planner::LoadOptions::kMaxUbatch) {
    return Bad("n_ubatch",
               absl::StrCat("must be 1 to ", planner::LoadOptions::kMaxUbatch));
  }
  RETURN_IF_ERROR(FillKvTypes(message, options));
  RETURN_IF_ERROR(FillOtherEngines(message, options));
  return options;
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
    return Bad("storage", "has more than 64 rules");
  }
  for (const v1::StorageRule& rule : message.storage()) {
    ASSIGN_OR_RETURN(const DType dtype, FromProto(rule.type(), "storage.type"));
    profile.storage.push_back({dtype, rule.row_multiple()});
  }
  if (message.kv_types_size() > kMaxStorageRules) {
    return Bad("kv_types", "has more than 64 types");
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
    return Bad("runtime_note", "has more than 256 bytes");
  }
  profile.runtime_note = message.runtime_note();
  ASSIGN_OR_RETURN(profile.message_bytes,
                   Signed(message.message_bytes(), "message_bytes"));
  RETURN_IF_ERROR(planner::ValidateProfile(profile));
  return profile;
}

absl::StatusOr<worker::SamplingOptions> FromProto(
    const v1::SamplingOptions& message) {
  worker::SamplingOptions options;
  if (message.has_temperature()) options.temperature = message.temperature();
  if (message.has_top_k()) {
    if (message.top_k() > kMaxToken) return Bad("sampling.top_k", "is too big");
    options.top_k = static_cast<int32_t>(message.top_k());
  }
  if (message.has_top_p()) options.top_p = message.top_p();
  if (message.has_typical_p()) options.typical_p = message.typical_p();
  if (message.has_min_p()) options.min_p = message.min_p();
  if (message.has_seed()) options.seed = message.seed();
  RETURN_IF_ERROR(worker::ValidateSampling(options));
  return options;
}

absl::StatusOr<std::vector<worker::ChatMessage>> FromProto(
    const v1::ChatPrompt& message) {
  if (message.messages_size() > worker::kMaxChatMessages) {
    return Bad("chat.messages",
               absl::StrCat("has more than ", worker::kMaxChatMessages));
  }
  std::vector<worker::ChatMessage> messages;
  for (const v1::ChatMessage& one : message.messages()) {
    worker::ChatMessage added;
    switch (one.role()) {
      case v1::CHAT_ROLE_SYSTEM:
        added.role = worker::ChatRole::kSystem;
        break;
      case v1::CHAT_ROLE_USER:
        added.role = worker::ChatRole::kUser;
        break;
      case v1::CHAT_ROLE_ASSISTANT:
        added.role = worker::ChatRole::kAssistant;
        break;
      case v1::CHAT_ROLE_TOOL:
        added.role = worker::ChatRole::kTool;
        break;
      default:
        return Bad("chat.messages.role", "is not a known role");
    }
    added.content = one.content();
    RETURN_IF_ERROR(FillTools(one, added));
    messages.push_back(std::move(added));
  }
  return messages;
}

absl::StatusOr<worker::GenerateOptions> FromProto(
    const v1::SamplingOptions& sampling, const v1::StoppingOptions& stopping,
    const v1::ResponseOptions& response, v1::ContextPolicy policy) {
  worker::GenerateOptions options;
  ASSIGN_OR_RETURN(options.sampling, FromProto(sampling));
  RETURN_IF_ERROR(FillLogitBias(sampling, options.logit_bias));
  options.draft_tokens = sampling.draft_tokens();
  RETURN_IF_ERROR(FillStopping(stopping, options));
  if (response.has_top_logprobs()) {
    if (response.top_logprobs() > worker::GenerateOptions::kMaxTopLogprobs) {
      return Bad(
          "response.top_logprobs",
          absl::StrCat("is above ", worker::GenerateOptions::kMaxTopLogprobs));
    }
    options.top_logprobs = static_cast<int>(response.top_logprobs());
  }
  options.prompt_logprobs = response.prompt_logprobs();
  switch (policy) {
    case v1::CONTEXT_POLICY_UNSPECIFIED:
    case v1::CONTEXT_POLICY_STOP:
      options.roll.policy = worker::ContextPolicy::kStop;
      break;
    case v1::CONTEXT_POLICY_ERROR:
      options.roll.policy = worker::ContextPolicy::kError;
      break;
    case v1::CONTEXT_POLICY_ROLL:
      options.roll.policy = worker::ContextPolicy::kRoll;
      break;
    default:
      return Bad("context_policy", "is not a known policy");
  }
  return options;
}

absl::StatusOr<worker::SessionOptions> FromProto(
    const v1::OpenSessionRequest& request) {
  worker::SessionOptions options;
  options.id = request.session_id().empty() ? RandomId() : request.session_id();
  ASSIGN_OR_RETURN(options.roll_method,
                   RollMethodFrom("roll_method", request.roll_method()));
  if (request.has_evict_to()) options.evict_to = request.evict_to();
  if (!request.has_ttl()) return options;
  const google::protobuf::Duration& ttl = request.ttl();
  if (ttl.nanos() < 0 || ttl.nanos() >= 1'000'000'000) {
    return Bad("ttl.nanos", "must be 0 to 999,999,999");
  }
  options.ttl = absl::Seconds(ttl.seconds()) + absl::Nanoseconds(ttl.nanos());
  return options;
}

absl::Status FillRoll(const v1::RollOptions& message,
                      worker::GenerateOptions& options) {
  const bool is_empty = message.method() == v1::ROLL_METHOD_UNSPECIFIED &&
                        !message.has_pin_tokens() && !message.has_evict_to();
  if (is_empty) return absl::OkStatus();
  if (options.roll.policy != worker::ContextPolicy::kRoll) {
    return Bad("roll", "means nothing without CONTEXT_POLICY_ROLL");
  }
  ASSIGN_OR_RETURN(options.roll.method,
                   RollMethodFrom("roll.method", message.method()));
  if (message.has_pin_tokens()) options.roll.pin_tokens = message.pin_tokens();
  if (message.has_evict_to()) options.roll.evict_to = message.evict_to();
  return absl::OkStatus();
}

absl::StatusOr<worker::ConstraintSource> SourceFromProto(
    const v1::OutputConstraint& message) {
  using Form = worker::ConstraintSource::Form;
  worker::ConstraintSource source = {.frame = {.trigger = message.trigger()}};
  switch (message.kind_case()) {
    case v1::OutputConstraint::kJsonSchema:
      source.form = Form::kJsonSchema;
      source.text = message.json_schema();
      break;
    case v1::OutputConstraint::kGbnf:
      source.form = Form::kGbnf;
      source.text = message.gbnf();
      break;
    case v1::OutputConstraint::kRegex:
      source.form = Form::kRegex;
      source.text = message.regex();
      break;
    default:
      return Bad("constraint", "has no json_schema, gbnf or regex");
  }
  if (message.has_schema_options()) {
    if (source.form != Form::kJsonSchema) {
      return Bad("constraint.schema_options", "means nothing without a schema");
    }
    const v1::JsonSchemaOptions& options = message.schema_options();
    source.options = {.closed_objects = options.closed_objects(),
                      .any_order = options.any_order(),
                      .any_spelling = options.any_spelling(),
                      .refuse_unknown = options.refuse_unknown(),
                      .ignore_formats = options.ignore_formats()};
  }
  return source;
}

absl::StatusOr<worker::Constraint> FromProto(
    const v1::OutputConstraint& message, StopCheck stop,
    worker::ConstraintCache* cache) {
  using Form = worker::ConstraintSource::Form;
  ASSIGN_OR_RETURN(const worker::ConstraintSource source,
                   SourceFromProto(message));
  auto constraint = cache != nullptr ? cache->Get(source, stop)
                                     : worker::CompileConstraint(source, stop);
  if (!absl::IsInvalidArgument(constraint.status())) return constraint;
  absl::string_view field = "constraint.regex";
  if (source.form == Form::kJsonSchema) field = "constraint.json_schema";
  if (source.form == Form::kGbnf) field = "constraint.gbnf";
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", constraint.status().message()));
}

}  // namespace plimsoll::services
