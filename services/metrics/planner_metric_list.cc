#include "services/metrics/planner_metric_list.h"

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
                                            &kReserves};
  return kList;
}

}  // namespace plimsoll::services
