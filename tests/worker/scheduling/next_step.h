// The next step of a scheduler, as the engine takes it.
#ifndef PLIMSOLL_TESTS_WORKER_SCHEDULING_NEXT_STEP_H_
#define PLIMSOLL_TESTS_WORKER_SCHEDULING_NEXT_STEP_H_

#include <cstdint>
#include <vector>

#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {

struct StepLimits {
  int64_t prompt_rows = Scheduler::kNoLimit;
  int64_t first_rows = Scheduler::kNoLimit;  // first rows of who begins
};

// Every sequence that waits begins, if there is a slot.
inline std::vector<ScheduledRows> Next(Scheduler& scheduler,
                                       const StepLimits& limits) {
  scheduler.Admit([&](int64_t, int64_t) {
    return Admission{0, limits.first_rows};
  });
  return scheduler.NextStep(limits.prompt_rows);
}
inline std::vector<ScheduledRows> Next(Scheduler& scheduler) {
  return Next(scheduler, {});
}

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_TESTS_WORKER_SCHEDULING_NEXT_STEP_H_
