// Opens a session from a request, for any transport.
#ifndef PLIMSOLL_SERVICES_GENERATION_OPEN_SESSION_H_
#define PLIMSOLL_SERVICES_GENERATION_OPEN_SESSION_H_

#include "absl/status/statusor.h"
#include "plimsoll/v1/session.pb.h"
#include "services/generation/generation.h"
#include "services/generation/served_model.h"
#include "worker/engine/engine.h"

namespace plimsoll::services {

// Opens a session of the caller's tenant. Its system message is tokenised and
// stays in the context; earlier turns are tokenised too.
// If the model's own template cannot be cut into turns, or with tools, the
// session keeps texts.
// Errors: kInvalidArgument naming the field; kUnimplemented if the model's chat
// format is not known; those of Engine::OpenSession, with details.
absl::StatusOr<v1::Session> OpenSession(const ServedModel& model,
                                        const Caller& caller,
                                        const v1::OpenSessionRequest& request);

// Describes a session of `model`.
v1::Session DescribeSession(const ServedModel& model,
                            const worker::SessionInfo& info);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_OPEN_SESSION_H_
