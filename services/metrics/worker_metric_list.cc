#include "services/metrics/worker_metric_list.h"

#include "services/metrics/auth_metric.h"
#include "services/metrics/span_metric.h"

namespace plimsoll::services {

std::span<const Metric* const> WorkerMetricList() {
  static constexpr const Metric* kList[] = {&kReady,
                                            &kResidentBytes,
                                            &kAuthFailures,
                                            &kSpans,
                                            &kTenantRequests,
                                            &kTenantTokens,
                                            &kReceiptsLost,
                                            &kModelState,
                                            &kRequestsRunning,
                                            &kRequestsWaiting,
                                            &kRequestsWaitingLimit,
                                            &kSlots,
                                            &kSessions,
                                            &kSessionKvBytes,
                                            &kKvPages,
                                            &kKvPagesUsed,
                                            &kKvPagesReserved,
                                            &kKvBytes,
                                            &kMemoryBytes,
                                            &kPlannedBytes,
                                            &kBudgetBytes,
                                            &kMeasuredBytes,
                                            &kPlanErrorRatio,
                                            &kWorkerLeaseBytes,
                                            &kLeaseEvents,
                                            &kLoads,
                                            &kUnloads,
                                            &kLoadSeconds,
                                            &kRequests,
                                            &kAdmission,
                                            &kPromptTokens,
                                            &kGenerationTokens,
                                            &kDraftTokens,
                                            &kPreemptions,
                                            &kEvictions,
                                            &kEvictedTokens,
                                            &kTimeToFirstToken,
                                            &kTimePerOutputToken,
                                            &kInterTokenLatency,
                                            &kQueueSeconds,
                                            &kRequestSeconds,
                                            &kStepSeconds,
                                            &kRequestPromptTokens,
                                            &kRequestGenerationTokens,
                                            &kVllmWaiting,
                                            &kVllmRunning,
                                            &kVllmKvUsage,
                                            &kVllmCacheConfig,
                                            &kVllmRejections,
                                            &kGenAiFirstToken,
                                            &kGenAiPerToken,
                                            &kGenAiDuration};
  return kList;
}

}  // namespace plimsoll::services
