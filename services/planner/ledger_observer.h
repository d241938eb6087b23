// The interface by which a ledger reports its work to metrics.
#ifndef PLIMSOLL_SERVICES_PLANNER_LEDGER_OBSERVER_H_
#define PLIMSOLL_SERVICES_PLANNER_LEDGER_OBSERVER_H_

#include "absl/status/status.h"

namespace plimsoll::services {

// Any threads may call it, at the same time. No method may block.
class LedgerObserver {
 public:
  virtual ~LedgerObserver() = default;
  // A Reserve is answered with `status`, which carries its ErrorDetails.
  virtual void OnReserve(const absl::Status& status) = 0;
  // An administrator has released a lease instead of its holder.
  virtual void OnForceRelease() = 0;
};

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_PLANNER_LEDGER_OBSERVER_H_
