// Descriptions of a loaded model for clients, for people, and for the monitor
// of the process's own memory.
#ifndef PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_DESCRIPTION_H_
#define PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/layout/layer_split.h"
#include "services/generation/served_model.h"
#include "services/worker/models/loaded_model.h"
#include "services/worker/models/model_info.h"
#include "services/worker/models/options.h"

namespace plimsoll::services {

// The model as the calls that use it see it.
ServedModel Served(LoadedModel::Use use, QuotaBook* quotas);

ReadyModel DescribeReady(const LoadedModel& model);

// The model's parts with their devices and plans.
std::vector<PlannedPart> PlannedPartsOf(const LoadedModel& model);

// The parts of a plan with the worker's devices.
std::vector<PlannedPart> PlannedPartsOf(
    const std::vector<planner::SplitPart>& parts,
    const std::vector<WorkerDevice>& devices);

// Bytes on the host that the model holds of what its plans name.
int64_t PlannedResidentBytes(const LoadedModel& model);

// For people: why it has this context, how fast it was read, where its layers
// are, and what devices with memory of their own say of it.
std::string LoadNote(const LoadedModel& model);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WORKER_MODELS_MODEL_DESCRIPTION_H_
