#include "services/cli/doctor/clock_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/clock.h"
#include "services/host/clock.h"

namespace plimsoll::cli {
namespace {

// The program is not older than the first of these years, and nobody runs it in
// the last.
constexpr int kFirstYear = 2026;
constexpr int kLastYear = 2100;
// Slewing, by which a clock is set right slowly, is far below this.
constexpr absl::Duration kMaxStep = absl::Milliseconds(1);

constexpr char kSetTheTime[] =
    "set the time and keep it right (timedatectl set-ntp true, or chrony); "
    "certificates and tokens end by it";

// Returns by how much the time of day certainly went another way than the boot
// clock: the least of what the readings allow.
absl::Duration JumpBetween(const ClockReading& first,
                           const ClockReading& second) {
  const absl::Duration wall = second.wall - first.wall;
  const absl::Duration least = second.boot_before - first.boot_after;
  const absl::Duration most = second.boot_after - first.boot_before;
  if (wall < least) return least - wall;
  if (wall > most) return wall - most;
  return absl::ZeroDuration();
}

}  // namespace

ClockReading ReadClocks() {
  ClockReading reading;
  reading.boot_before = services::BootTime();
  reading.wall = absl::Now();
  reading.boot_after = services::BootTime();
  return reading;
}

Diagnosis CheckClocks(const ClockReading& first, const ClockReading& second) {
  if (second.boot_before <= first.boot_after ||
      first.boot_before <= absl::UnixEpoch()) {
    return {.name = "clock",
            .health = Health::kError,
            .found =
                "the clock that leases and deadlines use (CLOCK_BOOTTIME) "
                "does not run",
            .fix =
                "use a kernel or a sandbox that has this clock, which Linux "
                "has had since 2.6.39"};
  }
  const absl::TimeZone utc = absl::UTCTimeZone();
  Diagnosis found{
      .name = "clock",
      .found = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", second.wall, utc)};
  const absl::civil_year_t year = utc.At(second.wall).cs.year();
  if (year < kFirstYear || year >= kLastYear) {
    found.health = Health::kWarning;
    absl::StrAppend(&found.found, " cannot be the time of day");
    found.fix = kSetTheTime;
    return found;
  }
  const absl::Duration jump = JumpBetween(first, second);
  if (jump > kMaxStep) {
    found.health = Health::kWarning;
    absl::StrAppend(
        &found.found, ", which jumped by ",
        absl::FormatDuration(absl::Trunc(jump, absl::Milliseconds(1))),
        " while this command ran");
    found.fix = kSetTheTime;
    return found;
  }
  absl::StrAppend(&found.found, ", and both clocks go the same way");
  return found;
}

}  // namespace plimsoll::cli
