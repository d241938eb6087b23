#include "services/metrics/planner_metric_list.h"

#include "services/metrics/auth_metric.h"
#include "services/metrics/span_metric.h"

namespace plimsoll::services {

std::span<const Metric* const> PlannerMetricList() {
  static constexpr const Metric* kList[] = {&kPlannerReady,
                                            &kRecoverySeconds,
                                            &kJournalGood,
                                            &kDeviceCapacityBytes,
                                            &kDeviceHeadroomBytes,
                                            &kDeviceFreeBytes,
                                            &kDeviceAvailableBytes,
                                            &kDeviceHealthy,
                                            &kLeases,
                                            &kLeaseBytes,
                                            &kLeaseMeasuredBytes,
                                            &kLeaseErrorRatio,
                                            &kReserves,
                                            &kForcedReleases,
                                            &kAuthFailures,
                                            &kSpans};
  return kList;
}

}  // namespace plimsoll::services
