// Both versions of the reflection service of our servers.
#ifndef PLIMSOLL_SERVICES_SERVER_REFLECTION_H_
#define PLIMSOLL_SERVICES_SERVER_REFLECTION_H_

#include <cstddef>
#include <cstdint>

namespace plimsoll::services {

// The largest request of reflection. Names are short.
inline constexpr size_t kMaxReflectionRequestBytes = 4 << 10;
// The most bytes of all answers that clients have not read yet. They are part
// of the bytes that gRPC itself may buffer.
inline constexpr int64_t kReflectionBytes = 4 << 20;

// Adds grpc.reflection.v1alpha and grpc.reflection.v1 to every server that is
// built from now on. Call it once.
void EnableReflection();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_REFLECTION_H_
