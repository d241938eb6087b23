// Converts requests for text and their parts to values of the worker. The
// conversion checks them, so that they are valid afterwards.
#ifndef PLIMSOLL_SERVICES_WIRE_GENERATION_FROM_PROTO_H_
#define PLIMSOLL_SERVICES_WIRE_GENERATION_FROM_PROTO_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "worker/engine/engine.h"
#include "worker/sampling/sampler.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/schema/constraint.h"

namespace plimsoll::services {

// Every function below returns kInvalidArgument with the name of an invalid
// field.

absl::StatusOr<worker::SamplingOptions> FromProto(
    const v1::SamplingOptions& message);

absl::StatusOr<std::vector<worker::ChatMessage>> FromProto(
    const v1::ChatPrompt& message);

// Converts the parts of a request for text other than its prompt.
absl::StatusOr<worker::GenerateOptions> FromProto(
    const v1::SamplingOptions& sampling, const v1::StoppingOptions& stopping,
    const v1::ResponseOptions& response, v1::ContextPolicy policy);

// Converts all fields except the owner, the turns, and the rendering of the
// chat. A request without an id gets a new one.
absl::StatusOr<worker::SessionOptions> FromProto(
    const v1::OpenSessionRequest& request);

// Sets how the context of `options` rolls.
// Errors: kInvalidArgument naming the field, also if the policy does not roll
// and `message` is not empty.
absl::Status FillRoll(const v1::RollOptions& message,
                      worker::GenerateOptions& options);

// The source of a constraint, which must be set.
// Errors: kInvalidArgument naming the field.
absl::StatusOr<worker::ConstraintSource> SourceFromProto(
    const v1::OutputConstraint& message);
// Compiles a constraint, which must be set, or takes it from `cache`.
// Errors: kInvalidArgument naming the field; those of `stop`.
absl::StatusOr<worker::Constraint> FromProto(
    const v1::OutputConstraint& message, StopCheck stop = NeverStop,
    worker::ConstraintCache* cache = nullptr);
// Sets the constraint of `options` if the request has one. Returns the parts of
// the constraint that have no effect on the reply.
template <typename Request>
absl::StatusOr<worker::SchemaNotes> FillConstraint(
    const Request& request, worker::GenerateOptions& options,
    StopCheck stop = NeverStop, worker::ConstraintCache* cache = nullptr) {
  if (!request.has_constraint()) return worker::SchemaNotes();
  auto constraint = FromProto(request.constraint(), stop, cache);
  if (!constraint.ok()) return constraint.status();
  options.constraint = std::move(constraint->grammar);
  return std::move(constraint->notes);
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_GENERATION_FROM_PROTO_H_
