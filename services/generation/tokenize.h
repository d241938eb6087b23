// Turns text into ids and back, for any transport.
#ifndef PLIMSOLL_SERVICES_GENERATION_TOKENIZE_H_
#define PLIMSOLL_SERVICES_GENERATION_TOKENIZE_H_

#include "absl/status/statusor.h"
#include "base/stop_check.h"
#include "plimsoll/v1/tokenizer.pb.h"
#include "services/generation/served_model.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

// Both return the response. Its memory is counted in `held`, which may grow.
// Errors: kInvalidArgument naming the field, or if the reply would be too
// large; those of `stop` and of ByteBudget::Share::Grow.
absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const ServedModel& model, const v1::TokenizeRequest& request,
    StopCheck stop, ByteBudget::Share& held);
absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const ServedModel& model, const v1::DetokenizeRequest& request,
    StopCheck stop, ByteBudget::Share& held);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_TOKENIZE_H_
