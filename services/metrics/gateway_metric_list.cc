#include "services/metrics/gateway_metric_list.h"

namespace plimsoll::services {

std::span<const Metric* const> GatewayMetricList() {
  static constexpr const Metric* kList[] = {
      &kGatewayReady,          &kGatewayReplies,
      &kGatewayRetries,        &kGatewayBroken,
      &kGatewayGivenWay,       &kGatewayWorkerReady,
      &kGatewayWorkerInFlight, &kGatewayWorkerInFlightBytes,
      &kGatewayWorkerRequests, &kGatewayWorkerGone};
  return kList;
}

}  // namespace plimsoll::services
