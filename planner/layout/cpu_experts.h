// Experts that lie in host memory, where the CPU computes them, while the rest
// of the model lies on a device with memory of its own.
#ifndef PLIMSOLL_PLANNER_LAYOUT_CPU_EXPERTS_H_
#define PLIMSOLL_PLANNER_LAYOUT_CPU_EXPERTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"

namespace plimsoll::planner {

class PlanInputs;  // plan_regions.h

// If the options request neither a context nor a number of experts, experts
// move to the host until the device has room for this much context, or for the
// model's whole context. Commands that load a model by themselves use the same
// context.
inline constexpr int64_t kContextBeforeExperts = 4'096;

// How the CPU stores experts, and what its kernels read.
const DeviceProfile& HostProfile();

// The number of layers that have experts.
int64_t NumExpertLayers(const ModelShape& shape);

// The layer after the first `n` of those that have experts: the CPU computes
// the experts of all layers before it.
int64_t CpuExpertsEnd(const ModelShape& shape, int64_t n);

// True if the tensor belongs to the experts of a layer before `end`.
bool IsCpuExpert(const WeightTensor& tensor, int64_t end);

// Checks whether experts of such a plan may lie in host memory, if the options
// request that. Errors: kInvalidArgument saying what prevents it.
absl::Status CheckCpuExperts(const ModelShape& shape,
                             const PlanOptions& options,
                             const DeviceProfile& profile);

// Decides for how many layers the experts lie in host memory: for as many as
// the options say, or else
// 1. for as few as leave room on the device for the context asked for or, if it
//    is solved too, for kContextBeforeExperts tokens of it;
// 2. what room is left then goes to a longer context.
// So no expert leaves the device for a context that nobody requested. If there
// is no room even so, the number is the largest that the host has room for, or
// a smaller one that gives the same context.
//
// `cap` is the longest context that the model and the options allow.
int64_t DecideCpuExperts(const PlanInputs& inputs, int64_t cap);

// Says in one sentence why `plan` has this number of layers with experts on the
// host. `asked` are the options before it was decided. Returns an empty text if
// no experts were to move.
std::string CpuExpertsReason(const PlanInputs& inputs, const MemoryPlan& plan,
                             const PlanOptions& asked);

// The part of the plan that the CPU computes: an arena of its own, with the
// regions "weights" and "workspace". Requires plan.HasCpuExperts().
MemoryPlan HostPlanOf(const MemoryPlan& plan);

}  // namespace plimsoll::planner

#endif  // PLIMSOLL_PLANNER_LAYOUT_CPU_EXPERTS_H_
