#include "services/metrics/planner_metrics.h"

#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "plimsoll/v1/lease.pb.h"
#include "services/metrics/auth_metric.h"
#include "services/metrics/planner_metric_list.h"
#include "services/metrics/span_metric.h"
#include "services/wire/errors.h"

namespace plimsoll::services {
namespace {

constexpr v1::LeaseState kLeaseStates[] = {v1::LEASE_STATE_RESERVED,
                                           v1::LEASE_STATE_CONFIRMED,
                                           v1::LEASE_STATE_SUSPECT};

// The name of an enum's value without its prefix, in lower case.
std::string WordOf(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

// The leases on one device.
struct DeviceLeases {
  struct Sum {
    int64_t n = 0;
    uint64_t bytes = 0;
    uint64_t measured_bytes = 0;
  };
  std::map<v1::LeaseState, Sum> sums;
};

std::map<std::string, DeviceLeases> Sum(const v1::ListLeasesResponse& list) {
  std::map<std::string, DeviceLeases> devices;
  for (const v1::Lease& lease : list.leases()) {
    DeviceLeases::Sum& sum = devices[lease.device_id()].sums[lease.state()];
    ++sum.n;
    sum.bytes += lease.bytes();
    sum.measured_bytes += lease.measured_bytes();
  }
  return devices;
}

void AddDevices(const v1::ListDevicesResponse& list, Scrape& scrape) {
  for (const v1::Device& one : list.devices()) {
    const Scrape::Label device{"device", one.profile().id()};
    const auto add = [&](const Metric& metric, uint64_t bytes) {
      scrape.Add(metric, {device}, static_cast<double>(bytes));
    };
    add(kDeviceCapacityBytes, one.profile().total_bytes());
    add(kDeviceHeadroomBytes, one.headroom_bytes());
    add(kDeviceFreeBytes, one.profile().free_bytes());
    add(kDeviceAvailableBytes, one.available_bytes());
    scrape.Add(kDeviceHealthy, {device}, one.unhealthy() ? 0.0 : 1.0);
  }
}

void AddLeases(const std::string& id, DeviceLeases& leases, Scrape& scrape) {
  const Scrape::Label device{"device", id};
  for (const v1::LeaseState state : kLeaseStates) {
    const DeviceLeases::Sum& sum = leases.sums[state];
    const std::string word = WordOf(v1::LeaseState_Name(state), "LEASE_STATE_");
    const Scrape::Label label{"state", word};
    scrape.Add(kLeases, {device, label}, sum.n);
    scrape.Add(kLeaseBytes, {device, label}, static_cast<double>(sum.bytes));
  }
  const DeviceLeases::Sum& confirmed = leases.sums[v1::LEASE_STATE_CONFIRMED];
  const auto measured = static_cast<double>(confirmed.measured_bytes);
  scrape.Add(kLeaseMeasuredBytes, {device}, measured);
  if (confirmed.bytes == 0) return;
  scrape.Add(kLeaseErrorRatio, {device},
             measured / static_cast<double>(confirmed.bytes) - 1.0);
}

}  // namespace

void PlannerMetrics::OnReserve(const absl::Status& status) {
  if (status.ok()) {
    ++n_granted_;
    return;
  }
  auto reason = static_cast<size_t>(DetailsOf(status).reason);
  if (reason >= refused_.size()) reason = v1::ERROR_REASON_UNSPECIFIED;
  ++refused_[reason];
}

std::string PlannerMetrics::Text(Ledger& ledger, bool is_ready,
                                 const AuthFailureCounts& failures) const {
  Scrape scrape(PlannerMetricList());
  v1::ListDevicesResponse devices;
  v1::ListLeasesResponse leases;
  // Neither has an error.
  ledger.ListDevices(devices).IgnoreError();
  ledger.ListLeases(v1::ListLeasesRequest(), leases).IgnoreError();
  scrape.Add(kPlannerReady, {}, is_ready ? 1.0 : 0.0);
  scrape.Add(kRecoverySeconds, {},
             static_cast<double>(leases.recovery_left().seconds()) +
                 1e-9 * leases.recovery_left().nanos());
  if (leases.journal() != v1::JOURNAL_STATE_NONE) {
    const bool is_good = leases.journal() == v1::JOURNAL_STATE_GOOD;
    scrape.Add(kJournalGood, {}, is_good ? 1.0 : 0.0);
  }
  AddDevices(devices, scrape);
  std::map<std::string, DeviceLeases> sums = Sum(leases);
  // A device without leases has zeros.
  for (const v1::Device& one : devices.devices()) sums[one.profile().id()];
  for (auto& [id, sum] : sums) AddLeases(id, sum, scrape);
  AddReserves(scrape);
  scrape.Add(kForcedReleases, {}, static_cast<double>(n_forced_.load()));
  AddAuthFailures(failures, scrape);
  AddSpans(scrape);
  return scrape.Text();
}

void PlannerMetrics::AddReserves(Scrape& scrape) const {
  scrape.Add(kReserves, {{"decision", "granted"}, {"reason", ""}},
             n_granted_.load());
  for (size_t i = 0; i < refused_.size(); ++i) {
    const auto reason = static_cast<v1::ErrorReason>(i);
    const int64_t n = refused_[i].load();
    const bool is_common =
        reason == v1::ERROR_REASON_MEMORY_BUDGET_EXCEEDED;  // always there
    if (n == 0 && !is_common) continue;
    scrape.Add(
        kReserves,
        {{"decision", "refused"},
         {"reason", WordOf(v1::ErrorReason_Name(reason), "ERROR_REASON_")}},
        n);
  }
}

}  // namespace plimsoll::services
