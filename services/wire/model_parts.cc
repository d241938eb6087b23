#include "services/wire/model_parts.h"

#include "planner/layout/layer_split.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {

template <typename Part>
v1::ModelPart PartToProto(const std::string& device_id, const Part& part) {
  v1::ModelPart message;
  message.set_device_id(device_id);
  message.set_first_layer(ToUint32(part.first_layer));
  message.set_n_layers(ToUint32(part.n_layers));
  message.set_total_bytes(ToUint64(part.plan.total_bytes));
  *message.mutable_plan() = ToProto(part.plan);
  return message;
}

template v1::ModelPart PartToProto(const std::string&,
                                   const planner::SplitPart&);
template v1::ModelPart PartToProto(const std::string&,
                                   const worker::EnginePart&);

v1::GetMemoryResponse MemoryToProto(
    const worker::Engine& engine, const std::vector<std::string>& device_ids) {
  v1::GetMemoryResponse message;
  *message.mutable_plan() = ToProto(engine.plan());
  *message.mutable_measured() = ToProto(engine.Memory());
  message.set_rss_bytes(ToUint64(worker::ResidentBytes()));
  for (size_t i = 0; device_ids.size() > 1 && i < device_ids.size(); ++i) {
    v1::ModelPart& added = *message.add_parts();
    added = PartToProto(device_ids[i], engine.parts()[i]);
    *added.mutable_measured() = ToProto(engine.MemoryOf(i));
  }
  return message;
}

}  // namespace plimsoll::services
