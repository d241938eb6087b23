// A model's parts on several devices as messages of plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_
#define PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_

#include <string>
#include <vector>

#include "planner/layout/memory_plan.h"
#include "plimsoll/v1/model.pb.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// Layers on a device, with their plan. `part` is a planner::SplitPart or a
// worker::EnginePart.
template <typename Part>
v1::ModelPart PartToProto(const std::string& device_id, const Part& part);

// What an engine takes beside its plans. `device_ids` are those of its parts; a
// model on a single device has no parts on the wire.
v1::GetMemoryResponse MemoryToProto(const worker::Engine& engine,
                                    const std::vector<std::string>& device_ids);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_
