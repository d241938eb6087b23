// The metrics of a planner.
#ifndef PLIMSOLL_SERVICES_METRICS_PLANNER_METRICS_H_
#define PLIMSOLL_SERVICES_METRICS_PLANNER_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "plimsoll/v1/common.pb.h"
#include "services/metrics/scrape.h"
#include "services/planner/ledger.h"
#include "services/planner/ledger_observer.h"
#include "services/server/access/auth_failure.h"

namespace plimsoll::services {

// Counts the answers to Reserve; all other values are read from the ledger at
// each scrape. A ledger has at most planner::LeaseBook::kMaxDevices devices,
// which limits the series that workers can add. Thread-safe.
class PlannerMetrics final : public LedgerObserver {
 public:
  // Takes no lock.
  void OnReserve(const absl::Status& status) override;
  void OnForceRelease() override { ++n_forced_; }

  // Returns the reply to a scrape.
  // `failures` are those of the server's gate.
  std::string Text(Ledger& ledger, bool is_ready,
                   const AuthFailureCounts& failures = {}) const;

 private:
  void AddReserves(Scrape& scrape) const;

  std::atomic<int64_t> n_granted_ = 0;
  std::atomic<int64_t> n_forced_ = 0;
  std::array<std::atomic<int64_t>, v1::ErrorReason_ARRAYSIZE> refused_ = {};
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_METRICS_PLANNER_METRICS_H_
