// Reflection where the gRPC library brings both versions.
#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include "services/common/reflection.h"

namespace plimsoll::services {

void EnableReflection() {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
}

}  // namespace plimsoll::services
