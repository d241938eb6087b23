#include "services/metrics/gateway_metric_list.h"

#include "services/metrics/auth_metric.h"
#include "services/metrics/span_metric.h"

namespace plimsoll::services {

std::span<const Metric* const> GatewayMetricList() {
  static constexpr const Metric* kList[] = {
      &kGatewayReady,          &kGatewayReplies,
      &kGatewayRetries,        &kGatewayBroken,
      &kGatewayGivenWay,       &kGatewayWorkerReady,
      &kGatewayWorkerInFlight, &kGatewayWorkerInFlightBytes,
      &kGatewayWorkerRequests, &kGatewayWorkerGone,
      &kAuthFailures,          &kSpans};
  return kList;
}

}  // namespace plimsoll::services
