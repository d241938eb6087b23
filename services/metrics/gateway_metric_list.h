// The metrics of a gateway. docs/metrics.md explains them.
#ifndef PLIMSOLL_SERVICES_METRICS_GATEWAY_METRIC_LIST_H_
#define PLIMSOLL_SERVICES_METRICS_GATEWAY_METRIC_LIST_H_

#include <span>

#include "services/metrics/metric.h"

namespace plimsoll::services {

inline constexpr Metric kGatewayReady = {
    "plimsoll_gateway_ready", MetricType::kGauge, "",
    "1 if the gateway takes requests and a worker is ready, else 0."};
inline constexpr Metric kGatewayReplies = {
    "plimsoll_gateway_replies_total", MetricType::kCounter, "result",
    "Replies that were asked of workers and have ended: ok, failed, or left, "
    "where the client went away."};
inline constexpr Metric kGatewayRetries = {
    "plimsoll_gateway_retries_total", MetricType::kCounter, "",
    "Requests that went to another worker, because the first one did not "
    "answer or did not take them."};
inline constexpr Metric kGatewayBroken = {
    "plimsoll_gateway_broken_replies_total", MetricType::kCounter, "",
    "Replies whose worker was gone after their first part."};
inline constexpr Metric kGatewayGivenWay = {
    "plimsoll_gateway_given_way_total", MetricType::kCounter, "",
    "Requests that did not go to the worker of their session or prompt, "
    "because it had more than its share to do."};
inline constexpr Metric kGatewayWorkerReady = {
    "plimsoll_gateway_worker_ready", MetricType::kGauge, "worker",
    "1 if the worker says that it is ready, else 0."};
inline constexpr Metric kGatewayWorkerInFlight = {
    "plimsoll_gateway_worker_in_flight", MetricType::kGauge, "worker",
    "Requests that the worker is answering now."};
inline constexpr Metric kGatewayWorkerInFlightBytes = {
    "plimsoll_gateway_worker_in_flight_bytes", MetricType::kGauge, "worker",
    "Bytes of these requests, and 1,024 for each."};
inline constexpr Metric kGatewayWorkerRequests = {
    "plimsoll_gateway_worker_requests_total", MetricType::kCounter, "worker",
    "Requests that were sent to the worker."};
inline constexpr Metric kGatewayWorkerGone = {
    "plimsoll_gateway_worker_gone_total", MetricType::kCounter, "worker",
    "Requests that the worker did not answer, or did not answer to the end."};

// All metrics of the list, in the order of a scrape.
std::span<const Metric* const> GatewayMetricList();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_GATEWAY_METRIC_LIST_H_
