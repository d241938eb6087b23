// The reflection services of our servers, both versions.
#ifndef PLIMSOLL_SERVICES_SERVER_REFLECTION_H_
#define PLIMSOLL_SERVICES_SERVER_REFLECTION_H_

#include <cstddef>
#include <cstdint>

namespace plimsoll::services {

// The largest request of reflection: names are short.
inline constexpr size_t kMaxReflectionRequestBytes = 4 << 10;
// What answers that were not read yet may hold, all together. It is taken from
// what gRPC itself may buffer.
inline constexpr int64_t kReflectionBytes = 4 << 20;

// Gives every server that is built from now on grpc.reflection.v1alpha and
// grpc.reflection.v1. Call it once.
void EnableReflection();

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_SERVER_REFLECTION_H_
