#include "services/wire/model_parts.h"

#include "services/wire/generation_to_proto.h"
#include "services/wire/to_proto.h"
#include "worker/device/host_resources.h"

namespace plimsoll::services {

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
