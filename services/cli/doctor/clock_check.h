// Checks the clock for leases and deadlines, and the time of day.
#ifndef PLIMSOLL_SERVICES_CLI_DOCTOR_CLOCK_CHECK_H_
#define PLIMSOLL_SERVICES_CLI_DOCTOR_CLOCK_CHECK_H_

#include "absl/time/time.h"
#include "services/cli/doctor/diagnosis.h"

namespace plimsoll::cli {

// The time of day, with the boot clock (services::BootTime) before and after
// it. So a pause of the process between the readings does not look like a jump
// of a clock.
struct ClockReading {
  absl::Time boot_before;
  absl::Time wall;
  absl::Time boot_after;
};

ClockReading ReadClocks();
// The time between the two readings of a check.
inline constexpr absl::Duration kClockWait = absl::Milliseconds(20);

// Compares two readings, the earlier one first.
Diagnosis CheckClocks(const ClockReading& first, const ClockReading& second);

}  // namespace plimsoll::cli

#endif  // PLIMSOLL_SERVICES_CLI_DOCTOR_CLOCK_CHECK_H_
