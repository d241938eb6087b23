// Converts a model's parts on several devices to messages of plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_
#define PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_

#include <string>
#include <vector>

#include "planner/layout/memory_plan.h"
#include "plimsoll/v1/model.pb.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// Converts layers on a device, with their plan. `part` is a planner::SplitPart
// or a worker::EnginePart.
template <typename Part>
v1::ModelPart PartToProto(const std::string& device_id, const Part& part);

// Converts an engine's memory: its plan and what it takes. `device_ids` name
// the devices of its parts. A model on a single device has no parts on the
// wire.
v1::GetMemoryResponse MemoryToProto(const worker::Engine& engine,
                                    const std::vector<std::string>& device_ids);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_
