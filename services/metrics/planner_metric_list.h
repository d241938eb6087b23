// The metrics of a planner. docs/metrics.md explains them.
#ifndef PLIMSOLL_SERVICES_METRICS_PLANNER_METRIC_LIST_H_
#define PLIMSOLL_SERVICES_METRICS_PLANNER_METRIC_LIST_H_

#include <span>

#include "services/metrics/metric.h"

namespace plimsoll::services {

inline constexpr Metric kPlannerReady = {
    "plimsoll_planner_ready", MetricType::kGauge, "",
    "1 if the planner takes calls, else 0: it drains."};
inline constexpr Metric kRecoverySeconds = {
    "plimsoll_planner_recovery_seconds", MetricType::kGauge, "",
    "Time for which nothing is granted yet, because holders may present "
    "leases of an earlier planner; 0 when grants are possible."};
inline constexpr Metric kJournalGood = {
    "plimsoll_planner_journal_good", MetricType::kGauge, "",
    "1 if the journal can be written, else 0; no value without a journal."};
inline constexpr Metric kDeviceCapacityBytes = {
    "plimsoll_device_capacity_bytes", MetricType::kGauge, "device",
    "Memory of the device, as it counts: no more than its workers and "
    "--device-memory say."};
inline constexpr Metric kDeviceHeadroomBytes = {
    "plimsoll_device_headroom_bytes", MetricType::kGauge, "device",
    "Bytes of the device that are kept free."};
inline constexpr Metric kDeviceFreeBytes = {
    "plimsoll_device_free_bytes", MetricType::kGauge, "device",
    "Free bytes that the device itself reported last."};
inline constexpr Metric kDeviceAvailableBytes = {
    "plimsoll_device_available_bytes", MetricType::kGauge, "device",
    "Bytes that could be granted now."};
inline constexpr Metric kDeviceHealthy = {
    "plimsoll_device_healthy", MetricType::kGauge, "device",
    "1 if memory of the device may be granted, 0 after it has failed."};
inline constexpr Metric kLeases = {
    "plimsoll_leases", MetricType::kGauge, "device, state",
    "Leases that are held: reserved, confirmed, or suspect, which are those "
    "that were not renewed in time."};
inline constexpr Metric kLeaseBytes = {"plimsoll_lease_bytes",
                                       MetricType::kGauge, "device, state",
                                       "Granted bytes of these leases."};
inline constexpr Metric kLeaseMeasuredBytes = {
    "plimsoll_lease_measured_bytes", MetricType::kGauge, "device",
    "Bytes that the holders of confirmed leases said they had allocated."};
inline constexpr Metric kLeaseErrorRatio = {
    "plimsoll_lease_error_ratio", MetricType::kGauge, "device",
    "Measured bytes of confirmed leases divided by their granted bytes, minus "
    "1. No value without such leases."};
inline constexpr Metric kReserves = {
    "plimsoll_reserves_total", MetricType::kCounter, "decision, reason",
    "Answers to requests for memory: granted, or refused with the reason of "
    "the error in lower case."};
inline constexpr Metric kForcedReleases = {
    "plimsoll_forced_releases_total", MetricType::kCounter, "",
    "Leases that an administrator released in the place of their holders."};

// All metrics of the list, in the order of a scrape.
std::span<const Metric* const> PlannerMetricList();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_PLANNER_METRIC_LIST_H_
