// The resources that a dialect may use while it reads a body.
#ifndef PLIMSOLL_SERVICES_HTTP_READ_ROOM_H_
#define PLIMSOLL_SERVICES_HTTP_READ_ROOM_H_

#include <cstdint>

#include "services/http/response_store.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

struct ReadRoom {
  ResponseShelf responses;  // the caller's
  ByteBudget::Share& held;  // the memory that the body holds; may grow
};

// Bytes that a call holds for each byte of its body while it reads it: the
// body, and the parsed tree.
inline constexpr int64_t kJsonPerByte = 24;

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_HTTP_READ_ROOM_H_
