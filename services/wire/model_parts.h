// Converts a model's parts on several devices to messages of plimsoll.v1.
#ifndef PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_
#define PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/v1/model.pb.h"
#include "services/wire/to_proto.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// Converts layers on a device, without a plan. `part` has first_layer and
// n_layers.
template <typename Part>
v1::ModelPart LayersToProto(const std::string& device_id, const Part& part,
                            int64_t total_bytes) {
  v1::ModelPart message;
  message.set_device_id(device_id);
  message.set_first_layer(ToUint32(part.first_layer));
  message.set_n_layers(ToUint32(part.n_layers));
  message.set_total_bytes(ToUint64(total_bytes));
  return message;
}

// Converts layers on a device with their plan, which `part` also has.
template <typename Part>
v1::ModelPart PartToProto(const std::string& device_id, const Part& part) {
  v1::ModelPart message = LayersToProto(device_id, part, part.plan.total_bytes);
  *message.mutable_plan() = ToProto(part.plan);
  return message;
}

// Converts an engine's memory: its plan and its measured use. `device_ids` name
// the devices of its parts. A model on a single device has no parts on the
// wire.
v1::GetMemoryResponse MemoryToProto(const worker::Engine& engine,
                                    const std::vector<std::string>& device_ids);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_MODEL_PARTS_H_
