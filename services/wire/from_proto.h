// Messages of plimsoll.v1 as the planner's and the worker's values: checked
// here, once, and valid afterwards.
#ifndef PLIMSOLL_SERVICES_WIRE_FROM_PROTO_H_
#define PLIMSOLL_SERVICES_WIRE_FROM_PROTO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/stop_check.h"
#include "planner/layout/device_profile.h"
#include "planner/layout/memory_plan.h"
#include "plimsoll/v1/common.pb.h"
#include "plimsoll/v1/generation.pb.h"
#include "plimsoll/v1/planner.pb.h"
#include "plimsoll/v1/session.pb.h"
#include "worker/engine/engine.h"
#include "worker/sampling/sampler.h"
#include "worker/text/chat/chat_template.h"
#include "worker/text/grammar/grammar.h"

namespace plimsoll::services {

// Every function below: kInvalidArgument naming the field that makes no sense.

// A count or size on the wire as ours. In what follows `field` is the name for
// the message of an error.
absl::StatusOr<int64_t> Signed(uint64_t value, absl::string_view field);

absl::StatusOr<DType> FromProto(v1::ElementType type, absl::string_view field);

// What is absent in `message` is as in `defaults`.
absl::StatusOr<planner::LoadOptions> FromProto(
    const v1::LoadOptions& message, const planner::LoadOptions& defaults);

absl::StatusOr<planner::DeviceProfile> FromProto(
    const v1::DeviceProfile& message);

absl::StatusOr<worker::SamplingOptions> FromProto(
    const v1::SamplingOptions& message);

absl::StatusOr<std::vector<worker::ChatMessage>> FromProto(
    const v1::ChatPrompt& message);

// The parts of a request for text that are not its prompt.
absl::StatusOr<worker::GenerateOptions> FromProto(
    const v1::SamplingOptions& sampling, const v1::StoppingOptions& stopping,
    const v1::ResponseOptions& response, v1::ContextPolicy policy);

// All but the owner, with a new id where the request has none. `format` is what
// came of the request's chat_format.
absl::StatusOr<worker::SessionOptions> FromProto(
    const v1::OpenSessionRequest& request, worker::ChatFormat format,
    const worker::Tokenizer& tokenizer,
    const worker::EncodeLimits& limits = {});

// How the context of `options` rolls.
// Errors: kInvalidArgument naming the field, also where the policy is not to
// roll and `message` is not empty.
absl::Status FillRoll(const v1::RollOptions& message,
                      worker::GenerateOptions& options);

// The grammar of a constraint that is there.
// Errors: kInvalidArgument naming the field; what `stop` says.
absl::StatusOr<std::shared_ptr<const worker::Grammar>> FromProto(
    const v1::OutputConstraint& message, StopCheck stop = NeverStop);
// The same of a request that may have one.
template <typename Request>
absl::Status FillConstraint(const Request& request,
                            worker::GenerateOptions& options,
                            StopCheck stop = NeverStop) {
  if (!request.has_constraint()) return absl::OkStatus();
  auto grammar = FromProto(request.constraint(), stop);
  if (grammar.ok()) options.constraint = *std::move(grammar);
  return grammar.status();
}

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_WIRE_FROM_PROTO_H_
