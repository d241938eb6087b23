// A step that is about to be computed: its rows, and the sequences they are of.
#ifndef PLIMSOLL_WORKER_ENGINE_SCHEDULED_STEP_H_
#define PLIMSOLL_WORKER_ENGINE_SCHEDULED_STEP_H_

#include <vector>

#include "worker/engine/sequence.h"
#include "worker/scheduling/scheduler.h"

namespace plimsoll::worker {

// StepPlanner fills it and StepRunner computes it. The vectors keep their room
// between steps, so that a step allocates nothing.
struct ScheduledStep {
  std::vector<ScheduledRows> rows;
  std::vector<Sequence*> sequences;  // sequences[i] has rows[i]

  bool empty() const { return rows.empty(); }
};

}  // namespace plimsoll::worker

#endif  // PLIMSOLL_WORKER_ENGINE_SCHEDULED_STEP_H_
