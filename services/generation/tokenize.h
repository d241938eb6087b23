// Turns text into ids and back, for any transport.
#ifndef PLIMSOLL_SERVICES_GENERATION_TOKENIZE_H_
#define PLIMSOLL_SERVICES_GENERATION_TOKENIZE_H_

#include "absl/status/status.h"
#include "base/stop_check.h"
#include "plimsoll/v1/tokenizer.pb.h"
#include "services/generation/served_model.h"
#include "services/server/byte_budget.h"

namespace plimsoll::services {

// Both fill `response`. Its memory is counted in `held`, which may grow.
// Errors: kInvalidArgument naming the field, or if the reply would be too
// large; those of `stop` and of ByteBudget::Share::Grow.
absl::Status Tokenize(const ServedModel& model,
                      const v1::TokenizeRequest& request, StopCheck stop,
                      ByteBudget::Share& held, v1::TokenizeResponse& response);
absl::Status Detokenize(const ServedModel& model,
                        const v1::DetokenizeRequest& request, StopCheck stop,
                        ByteBudget::Share& held,
                        v1::DetokenizeResponse& response);

}  // namespace plimsoll::services

#endif  // PLIMSOLL_SERVICES_GENERATION_TOKENIZE_H_
