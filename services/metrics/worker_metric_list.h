// The metrics of a worker, which `plimsoll serve` has, too. docs/metrics.md
// explains them.
#ifndef PLIMSOLL_SERVICES_METRICS_WORKER_METRIC_LIST_H_
#define PLIMSOLL_SERVICES_METRICS_WORKER_METRIC_LIST_H_

#include <span>

#include "services/metrics/metric.h"

namespace plimsoll::services {

// The process.
inline constexpr Metric kReady = {
    "plimsoll_ready", MetricType::kGauge, "",
    "1 if the process takes calls, else 0: it loads models or drains."};
inline constexpr Metric kResidentBytes = {"process_resident_memory_bytes",
                                          MetricType::kGauge, "",
                                          "Resident memory of the process."};

// Tenants, if there are quotas.
inline constexpr Metric kTenantRequests = {
    "plimsoll_tenant_requests_total", MetricType::kCounter, "tenant, decision",
    "Requests of a tenant that its quota admitted or refused."};
inline constexpr Metric kTenantTokens = {
    "plimsoll_tenant_tokens_total", MetricType::kCounter, "tenant, kind",
    "Tokens of a tenant: prompt tokens that were computed or cached, and "
    "generated ones."};

inline constexpr Metric kReceiptsLost = {
    "plimsoll_receipts_lost_total", MetricType::kCounter, "",
    "Receipts that could not be written and had no room to wait. No value "
    "without --usage-file."};

// Models, as they are now.
inline constexpr Metric kModelState = {
    "plimsoll_model_state", MetricType::kGauge, "model, state",
    "1 for the state that the model is in: unloaded, loading, ready or "
    "unloading; else 0."};
inline constexpr Metric kRequestsRunning = {"plimsoll_requests_running",
                                            MetricType::kGauge, "model",
                                            "Streams that hold a slot."};
inline constexpr Metric kRequestsWaiting = {"plimsoll_requests_waiting",
                                            MetricType::kGauge, "model",
                                            "Streams that wait for a slot."};
inline constexpr Metric kRequestsWaitingLimit = {
    "plimsoll_requests_waiting_limit", MetricType::kGauge, "model",
    "Streams that may wait; the next one is refused."};
inline constexpr Metric kSlots = {"plimsoll_slots", MetricType::kGauge, "model",
                                  "Streams that may run at once."};
inline constexpr Metric kSessions = {"plimsoll_sessions", MetricType::kGauge,
                                     "model", "Open sessions."};
inline constexpr Metric kSessionKvBytes = {
    "plimsoll_session_kv_bytes", MetricType::kGauge, "model, device",
    "Bytes of the KV cache that are reserved for open sessions, a whole "
    "context for each."};
inline constexpr Metric kKvPages = {
    "plimsoll_kv_pages", MetricType::kGauge, "model",
    "Pages of the KV cache, which all slots share."};
inline constexpr Metric kKvPagesUsed = {
    "plimsoll_kv_pages_used", MetricType::kGauge, "model",
    "Pages of the KV cache in use after the last step."};
inline constexpr Metric kKvPagesReserved = {
    "plimsoll_kv_pages_reserved", MetricType::kGauge, "model",
    "Pages of the KV cache that running requests and sessions may need at "
    "most. No value with preemption, which reserves none."};
inline constexpr Metric kKvBytes = {
    "plimsoll_kv_bytes", MetricType::kGauge, "model, device, state",
    "Bytes of the KV cache's pages: reserved by the plan, and of these used "
    "and free."};

// Memory.
inline constexpr Metric kMemoryBytes = {
    "plimsoll_memory_bytes", MetricType::kGauge, "model, device, kind",
    "Planned bytes of a loaded model: weights, kv, scratch or overhead."};
inline constexpr Metric kPlannedBytes = {
    "plimsoll_planned_bytes", MetricType::kGauge, "device",
    "Bytes of the plans of all loaded models."};
inline constexpr Metric kBudgetBytes = {
    "plimsoll_budget_bytes", MetricType::kGauge, "device",
    "Bytes that the device had for the loaded models when they were planned."};
inline constexpr Metric kMeasuredBytes = {
    "plimsoll_measured_bytes", MetricType::kGauge, "device",
    "Measured bytes: on the host what the process has resident, on another "
    "device what the loads took of its free bytes."};
inline constexpr Metric kPlanErrorRatio = {
    "plimsoll_plan_error_ratio", MetricType::kGauge, "device",
    "Measured bytes divided by planned bytes, minus 1. Above 0 the plan "
    "promised too little. No value on a host where weights are mapped."};
inline constexpr Metric kWorkerLeaseBytes = {
    "plimsoll_worker_lease_bytes", MetricType::kGauge, "device",
    "Bytes of the leases that this worker holds for loaded models."};
inline constexpr Metric kLeaseEvents = {
    "plimsoll_lease_events_total", MetricType::kCounter, "device, event",
    "Leases that were granted to this worker, that it released, and that the "
    "planner did not know any more (lost)."};

// Loads.
inline constexpr Metric kLoads = {"plimsoll_loads_total", MetricType::kCounter,
                                  "model, result",
                                  "Loads that have ended: ok or error."};
inline constexpr Metric kUnloads = {"plimsoll_unloads_total",
                                    MetricType::kCounter, "model",
                                    "Unloads that have ended."};
inline constexpr Metric kLoadSeconds = {
    "plimsoll_load_seconds", MetricType::kGauge, "model, phase",
    "Time of the last load: total from the request to its end, and of that "
    "weights for reading and storing them."};

// Requests and tokens.
inline constexpr Metric kRequests = {
    "plimsoll_requests_total", MetricType::kCounter, "model, result",
    "Requests that have ended, by their finish reason or error."};
inline constexpr Metric kAdmission = {
    "plimsoll_admission_total", MetricType::kCounter, "model, decision, reason",
    "Requests that came to a model: admitted, or refused with a reason."};
inline constexpr Metric kPromptTokens = {
    "plimsoll_prompt_tokens_total", MetricType::kCounter, "model, cached",
    "Tokens of prompts: computed (false), or found in the cache by requests "
    "that have ended (true)."};
inline constexpr Metric kGenerationTokens = {
    "plimsoll_generation_tokens_total", MetricType::kCounter, "model",
    "Generated tokens since the load."};
inline constexpr Metric kDraftTokens = {
    "plimsoll_draft_tokens_total", MetricType::kCounter, "model, accepted",
    "Guessed tokens that were computed since the load: right (true) or wrong "
    "(false)."};
inline constexpr Metric kPreemptions = {
    "plimsoll_preemptions_total", MetricType::kCounter, "model",
    "How often a stream lost its slot to others since the load."};
inline constexpr Metric kEvictions = {
    "plimsoll_evictions_total", MetricType::kCounter, "model",
    "How often tokens left a full context, of requests that have ended."};
inline constexpr Metric kEvictedTokens = {
    "plimsoll_evicted_tokens_total", MetricType::kCounter, "model",
    "Tokens that left a full context, of requests that have ended."};
inline constexpr Metric kTimeToFirstToken = {
    "plimsoll_time_to_first_token_seconds", MetricType::kHistogram, "model",
    "Time from a request's arrival at the engine to its first token."};
inline constexpr Metric kTimePerOutputToken = {
    "plimsoll_time_per_output_token_seconds", MetricType::kHistogram, "model",
    "Mean time between two tokens of a request, once for each request with "
    "two tokens or more."};
inline constexpr Metric kInterTokenLatency = {
    "plimsoll_inter_token_latency_seconds", MetricType::kHistogram, "model",
    "Time of a step in which streams generate, once for each such step: all "
    "these streams wait that time for their next token."};
inline constexpr Metric kQueueSeconds = {
    "plimsoll_queue_seconds", MetricType::kHistogram, "model",
    "Time from a request's arrival to its first computed row."};
inline constexpr Metric kRequestSeconds = {
    "plimsoll_request_seconds", MetricType::kHistogram, "model",
    "Time from a request's arrival to its end."};
inline constexpr Metric kStepSeconds = {
    "plimsoll_step_seconds", MetricType::kHistogram, "model",
    "Time of a step, with the hand-over of its output."};
inline constexpr Metric kRequestPromptTokens = {
    "plimsoll_request_prompt_tokens", MetricType::kHistogram, "model",
    "Tokens of a request's context before its reply."};
inline constexpr Metric kRequestGenerationTokens = {
    "plimsoll_request_generation_tokens", MetricType::kHistogram, "model",
    "Generated tokens of a request."};

// Names that inference gateways read unless they are told others.
inline constexpr Metric kVllmWaiting = {"vllm:num_requests_waiting",
                                        MetricType::kGauge, "model_name",
                                        "As plimsoll_requests_waiting."};
inline constexpr Metric kVllmRunning = {"vllm:num_requests_running",
                                        MetricType::kGauge, "model_name",
                                        "As plimsoll_requests_running."};
inline constexpr Metric kVllmKvUsage = {
    "vllm:kv_cache_usage_perc", MetricType::kGauge, "model_name",
    "Used part of the KV cache's pages, from 0 to 1."};
inline constexpr Metric kVllmCacheConfig = {
    "vllm:cache_config_info", MetricType::kGauge,
    "model_name, block_size, num_gpu_blocks",
    "1; the labels have the tokens of a page and the number of pages."};
inline constexpr Metric kVllmRejections = {
    "vllm:admission_rejections_total", MetricType::kCounter,
    "model_name, reason",
    "As plimsoll_admission_total with the decision refused."};
// Names of OpenTelemetry's conventions, as Prometheus spells them.
inline constexpr Metric kGenAiFirstToken = {
    "gen_ai_server_time_to_first_token_seconds", MetricType::kHistogram,
    "gen_ai_request_model", "As plimsoll_time_to_first_token_seconds."};
inline constexpr Metric kGenAiPerToken = {
    "gen_ai_server_time_per_output_token_seconds", MetricType::kHistogram,
    "gen_ai_request_model", "As plimsoll_time_per_output_token_seconds."};
inline constexpr Metric kGenAiDuration = {
    "gen_ai_server_request_duration_seconds", MetricType::kHistogram,
    "gen_ai_request_model", "As plimsoll_request_seconds."};

// All of them, in the order of a scrape.
std::span<const Metric* const> WorkerMetricList();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_WORKER_METRIC_LIST_H_
